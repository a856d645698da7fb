"""The logs of all sessions at once: read once for all who watch, when the store tells of more, and not otherwise."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from toolcrib.crib import Crib
from toolcrib.errors import StoreError
from toolcrib.events import Event
from toolcrib.serve.api.reach import Reaches
from toolcrib.serve.api.streams import EXTENT, PAGE, EventStream, Streams
from toolcrib.store import OWNER, SessionRow

PAUSE_S = 0.02
"""Between two looks: what comes in this time is read together."""

AGAIN_S = 1.0
SLACK_S = 5.0  # the time of a session's last use may be a little behind
MOST = 1000
PAGES = 4
"""Pages of one session that are read at once."""

FEW = 8
"""So many sessions are looked up one by one."""

TICK_S = 1e-6  # past the last event of a session
KNOWN = 10_000
"""Sessions that are remembered with their last event."""

log = logging.getLogger("toolcrib.serve")

Found = list[tuple[SessionRow, Event]]
Tell = Callable[[Found], None]
"""Takes what is new in all sessions."""


class _WatchedSession(NamedTuple):
    """When a session was made, and the last event that was sent of it."""

    made: float
    seq: int
    at: float


class SessionWatcher:
    """Reads what is new in the sessions that the store tells of."""

    def __init__(self, crib: Crib, streams: Streams, reaches: Reaches) -> None:
        self._crib = crib
        self._reaches = reaches
        self._bounded: set[EventStream] = set()
        self._streams = streams
        self._lines: dict[EventStream, Tell] = {}
        self._task: asyncio.Task[None] | None = None
        self._since = self._looked = 0.0
        self._known: dict[str, _WatchedSession] = {}
        self._moved: set[str] = set()
        self._wake = asyncio.Event()

    def join(self, line: EventStream, tell: Tell, *, bounded: bool = False) -> None:
        """From now on `tell` hears of what comes; for one that is `bounded` the reach of each session is looked up."""
        if not self._lines:
            self._since = self._looked = self._crib.pipeline.clock.now()
            self._known, self._moved = {}, set()
            self._unwatch = self._crib.store.watch(self._heard)
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._lines[line] = tell
        if bounded:
            self._bounded.add(line)

    def leave(self, line: EventStream) -> None:
        """One less."""
        self._lines.pop(line, None)
        self._bounded.discard(line)
        if not self._lines and self._task is not None:
            self._unwatch()
            self._task.cancel()
            self._task = None

    async def stop(self) -> None:
        """Ends all streams."""
        for line in self._lines:
            line.end("stopping")
        if self._task is not None:
            self._unwatch()
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        self._lines.clear()
        self._bounded.clear()

    def _heard(self, session: str) -> None:
        self._moved.add(session)
        self._wake.set()

    async def _run(self) -> None:
        while not self._crib.ending:
            await self._wake.wait()
            self._wake.clear()
            news = await self._look()
            for tell in list(self._lines.values()) if news else ():
                tell(news)
            await asyncio.sleep(PAUSE_S)

    async def _look(self) -> Found:
        """What is new in the sessions that moved; where the store is away, the rest is looked at again soon."""
        news, moved, rows = Found(), self._moved, dict[str, SessionRow]()
        self._moved = set()
        try:
            if "" in moved or len(moved) > FEW:
                rows = {row.id: row for row in await self._used()}
            if "" in moved:  # any may have moved
                moved |= {id for id, row in rows.items() if (known := self._of(row)) is None or known.seq < row.seq}
                moved.discard("")
            for session in list(moved):
                news += await self._new(session, rows.get(session))
                moved.discard(session)
                if len(news) >= MOST and moved:  # send these first
                    self._moved |= moved
                    self._wake.set()
                    break
        except StoreError as error:
            log.info("sessions are looked at again soon: %s", error)
            self._moved |= moved
            asyncio.get_running_loop().call_later(AGAIN_S, self._wake.set)
        return await self._with_reach(news)

    async def _with_reach(self, news: Found) -> Found:
        """Return news in order; where a bounded reader listens, of sessions whose reach is known that far."""
        if self._bounded:
            last = {(row.id, row.created_at): (row, event.seq) for row, event in news}
            try:
                for row, seq in last.values():
                    await self._reaches.of(row, seq)
            except StoreError as error:
                log.info("the namespaces of sessions are looked at again soon: %s", error)
                self._reaches.forget()
        return sorted(news, key=lambda one: (one[1].at, one[0].id, one[1].seq))

    async def _used(self) -> list[SessionRow]:
        """The sessions that were used since the last look at all of them, in a few pages rather than one by one."""
        now = self._crib.pipeline.clock.now()
        rows = await used_since(self._crib, self._looked - SLACK_S)
        self._looked = now
        return rows

    def _of(self, row: SessionRow) -> _WatchedSession | None:
        """What is known of a session; one that was swept and made anew is another, and may be somebody else's."""
        known = self._known.get(row.id)
        return known if known is not None and known.made == row.created_at else None

    async def _new(self, session: str, row: SessionRow | None) -> Found:
        """Return the new events of a session; of an unknown one, those since somebody watches."""
        news, row = Found(), row or await self._crib.store.session(session)
        if row is None:
            return news
        known, since = self._of(row), 0.0
        if known is None:
            known, since = _WatchedSession(row.created_at, max(0, row.seq - MOST), self._since), self._since
        _, seq, at = known
        read, pages = self._crib.store.read, 0
        while row.owner != OWNER and (page := await read(session, seq, limit=PAGE, extent=EXTENT)):
            news += [(row, event) for event in page if event.at >= since]
            seq, at, pages = page[-1].seq, max(at, page[-1].at), pages + 1
            if len(news) >= MOST or pages == PAGES:  # others have a turn
                self._heard(session)
                break
        self._remember(session, _WatchedSession(row.created_at, seq, at))
        return news

    def _remember(self, session: str, known: _WatchedSession) -> None:
        self._known.pop(session, None)
        self._known[session] = known
        if len(self._known) > KNOWN:  # without the one that was quiet for longest; what it has from now on is new
            self._since = max(self._since, self._known.pop(next(iter(self._known))).at + TICK_S)


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
