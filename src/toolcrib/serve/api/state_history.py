"""What a log tells of the state of its session, for any moment: the few events that do are kept, so that whoever goes
back and forth in a long log does not have it read again each time.
"""

from __future__ import annotations

from bisect import bisect_right

from toolcrib.events import STATEFUL, Event
from toolcrib.store import SessionRow, Store
from toolcrib.store.codec import encode

Key = tuple[str, float]
KINDS = frozenset({"user_state", "run_ended", "run_started", "handover"})
SESSIONS = 8
MOST = 20_000
"""A session that has more of such events is read anew each time: memory is for all."""


class StateHistories:
    """The telling events of the sessions that were looked back at last."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[int, list[Event]]] = {}

    async def until(self, store: Store, session: SessionRow, at: int) -> list[Event]:
        """The events that tell of the state, up to `at`."""
        key = session.id, session.created_at  # one that was swept may come again
        seen, events = self._known.get(key, (0, []))
        if seen < at:
            fresh: list[Event] = []
            while seen < at and (page := await store.read(session.id, seen, until=at, limit=1000)):
                fresh += [_trimmed(event) for event in page if _tells(event)]
                seen = page[-1].seq
            events = [*events, *fresh]
            self._keep(key, seen, events)
        return events[: bisect_right(events, at, key=lambda event: event.seq)]

    def _keep(self, key: Key, seen: int, events: list[Event]) -> None:
        self._known.pop(key, None)
        if len(events) <= MOST:
            self._known[key] = seen, events
        if len(self._known) > SESSIONS:
            del self._known[next(iter(self._known))]


def _tells(event: Event) -> bool:
    return event.kind in KINDS or (isinstance(event.data, STATEFUL) and event.data.state is not None)


def _trimmed(event: Event) -> Event:
    """Of what is done the changes alone: results may be large."""
    if not isinstance(event.data, STATEFUL):
        return event
    return Event(event.seq, event.at, event.call, event.kind, encode({"state": event.fields["state"]}))
