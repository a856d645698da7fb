"""Whether the index of calls, the revision of the state and the roll-ups say what the log says.

The log is folded anew, compared, and written back on request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from toolcrib._session.call_index import FoldedCall
from toolcrib.state import State as SessionState
from toolcrib.store import Row

if TYPE_CHECKING:
    from toolcrib.events import Event
    from toolcrib.store import SessionRow, Store

PAGE = 1000
EVERY = 10_000_000


class Difference(NamedTuple):
    """One place where log and index do not agree."""

    session: str
    call: str
    problem: str


class RebuiltIndex(NamedTuple):
    """What was wrong with the index of a session, and what still is after it was made anew."""

    differing: list[Difference]
    left: list[Difference]


def damaged_file(store: Store) -> list[Difference]:
    """What is wrong with the file of a store, which is not opened for it; nothing where it has none."""
    from toolcrib.cli.store_choice import file_of

    path = file_of(store)
    if path is None or not path.exists():
        return []
    from toolcrib.store.sqlite.integrity import damages

    return [Difference(one.session, "", one.problem) for one in damages(path)]


async def damaged(store: Store) -> list[Difference]:
    """What is wrong with the database of a store that is open, where it can tell."""
    return [Difference(one.session, "", one.problem) for one in await store.damages()]


async def differing_rollups(store: Store) -> list[Difference]:
    """Where the roll-ups do not say what the logs say."""
    import time

    from toolcrib.store.rollup_check import problems

    return [Difference("", "", problem) for problem in await problems(store, time.time())]


async def mend_rollups(store: Store) -> RebuiltIndex:
    """Make the roll-ups anew from the logs where they differ."""
    differing = await differing_rollups(store)
    if not differing:
        return RebuiltIndex([], [])
    await store.count_anew()
    return RebuiltIndex(differing, await differing_rollups(store))


async def every_session(store: Store) -> AsyncIterator[SessionRow]:
    """All sessions, page by page."""
    last: SessionRow | None = None
    while page := await store.sessions(limit=PAGE, before=last):
        for row in page:
            yield row
        last = page[-1]


async def rows_from_log(store: Store, session: str) -> list[Row]:
    """Return the index of a session as its log has it; calls whose acceptance is missing are left out."""
    calls, _, _ = await _folded(store, session)
    return [call.row() for call in calls.values() if call.known]


async def mend(store: Store, session: str) -> RebuiltIndex:
    """Rebuild the index of a session where it differs from the log."""
    differing = await differences(store, session)
    if not differing:
        return RebuiltIndex([], [])
    calls, _, state = await _folded(store, session)
    await store.rebuild(session, [call.row() for call in calls.values() if call.known], state.revision)
    return RebuiltIndex(differing, await differences(store, session))


async def differences(store: Store, session: str) -> list[Difference]:
    """Where log and index of a session differ. Others may be writing, so what differs is looked at a second time."""
    return await _compare(store, session) and await _compare(store, session)


async def _folded(store: Store, session: str) -> tuple[dict[str, FoldedCall], list[str], SessionState]:
    """The calls of a session, what its log lacks, and its state."""
    calls: dict[str, FoldedCall] = {}
    gaps: list[str] = []
    state = SessionState()
    last = 0
    while page := await store.read(session, last, limit=PAGE):
        for event in page:
            if event.seq != last + 1:
                gaps.append(f"events {last + 1} to {event.seq - 1} are missing")
            last = event.seq
            if event.call is not None:
                calls.setdefault(event.call, FoldedCall(session, event)).take(event)
            gaps += _replayed(state, event)
    return calls, gaps, state


def _replayed(state: SessionState, event: Event) -> list[str]:
    """Takes an event into the state; what is wrong with it."""
    from toolcrib.events import STATEFUL, RunEnded

    if isinstance(event.data, RunEnded):
        state.end(event.data.run)
    if not isinstance(event.data, STATEFUL) or event.data.state is None:
        return []
    commit, before = event.data.state, state.revision
    try:
        problem = state.replay(commit, event.call or "")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"the state at event {event.seq} cannot be read: {type(error).__name__}: {error}"]
    if state.revision == before:
        return [f"the state at event {event.seq} has revision {commit.revision} after {before}"]
    if problem is None:
        return []
    if problem.problem == "gap":
        return [f"the state at event {event.seq} has revision {state.revision} after {before}"]
    return [f"the state at event {event.seq}: {problem.message()}"]


async def _compare(store: Store, session: str) -> list[Difference]:
    rows = {row.id: row for row in await store.calls(session, limit=EVERY)}
    calls, gaps, state = await _folded(store, session)
    row = await store.session(session)
    if row is not None and row.revision != state.revision:
        gaps.append(f"state revision: the log says {state.revision}, the index {row.revision}")
    differing = [Difference(session, "", gap) for gap in gaps]
    differing += [Difference(session, id, "is in the index, not in the log") for id in rows.keys() - calls.keys()]
    for id, call in calls.items():
        differing += [Difference(session, id, problem) for problem in call.problems(rows.get(id))]
    return differing
