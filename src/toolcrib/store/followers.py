"""Readers that follow a log: woken when more is committed, served from a short tail while they keep up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Protocol
from weakref import WeakValueDictionary

from toolcrib.events import Event
from toolcrib.store import Draft, Write
from toolcrib.store.codec import PAGE_BYTES, CompactWrite, split_large

TAIL = 1024
"""Events kept for each followed session; a reader further behind reads from the store."""

TAIL_BYTES, TAILS_BYTES = 256 * 1024, 32 * 1024 * 1024
"""Bytes of data kept for one followed session, and for all; events with large values are read from the store."""

LINGER_S = 1.0
"""How long a tail outlives its last reader, who may be about to come back."""


class _Followed:
    __slots__ = ("bytes", "looked", "seq", "tail", "timer", "used", "waiters")

    def __init__(self) -> None:
        self.seq = 0
        self.looked = -1
        self.tail: deque[tuple[float, str | None, str, bytes]] = deque()
        self.bytes = 0
        self.waiters: set[asyncio.Future[None]] = set()
        self.timer: asyncio.TimerHandle | None = None
        self.used = True


class Watchers:
    """Who hears of every session: `all` of them."""

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: tuple[Callable[[str], None], ...] = ()

    def add(self, tell: Callable[[str], None]) -> Callable[[], None]:
        """Call `tell` with each session that has more, or "" where any may have; return what ends that."""

        def watcher(session: str) -> None:  # an object of its own, since the same function may watch twice
            tell(session)

        def stop() -> None:
            self.all = tuple(one for one in self.all if one is not watcher)

        self.all = (*self.all, watcher)
        return stop

    def tell(self, session: str) -> None:
        """Notify all watchers that a session has more events."""
        for watcher in self.all:
            watcher(session)


class WriteObserver(Protocol):
    """Who is told of each write of this process to one session: when it is put, and what became of it."""

    def put(self, write: Write) -> None:
        """A write is handed over."""

    def reported(self, write: Write, first: int) -> None:
        """A write was committed with this number of its first event, or refused with 0."""

    def dropped(self) -> None:
        """The session was deleted."""


class Followers:
    """Who waits for which session, and who watches them all. It knows a session only while somebody follows it."""

    def __init__(self) -> None:
        self.sessions: dict[str, _Followed] = {}
        self.watchers = Watchers()
        self.observers: WeakValueDictionary[str, WriteObserver] = WeakValueDictionary()
        self.nudges = 0
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self.sessions or self.watchers.all)

    def __contains__(self, session: str) -> bool:
        return session in self.sessions

    def committed(self, session: str, first: int, drafts: list[Draft] | CompactWrite) -> None:
        """New events of a session: keep them for its readers, and wake those."""
        self.watchers.tell(session)
        followed = self.sessions.get(session)
        if followed is None:
            return
        if first + len(drafts) - 1 < followed.seq:
            # Somebody else was heard of sooner, or the log began anew: the store knows.
            self.forget(session)
            return
        if first != followed.seq + 1:
            self._clear(followed)
        for draft in drafts:
            self._keep(followed, draft)
        followed.seq = first + len(drafts) - 1
        self._wake(followed)

    def _keep(self, followed: _Followed, draft: Draft) -> None:
        """Adds an event to a tail, as JSON; one that is large ends what can be served from there."""
        at, call, kind, data = draft
        text, large = split_large(kind, data)
        if large:
            self._clear(followed)
            return
        followed.tail.append((at, call, kind, text))
        followed.bytes += len(text)
        self.bytes += len(text)
        if self.bytes > TAILS_BYTES:
            self._clear(followed)
        while len(followed.tail) > TAIL or followed.bytes > TAIL_BYTES:
            self._shrink(followed, len(followed.tail.popleft()[3]))

    def _shrink(self, followed: _Followed, size: int) -> None:
        followed.bytes -= size
        self.bytes -= size

    def _clear(self, followed: _Followed) -> None:
        followed.tail.clear()
        self._shrink(followed, followed.bytes)

    def nudge(self) -> None:
        """Somebody else wrote: all readers look into the store."""
        self.nudges += 1
        self.watchers.tell("")
        for followed in self.sessions.values():
            self._wake(followed)

    def moved(self, session: str, newest: int) -> None:
        """Somebody else wrote to this session, up to this event."""
        self.watchers.tell(session)
        followed = self.sessions.get(session)
        if followed is not None:
            self.looked(session, newest, followed.looked)

    def looked(self, session: str, newest: int, nudges: int) -> None:
        """Note that a read of the store, begun after that many nudges, saw this as the newest event."""
        followed = self.sessions.get(session)
        if followed is not None:
            followed.looked = max(followed.looked, nudges)
            if newest > followed.seq:
                # Somebody else wrote further than the tail reaches: it no longer ends where the log does.
                self._clear(followed)
                followed.seq = newest
                self._wake(followed)

    def read(self, session: str, after: int, page: list[Event], nudges: int) -> None:
        """Somebody read all there is past `after`, which spares the next who waits a look of its own."""
        followed = self.sessions.get(session)
        if followed is not None and (page or after <= followed.seq):
            self.looked(session, page[-1].seq if page else 0, nudges)

    def forget(self, session: str) -> None:
        """The session was deleted: nothing of it is served any more, and its readers find out by themselves."""
        if (observer := self.observers.get(session)) is not None:
            observer.dropped()
        followed = self.sessions.get(session)
        if followed is not None:
            self._clear(followed)
            followed.seq, followed.looked = 0, -1
            self._wake(followed)

    def _wake(self, followed: _Followed) -> None:
        waiters, followed.waiters = followed.waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def tail(self, session: str, after: int, limit: int, max_bytes: int = PAGE_BYTES) -> list[Event] | None:
        """Events past `after` from the tail; None where the tail does not hold the next one."""
        followed = self.sessions.get(session)
        if followed is None:
            return None
        skip = after - (followed.seq - len(followed.tail))
        if not 0 <= skip < len(followed.tail):
            return None
        page, size = list[Event](), 0
        for at, call, kind, text in islice(followed.tail, skip, skip + limit):
            page.append(Event(after + 1 + len(page), at, call, kind, text))
            size += len(text)
            if size >= max_bytes:
                break
        return page

    async def wait(self, session: str, after: int, last: Callable[[], Awaitable[int]]) -> None:
        """Waits for an event past `after`; `last` tells the newest one where somebody else may have written it."""
        # It is followed before the look, so that nothing committed in between is missed.
        while (followed := self._follow(session)).looked < self.nudges:
            nudges = self.nudges
            self.looked(session, await last(), nudges)
        followed.used = True
        if followed.seq <= after:
            await self._next(followed)
            followed.used = True

    def _follow(self, session: str) -> _Followed:
        followed = self.sessions.get(session)
        if followed is None:
            followed = self.sessions[session] = _Followed()
            followed.timer = asyncio.get_running_loop().call_later(LINGER_S, self._drop, session, followed)
        return followed

    async def _next(self, followed: _Followed) -> None:
        waiter = asyncio.get_running_loop().create_future()
        followed.waiters.add(waiter)
        try:
            await waiter
        finally:
            followed.waiters.discard(waiter)

    def _drop(self, session: str, followed: _Followed) -> None:
        followed.timer = None
        if followed.waiters or followed.used:
            followed.used = False
            followed.timer = asyncio.get_running_loop().call_later(LINGER_S, self._drop, session, followed)
        elif self.sessions.get(session) is followed:
            self._clear(followed)
            del self.sessions[session]
