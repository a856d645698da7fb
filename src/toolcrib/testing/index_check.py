"""Whether the index of a store says what the log says."""

from __future__ import annotations

from toolcrib._call.history import History
from toolcrib._session.call_index import FoldedCall
from toolcrib.events import STATEFUL, Event
from toolcrib.state import State
from toolcrib.store import Store

PAGE = 1000


async def check_index(store: Store, session: str) -> dict[str, History]:
    """Folds the log of a session and compares it with the rows of its calls; the fold, for whoever wants to look on.

    Raises:
        AssertionError: naming every difference.
    """
    events = await read_all(store, session)
    calls: dict[str, FoldedCall] = {}
    for event in events:
        if event.call is not None:
            calls.setdefault(event.call, FoldedCall(session, event)).take(event)
    rows = {row.id: row for row in await store.calls(session, limit=len(calls) + 1)}
    wrong = [f"the log is not numbered 1 to {len(events)}"] if [e.seq for e in events] != _numbers(events) else []
    wrong += [f"call {id} has a row and no events" for id in rows.keys() - calls.keys()]
    for id, call in calls.items():
        wrong += [f"call {id}: {problem}" for problem in (*call.problems(rows.get(id)), *call.life.faults)]
    wrong += await _wrong_state(store, session, events)
    if wrong:
        raise AssertionError("; ".join(sorted(wrong)))
    return {id: call.history for id, call in calls.items()}


async def _wrong_state(store: Store, session: str, events: list[Event]) -> list[str]:
    """Where the state of the log cannot be folded, or has another revision than the store."""
    state, wrong = State(), []
    for event in events:
        if isinstance(event.data, STATEFUL) and event.data.state is not None:
            problem = state.replay(event.data.state, event.call or "")
            wrong += [] if problem is None else [f"the state at {event.seq}: {problem.message()}"]
    row = await store.session(session)
    if row is not None and row.revision != state.revision:
        wrong.append(f"the state has revision {row.revision}, in the log {state.revision}")
    return wrong


async def read_all(store: Store, session: str) -> list[Event]:
    """The whole log, page by page."""
    events: list[Event] = []
    while page := await store.read(session, events[-1].seq if events else 0, limit=PAGE):
        events += page
    return events


def _numbers(events: list[Event]) -> list[int]:
    return list(range(1, len(events) + 1))
