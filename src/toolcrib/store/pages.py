"""Pages of many logs in one round trip: what is asked for while others are on their way is asked for together."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from toolcrib.store.connection import Pool
from toolcrib.store.schema import queries

UNDER_WAY = 2
"""Round trips at once, so that nobody waits for a long page of somebody else alone."""

TOGETHER = 100
LINES, FEWEST = 4000, 100
"""Lines of one round trip, and of one reader in it: who gets fewer than asked for comes back."""


class _Wanted(NamedTuple):
    session: str
    after: int
    limit: int
    future: asyncio.Future[list[Any]]


class Pages:
    """Readers that follow logs ask here."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._query = queries("postgres")["pages"]
        self._wanted: list[_Wanted] = []
        self._working = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, session: str, after: int, limit: int) -> asyncio.Future[list[Any]]:
        """The lines past `after`, at most the limit; fewer where many ask, and none only where there is none."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        self._wanted.append(_Wanted(session, after, limit, future))
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
            except Exception as error:  # noqa: BLE001 - it goes to those who asked
                for one in wanted:
                    if not one.future.done():
                        one.future.set_exception(error)

    async def _ask(self, wanted: list[_Wanted]) -> list[Any]:
        sessions, afters, limits, _ = map(list, zip(*wanted, strict=True))
        most = max(FEWEST, LINES // len(wanted))
        return await self._pool.fetch(self._query, sessions, afters, [min(limit, most) for limit in limits])

    def _tell(self, wanted: list[_Wanted], found: list[Any]) -> None:
        pages: list[list[Any]] = [[] for _ in wanted]
        for place, *line in found:
            pages[place - 1].append(line)
        for one, page in zip(wanted, pages, strict=True):
            if not one.future.done():
                one.future.set_result(page)
