"""One reader of a session's log for all calls that a framework follows at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from toolcrib.events import Event
from toolcrib.session import Session
from toolcrib.store import SessionRow

_feeds: WeakKeyDictionary[Session, Feed] = WeakKeyDictionary()


class Feed:
    """The events of a session since somebody follows it, each passed to the call at the top of its family."""

    def __init__(self) -> None:
        self.readers = 0
        self._events: dict[str, asyncio.Queue[Event | None]] = {}
        self._tops: dict[str, str] = {}
        self._begun: asyncio.Future[SessionRow | None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, session: Session) -> None:
        """Read from now on: what happens after this returns is not missed."""
        self.readers += 1
        if self._begun is None:
            self._begun = asyncio.ensure_future(session.crib.store.session(session.id))
        row = await asyncio.shield(self._begun)
        if self._task is None:
            self._task = asyncio.create_task(self._read(session, 0 if row is None else row.seq))

    def stop(self) -> bool:
        """Let go of it; whether nobody is left."""
        self.readers -= 1
        if not self.readers and self._task is not None:
            self._task.cancel()
        return not self.readers

    def events(self, call: str) -> asyncio.Queue[Event | None]:
        """Return what has come of a call and of those that it made; None at the end of the log."""
        return self._events.setdefault(call, asyncio.Queue())

    def forget(self, call: str) -> None:
        """Keep nothing of a call any more."""
        self._events.pop(call, None)

    async def _read(self, session: Session, after: int) -> None:
        async for event in session.events(after):
            if event.call is None:
                continue
            parent = event.fields.get("parent") if event.kind == "accepted" else None
            if parent is not None:
                self._tops[event.call] = self._tops.get(parent, parent)
            self.events(self._tops.get(event.call, event.call)).put_nowait(event)
        for queue in self._events.values():
            queue.put_nowait(None)


@asynccontextmanager
async def following(session: Session) -> AsyncIterator[Feed]:
    """Give the feed of a session, which is read as long as somebody needs it."""
    feed = _feeds.get(session)
    if feed is None:
        feed = _feeds[session] = Feed()
    await feed.start(session)
    try:
        yield feed
    finally:
        if feed.stop() and _feeds.get(session) is feed:
            del _feeds[session]
