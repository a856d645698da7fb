"""Hearing what other stores over the same Postgres database have written.

They tell after each commit (`hints`). A hint that is lost on its way is missed when the next one of its writer comes,
since they are numbered. Where none comes, as of a node that was killed, the number of the batch gives it away: every
writer's last one is in the database, and is compared with the last one heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from toolcrib.errors import StoreUnavailable
from toolcrib.store.followers import Followers
from toolcrib.store.postgres.connection import BROKEN, PAUSE_S, Connection, DatabaseAddress, hang_up
from toolcrib.store.postgres.hints import EVERYTHING
from toolcrib.store.schema import queries

KNOWN = 100_000
"""Sessions whose numbers are remembered."""

CHECK_S = 10.0
"""How long the connection may be silent when it is asked something: a cut cable closes nothing by itself."""

COMPARE_S = 1.0
"""How often numbers are compared. One that was there the last time and was not heard of by now has been missed."""


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

    def number(self, session: str) -> int | None:
        """The number of a session, if it is known."""
        return self._numbers.get(session)

    def id(self, number: int) -> str | None:
        """The session of that number, if it is known."""
        return self._ids.get(number)

    def __contains__(self, session: str) -> bool:
        return session in self._numbers


class Listener:
    """A connection that tells and hears of commits, and what is done about those of others."""

    def __init__(self, address: DatabaseAddress, sender: str, followers: Followers, numbers: Numbers) -> None:
        self._address = address
        self._sender = sender
        self._followers = followers
        self._numbers = numbers
        self._connection: Connection = None
        self._using = asyncio.Lock()
        self._lost = asyncio.Event()
        self._heard_of: dict[str, int] = {}
        self._expected: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._without_numbers: set[str] = set()

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
            await connection.add_listener(self._channel, lambda *heard: self.heard(heard[-1]))
            self._heard_of = dict(await connection.fetch(queries("postgres")["numbers"]))
            self._expected = {}
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
                self._missed()

    async def _until_lost(self) -> None:
        while not self._lost.is_set():
            try:
                async with asyncio.timeout(COMPARE_S):
                    await self._lost.wait()
            except TimeoutError:
                await self._compare()

    async def _compare(self) -> None:
        """Looks for batches whose hints did not come."""
        numbers = dict(await self._ask(queries("postgres")["numbers"]))
        expected, self._expected = self._expected, numbers
        late = {name: number for name, number in expected.items() if self._heard_of.get(name, 0) < number}
        for name in [name for name in late if self._is_own(name) or name in self._without_numbers]:
            del late[name]
        self._without_numbers &= numbers.keys()
        self._heard_of = {name: max(self._heard_of.get(name, 0), late.get(name, 0)) for name in numbers}
        self._lines = {name: line for name, line in self._lines.items() if name in numbers}
        if late:
            log.info("hints of %d nodes were lost: all sessions are looked at", len(late))
            self._missed()

    async def _ask(self, query: str, *values: Any) -> list[Any]:
        """Rows, over the one connection; none where it is lost."""
        async with self._using:
            connection = self._connection
            if connection.is_closed():
                return []
            try:
                rows: list[Any] = await connection.fetch(query, *values, timeout=CHECK_S)
            except BROKEN:  # also a cable that swallows everything: it never answers
                connection.terminate()
                self._lost.set()
                return []
        return rows

    async def notify(self, hints: list[str]) -> None:
        """Sends hints to the other stores; what does not arrive they miss, and notice."""
        await self._ask(queries("postgres")["notify"], hints)

    def _missed(self) -> None:
        """Any session may have moved."""
        self._followers.nudge()
        self._own_changed(EVERY)

    def heard(self, hint: str) -> None:
        """Takes what another store tells, by whichever way it came."""
        sender, *pairs = hint.split(" ")
        if self._is_own(sender):
            return
        if "#" not in hint:  # a node of an older version, which tells in its transactions
            self._without_numbers.add(sender)
        for pair in pairs:  # anybody may send anything
            number, _, seq = pair.partition(":")
            if number.isdecimal() and seq.rstrip("!").isdecimal():
                self._moved(int(number), int(seq.rstrip("!")), seq.endswith("!"))
            elif pair == EVERYTHING:
                self._missed()
            elif pair.startswith("#") and pair[1:].isdecimal():
                self._heard_of[sender] = max(self._heard_of.get(sender, 0), int(pair[1:]))
            elif pair.startswith("^") and pair[1:].isdecimal():
                self._count(sender, int(pair[1:]))

    def _is_own(self, writer: str) -> bool:
        """True of the writers of this store."""
        return writer.partition("-")[0] == self._sender

    def _count(self, sender: str, line: int) -> None:
        """A writer's hint of that number came: those before it should have come by now."""
        last = self._lines.get(sender, 0)
        self._lines[sender] = max(last, line)
        if line > last + 1:
            log.info("%d hints of a node were lost: all sessions are looked at", line - last - 1)
            self._missed()

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
