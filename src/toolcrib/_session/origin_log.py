"""The origins of a session, made once a rule asks and kept up to date with its log."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from toolcrib._call.lifecycle import PlainCall
from toolcrib._session.origin_fold import OriginFold
from toolcrib.events import Event
from toolcrib.store.codec import PAGE_BYTES

if TYPE_CHECKING:
    from toolcrib._call.ports import SessionPort
    from toolcrib.origins.index import OriginIndex
    from toolcrib.store.own_writes import LogEntry

PAGE = 1000
SLICE, SLICE_BYTES = 50, 32 * 1024
"""Events, and bytes of them, that are taken in before others have a turn: a long log is no reason for them to wait."""


class OriginLog:
    """The index of a session's origins, fed with what this process writes, and with the log where others may write."""

    def __init__(self, session: SessionPort) -> None:
        self._session = session
        self._fold = OriginFold(session)
        self._ready = OriginFold(session)
        """What is shown: one that is made anew takes its place when it is complete."""
        self._writes = session.crib.store.own_writes(session.id)
        self._left: deque[Event | LogEntry] = deque()
        self._instructions: dict[str, None] = {}
        self._reading = asyncio.Lock()

    @property
    def index(self) -> OriginIndex:
        """The index, up to the last call that needed it."""
        return self._ready.index

    def index_for(self, parent: str | None, tool: str) -> OriginIndex:
        """Return the index as it is for a call of a tool that a script makes."""
        return self._ready.index_for(parent, tool)

    async def catch_up(self, instructions: str | None = None) -> None:
        """Take in what the log says by now, and what the agent was told by whoever wrote it."""
        if not self.refresh(instructions):
            async with self._reading:
                await self._read()

    def refresh(self, instructions: str | None = None) -> bool:
        """Do the same at once where this process alone wrote since, and little; False where it has to `catch_up`."""
        if instructions and instructions not in self._instructions:
            self._instructions[instructions] = None
            self._fold.index.instructions.add(instructions)
        if self._left or self._ready is not self._fold or self._reading.locked() or not self._take_own():
            return False
        left, advance, size = self._left, self._fold.advance, 0
        if len(left) > SLICE:
            return False
        while left:
            size += _size(left[0])
            if size > SLICE_BYTES:
                return False
            advance(left.popleft())
        return True

    def _take_own(self) -> bool:
        """Fetch what this process wrote; False where the log has to be read."""
        entries = None if self._writes is None else self._writes.take()
        self._left.extend(entries or ())
        return entries is not None

    async def _read(self) -> None:
        await self._advance()
        if not self._take_own():
            await self._read_log()
        await self._advance()
        self._ready = self._fold

    async def _read_log(self) -> None:
        store, writes = self._session.crib.store, self._writes
        if writes is not None:
            writes.begin()
        await store.flush()
        if writes is not None and writes.mistaken:  # others write too: from now on the log is read each time
            self._writes = writes = None
            self._fold = OriginFold(self._session)
            for text in self._instructions:
                self._fold.index.instructions.add(text)
        more = True
        while more:
            page = await store.read(self._session.id, self._fold.seen, limit=PAGE)
            more = len(page) == PAGE or sum(len(event.json) for event in page) >= PAGE_BYTES
            self._left.extend(page)
            await self._advance()
        if writes is not None:
            writes.settle(self._fold.seen)

    async def _advance(self) -> None:
        """Take in what is left, with pauses."""
        number = size = 0
        while self._left:
            number, size = number + 1, size + _size(self._left[0])
            if number > SLICE or size > SLICE_BYTES:
                number = size = 0
                await asyncio.sleep(0)
            self._fold.advance(self._left.popleft())


def _size(entry: Event | LogEntry) -> int:
    """Return about how many bytes an entry has; those of an event by itself, as it was put, are not known."""
    if type(entry) is PlainCall:
        return len(entry.result or b"")
    return len(entry.json) if isinstance(entry, Event) else 0
