"""Pages of many logs in one round trip: requests that come while others are under way are sent together.

In a store that is divided by sessions, each is a round trip of its own, several at once.

In the same way the names of sessions are looked up, of which other processes tell by their numbers alone.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from toolcrib.errors import StoreError
from toolcrib.store.followers import Followers
from toolcrib.store.postgres.connection import ConnectionPool
from toolcrib.store.postgres.listener import Numbers
from toolcrib.store.postgres.partitions import SessionKeys
from toolcrib.store.schema import queries

UNDER_WAY = 2
"""Round trips at once, so that nobody waits for a long page of somebody else alone."""

TOGETHER = 100
LINES, FEWEST = 4000, 100
"""Lines of one round trip, and of one reader in it: a reader that gets too few comes back."""

BYTES, FEWEST_BYTES = 4 * 1024 * 1024, 64 * 1024
"""The same in bytes."""


class NewestOfSession(NamedTuple):
    """The number of a session, its last event, its last that belongs to no call, and the revision of its state."""

    number: int
    seq: int
    own: int
    revision: int


NOTHING = NewestOfSession(0, 0, 0, 0)
"""Of a session that is not there."""


_END = 2**31 - 1
"""Behind the last event that a session can have."""


class _PageRequest(NamedTuple):
    session: str
    after: int
    limit: int
    max_bytes: int
    future: asyncio.Future[list[Any]]


class Pages:
    """Readers that follow logs ask here."""

    def __init__(self, keys: SessionKeys) -> None:
        self._keys = keys
        self._wanted: list[_PageRequest] = []
        self._working = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, session: str, after: int, limit: int, max_bytes: int) -> asyncio.Future[list[Any]]:
        """The lines past `after`, at most the limit; fewer where many ask, and none only where there is none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        self._wanted.append(_PageRequest(session, after, limit, max_bytes, future))
        if self._working < UNDER_WAY:
            self._working += 1
            task = loop.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def _work(self) -> None:
        try:
            await self._serve()
        finally:  # at once, so that nobody counts on who has just stopped to look
            self._working -= 1

    async def _serve(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted[:TOGETHER], self._wanted[TOGETHER:]
            try:
                self._tell(wanted, await self._ask(wanted))
            except Exception as error:  # noqa: BLE001 - it goes to those who wait
                for one in wanted:
                    if not one.future.done():
                        one.future.set_exception(error)

    async def _ask(self, wanted: list[_PageRequest]) -> list[Any]:
        sessions, afters, limits, sizes, _ = map(list, zip(*wanted, strict=True))
        most, largest = max(FEWEST, LINES // len(wanted)), max(FEWEST_BYTES, BYTES // len(wanted))
        limits, sizes = [min(limit, most) for limit in limits], [min(size, largest) for size in sizes]
        if not self._keys.divided:
            return await self._keys.fetch("pages", sessions, afters, limits, sizes)
        wants = zip(sessions, afters, limits, sizes, strict=True)
        pages = await asyncio.gather(
            *(self._keys.fetch("events", session, after, _END, limit, size) for session, after, limit, size in wants)
        )
        return [(place, *line) for place, page in enumerate(pages, 1) for line in page]

    def _tell(self, wanted: list[_PageRequest], items: list[Any]) -> None:
        pages: list[list[Any]] = [[] for _ in wanted]
        for place, *line in items:
            pages[place - 1].append(line)
        for one, page in zip(wanted, pages, strict=True):
            if not one.future.done():
                one.future.set_result(page)


class Looks:
    """What is newest of sessions: whoever asks while others are looked up goes with the next round trip."""

    def __init__(self, keys: SessionKeys) -> None:
        self._keys = keys
        self._wanted: dict[str, asyncio.Future[NewestOfSession]] = {}
        self._working = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, session: str) -> asyncio.Future[NewestOfSession]:
        """As of a moment after this. Others may wait for the same future: it is not to be cancelled."""
        future = self._wanted.get(session)
        if future is None:
            loop = asyncio.get_running_loop()
            future = self._wanted[session] = loop.create_future()
            if self._working < UNDER_WAY:
                self._working += 1
                task = loop.create_task(self._work())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return future

    async def _work(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                await self._answer(wanted)
        finally:
            self._working -= 1

    async def _answer(self, wanted: dict[str, asyncio.Future[NewestOfSession]]) -> None:
        try:
            rows = await self._rows(list(wanted))
        except Exception as error:  # noqa: BLE001 - it goes to those who wait
            for future in wanted.values():
                future.set_exception(error)
                future.exception()  # nobody may be left who waits
            return
        newest = {id: NewestOfSession(*values) for id, *values in rows}
        for session, future in wanted.items():
            future.set_result(newest.get(session, NOTHING))

    async def _rows(self, sessions: list[str]) -> list[Any]:
        if not self._keys.divided:
            return await self._keys.fetch("looks", sessions)
        rows = await asyncio.gather(*(self._keys.fetch("looks", session) for session in sessions))
        return [row for some in rows for row in some]


class SessionNames:
    """Sessions that this node has not seen; watchers of all sessions hear of them once their names are known."""

    def __init__(self, pool: ConnectionPool, followers: Followers, numbers: Numbers) -> None:
        self._pool = pool
        self._followers = followers
        self._numbers = numbers
        self._wanted: set[int] = set()
        self._task: asyncio.Task[None] | None = None

    def wanted(self, number: int) -> None:
        """Another process wrote to the session of that number."""
        self._wanted.add(number)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._wanted:
                numbers, self._wanted = list(self._wanted), set()
                for session, number in await self._pool.fetch(queries("postgres")["numbered"], numbers):
                    self._numbers.met(session, number)
                    self._followers.watchers.tell(session)
        except StoreError:
            self._followers.watchers.tell("")  # whoever watches looks for itself
        finally:
            self._task = None

    async def stop(self) -> None:
        """Looks nothing up any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
