"""Whether the index of a store says what the log says."""

from __future__ import annotations

from collections.abc import Iterator

from toolcrib._call.history import History, fold
from toolcrib.events import Event
from toolcrib.state import State
from toolcrib.store import Row, Store

PAGE = 1000


async def check_index(store: Store, session: str) -> dict[str, History]:
    """Folds the log of a session and compares it with the rows of its calls; the fold, for whoever wants to look on.

    Raises:
        AssertionError: naming every difference.
    """
    events = await read_all(store, session)
    calls = fold(session, events)
    rows = {row.id: row for row in await store.calls(session, limit=len(calls) + 1)}
    wrong = [f"the log is not numbered 1 to {len(events)}"] if [e.seq for e in events] != _numbers(events) else []
    wrong += [f"call {id} has events and no row" for id in calls.keys() - rows.keys()]
    wrong += [f"call {id} has a row and no events" for id in rows.keys() - calls.keys()]
    for id in calls.keys() & rows.keys():
        lines = [event for event in events if event.call == id]
        wrong += [f"call {id}: {what}" for what in _differences(calls[id], rows[id], lines)]
    wrong += await _wrong_state(store, session, events)
    if wrong:
        raise AssertionError("; ".join(sorted(wrong)))
    return calls


async def _wrong_state(store: Store, session: str, events: list[Event]) -> list[str]:
    """Where the state of the log cannot be folded, or has another revision than the store."""
    state, wrong = State(), []
    for event in events:
        if event.kind == "done" and "state" in event.fields:
            problem = state.replay(event.fields["state"], event.call or "")
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


def _differences(call: History, row: Row, lines: list[Event]) -> Iterator[str]:
    states = _states(call, lines)
    if row.state not in states:
        yield f"state {row.state}, in the log {' or '.join(sorted(states))}"
    code = None if call.done is None or call.done["ok"] else call.done["failure"]["code"]
    if row.code != code:
        yield f"code {row.code}, in the log {code}"
    if row.accepted_seq != lines[0].seq:
        yield f"accepted_seq {row.accepted_seq}, in the log {lines[0].seq}"
    ends = [event for event in lines if event.kind in ("done", "settled")]
    if row.done_seq != (ends[-1].seq if ends else None):
        yield f"done_seq {row.done_seq}, in the log {[event.seq for event in ends]}"
    yield from _endings(ends)
    if ends and lines[-1] is not ends[-1]:
        yield f"events after its {ends[-1].kind} at {ends[-1].seq}"
    if call.question is not None and row.question != call.question.id:
        yield f"question {row.question}, in the log {call.question.id}"


def _endings(ends: list[Event]) -> Iterator[str]:
    """A call is done once; only one that ended `unknown` is settled, and that once."""
    kinds = [event.kind for event in ends]
    if kinds not in ([], ["done"], ["done", "settled"]):
        yield f"it ends with {kinds}"
    elif kinds[1:] and (ends[0].fields.get("failure") or {}).get("code") != "unknown":
        yield f"settled at {ends[1].seq} though its end was known"


def _states(call: History, lines: list[Event]) -> set[str]:
    """The states that a row may be in. A call that goes on after an answer is claimed without a line of its own."""
    if call.done is not None:
        return {"done"}
    if call.question is not None:
        return {"waiting"}
    if call.paused is not None:
        return {"waiting", "queued"}
    if call.started is None:
        return {"queued"}
    turns = [event.kind for event in lines if event.kind in ("started", "answered")]
    return {"queued", "running"} if turns[-1] == "answered" else {"running"}
