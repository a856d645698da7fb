"""The logs of all sessions at once: one look for all who watch, and none while nobody does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from toolcrib.crib import Crib
from toolcrib.errors import StoreError
from toolcrib.serve.api.streams import PAGE, Line, Streams
from toolcrib.store import OWNER, SessionRow
from toolcrib.types import Event

LOOK_S = 0.25
SLACK_S = 5.0  # the time of a session's last use may be a little behind
MOST = 1000
log = logging.getLogger("toolcrib.serve")

Tell = Callable[[list[tuple[SessionRow, Event]]], None]
"""Takes what is new in all sessions."""


class Watch:
    """Looks for what is new in any session; no store tells of it."""

    def __init__(self, crib: Crib, streams: Streams) -> None:
        self._crib = crib
        self._streams = streams
        self._lines: dict[Line, Tell] = {}
        self._task: asyncio.Task[None] | None = None
        self._since = 0.0
        self._known: dict[str, int] = {}

    def join(self, line: Line, tell: Tell) -> None:
        """From now on `tell` hears of what comes."""
        if not self._lines:
            self._since, self._known = self._crib.pipeline.clock.now(), {}
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._lines[line] = tell

    def leave(self, line: Line) -> None:
        """One less."""
        self._lines.pop(line, None)
        if not self._lines and self._task is not None:
            self._task.cancel()
            self._task = None

    async def stop(self) -> None:
        """Ends all streams."""
        for line in self._lines:
            line.end("stopping")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        self._lines.clear()

    async def _run(self) -> None:
        while not self._crib.ending:
            try:
                news = await self._look()
            except StoreError as error:
                log.info("sessions are looked at again soon: %s", error)
                news = []
            if news:
                for tell in list(self._lines.values()):
                    tell(news)
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> list[tuple[SessionRow, Event]]:
        rows = await used_since(self._crib, self._crib.pipeline.clock.now() - SLACK_S)
        found: list[tuple[SessionRow, Event]] = []
        for row in rows:
            after = self._known.get(row.id)
            if after is not None and row.seq <= after:
                continue
            first = after is None
            after = max(0, row.seq - MOST) if after is None else after
            while page := await self._crib.store.read(row.id, after, limit=PAGE):
                found += [(row, event) for event in page if not first or event.at >= self._since]
                after = page[-1].seq
            self._known[row.id] = after
        return sorted(found, key=lambda one: (one[1].at, one[0].id, one[1].seq))


async def used_since(crib: Crib, since: float, owner: str | None = None) -> list[SessionRow]:
    """The sessions that were used since, but for the crib's own."""
    rows: list[SessionRow] = []
    last: SessionRow | None = None
    while page := await crib.store.sessions(owner, limit=PAGE, before=last):
        rows += [row for row in page if row.updated_at >= since and row.owner != OWNER]
        last = page[-1]
        if last.updated_at < since or len(page) < PAGE:
            break
    return rows
