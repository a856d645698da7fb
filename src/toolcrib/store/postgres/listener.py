"""Hearing what other stores over the same Postgres database have written: they tell, nobody polls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from toolcrib.errors import StoreUnavailable
from toolcrib.store.followers import Followers
from toolcrib.store.postgres.connection import BROKEN, PAUSE_S, Connection, DatabaseAddress, hang_up

KNOWN = 100_000
"""Sessions whose numbers are remembered."""

CHECK_S = 10.0
"""How often a silent connection is probed: a cut cable closes nothing by itself."""


EVERY = ""
"""Any session may have been changed while nobody listened."""

log = logging.getLogger("toolcrib.store")


class Numbers:
    """The ids behind the numbers of sessions that were met here, those of followed ones for as long as they are."""

    def __init__(self, followers: Followers) -> None:
        self._followers = followers
        self.in_use: Callable[[str], bool] = lambda session: False
        self._ids: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def met(self, session: str, number: int) -> None:
        """A session has that number."""
        if self._numbers.get(session) != number:
            if len(self._ids) >= KNOWN:
                self._forget_half()
            self._ids[number] = session
            self._numbers[session] = number

    def _forget_half(self) -> None:
        for number, session in list(self._ids.items())[: KNOWN // 2]:
            if session not in self._followers and not self.in_use(session):
                self.gone(number)

    def gone(self, number: int) -> str | None:
        """The session of that number was deleted; which it was, if it was known."""
        session = self._ids.pop(number, None)
        if session is not None and self._numbers.get(session) == number:
            del self._numbers[session]
        return session

    def id(self, number: int) -> str | None:
        """The session of that number, if it is known."""
        return self._ids.get(number)

    def __contains__(self, session: str) -> bool:
        return session in self._numbers


class Listener:
    """A connection that hears of commits, and what it does about them."""

    def __init__(self, address: DatabaseAddress, sender: str, followers: Followers, numbers: Numbers) -> None:
        self._address = address
        self._sender = sender
        self._followers = followers
        self._numbers = numbers
        self._connection: Connection = None
        self._lost = asyncio.Event()

    async def start(self, channel: str, own_changed: Callable[[str], None], unknown: Callable[[int], None]) -> None:
        """Start listening; `own_changed` is called with events that concern a session itself.

        `unknown` is called with numbers of sessions that this node has not seen, while somebody watches all sessions.
        """
        self._channel = channel
        self._own_changed = own_changed
        self._unknown = unknown
        await self._connect()
        self._task = asyncio.get_running_loop().create_task(self._stay())

    async def stop(self, *, listens: bool = True) -> None:
        """Hangs up."""
        if not listens:
            self._connection.terminate()
        self._task.cancel()
        await asyncio.wait([self._task])
        await hang_up(self._connection, listens=listens)

    async def _connect(self) -> None:
        connection = await self._address.connect()
        self._lost.clear()
        connection.add_termination_listener(lambda _: self._lost.set())
        try:
            await connection.add_listener(self._channel, self._heard)
        except BROKEN as error:
            connection.terminate()
            raise StoreUnavailable(f"The store {self._address.shown} is away: {error}") from None
        except BaseException:
            connection.terminate()  # told to stop just now, and nobody else knows of it
            raise
        self._connection = connection

    async def _stay(self) -> None:
        """Connects again whenever the connection is lost; then all who follow look for what they did not hear."""
        pause = PAUSE_S[0]
        while True:
            await self._until_lost()
            try:
                await self._connect()
            except Exception as error:  # noqa: BLE001 - whatever it is, who does not listen any more hears nothing for ever
                log.info("listening again soon: %s", error)
                self._lost.set()
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_S[1])
            else:
                pause = PAUSE_S[0]
                self._followers.nudge()
                self._own_changed(EVERY)

    async def _until_lost(self) -> None:
        while not self._lost.is_set():
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._lost.wait()
            except TimeoutError:
                await self._check()

    async def _check(self) -> None:
        try:
            await self._connection.execute("SELECT 1", timeout=CHECK_S)
        except BROKEN:  # also a cable that swallows everything: it never answers
            self._connection.terminate()
            self._lost.set()

    def _heard(self, connection: Connection, pid: int, channel: str, payload: str) -> None:
        sender, *pairs = payload.split(" ")
        if sender == self._sender:
            return
        for pair in pairs:
            number, _, seq = pair.partition(":")
            if number.isdecimal() and seq.rstrip("!").isdecimal():  # anybody may send anything
                self._moved(int(number), int(seq.rstrip("!")), seq.endswith("!"))

    def _moved(self, number: int, seq: int, own: bool) -> None:
        session = self._numbers.id(number) if seq else self._numbers.gone(number)
        if session is None:
            if seq and self._followers.watchers.all:
                self._unknown(number)
            return
        if not seq:
            self._followers.forget(session)
            return
        self._followers.moved(session, seq)
        if own:
            self._own_changed(session)
