"""The three lists of a session, as of now or of any moment, folded from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._call.history import History, fold
from toolcrib.events import Event
from toolcrib.store import Row, Store
from toolcrib.types import Entry, Question

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort

PAGE = 1000
MOST_QUESTIONS = 10_000


async def history_of(store: Store, row: Row, until: int | None = None) -> History:
    """Return what the log says of one call, up to an event if so said."""
    history = History(row.session)
    after, last = row.accepted_seq - 1, until or row.done_seq
    while True:
        page = await store.read(row.session, after, until=last, call=row.id, limit=PAGE)
        for event in page:
            history.advance(event)
            after = event.seq
        if not page or after == last:
            return history


async def open_questions(store: Store, owner: str | None = None, session: str | None = None) -> list[Question]:
    """Return what is open in all sessions, in those of one owner, or in one session."""
    if owner is None or session is not None:
        rows = await store.calls(session, ("waiting",), limit=MOST_QUESTIONS)
    else:
        rows = await store.calls_of_owner(owner, ("waiting",), limit=MOST_QUESTIONS)
    waiting = [row for row in rows if await store.session(row.session) is not None]
    questions = [(await history_of(store, row)).question for row in waiting]
    return [question for question in questions if question is not None]


class Lists:
    """What a session shows of its calls."""

    id: str
    crib: CribPort

    async def _history(self, row: Row, until: int | None = None) -> History:
        """What the log says of one call."""
        return await history_of(self.crib.store, row, until)

    async def _entries(self, rows: list[Row]) -> list[Entry]:
        return [(await self._history(row)).entry() for row in rows]

    async def unresolved(self, at: int | None = None) -> list[Entry]:
        """Calls that have not started: queued, or waiting before their first start."""
        return await self._open("unresolved", at)

    async def ongoing(self, at: int | None = None) -> list[Entry]:
        """Calls that have started and are not done."""
        return await self._open("ongoing", at)

    async def _open(self, name: str, at: int | None) -> list[Entry]:
        if at is not None:
            return [call.entry() for call in await self._past(at) if call.list == name]
        rows = await self.crib.store.calls(self.id, ("queued", "waiting", "running"), limit=100_000)
        histories = [await self._history(row) for row in rows]
        return [history.entry() for history in histories if history.list == name]

    async def completed(self, consumer: str | None = None, at: int | None = None) -> list[Entry]:
        """Calls that are done, in order of completion; with `consumer` only those past its cursor. Moves nothing."""
        after = await self.crib.store.cursor(self.id, consumer) if consumer is not None else 0
        if at is not None:
            past = [call for call in await self._past(at) if call.list == "completed" and call.seq > after]
            return [call.entry() for call in sorted(past, key=lambda call: call.seq)]
        return await self._entries(await self.crib.store.calls(self.id, done_after=after, limit=100_000))

    async def _past(self, at: int) -> list[History]:
        events: list[Event] = []
        while len(events) < at:
            page = await self.crib.store.read(self.id, len(events), until=at, limit=PAGE)
            if not page:
                break
            events += page
        return list(fold(self.id, events).values())

    async def consume(self, consumer: str, seq: int) -> int:
        """Moves a named cursor forward, durably, never back; where it stands now."""
        return await self.crib.store.move_cursor(self.id, consumer, seq)
