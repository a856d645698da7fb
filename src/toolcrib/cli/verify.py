"""Whether the index of calls says what the log says: the log is folded anew and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolcrib.calls.history import History

if TYPE_CHECKING:
    from toolcrib.store import Row, Store
    from toolcrib.types import Event

PAGE = 1000
EVERY = 10_000_000


class Difference(NamedTuple):
    """One place where log and index do not agree."""

    session: str
    call: str
    problem: str


class _Folded:
    """One call as its events tell it, and where they stand."""

    def __init__(self, session: str, first: Event) -> None:
        self.history = History(session)
        self.first = first
        self.dones: list[int] = []

    def take(self, event: Event) -> None:
        if event.kind == "done":
            self.dones.append(event.seq)
        self.history.advance(event)

    @property
    def states(self) -> tuple[str, ...]:
        """What the index may say; going on after an answer writes no event, so queued and running look alike."""
        if self.history.done is not None:
            return ("done",)
        if self.history.question is not None:
            return ("waiting",)
        return ("queued", "running")


async def differences(store: Store, session: str) -> list[Difference]:
    """Where log and index of a session differ. Others may be writing, so what differs is looked at a second time."""
    return await _compare(store, session) and await _compare(store, session)


async def _compare(store: Store, session: str) -> list[Difference]:
    rows = {row.id: row for row in await store.calls(session, limit=EVERY)}
    calls: dict[str, _Folded] = {}
    found: list[Difference] = []
    last = 0
    while page := await store.read(session, last, limit=PAGE):
        for event in page:
            if event.seq != last + 1:
                found.append(Difference(session, "", f"events {last + 1} to {event.seq - 1} are missing"))
            last = event.seq
            if event.call is not None:
                calls.setdefault(event.call, _Folded(session, event)).take(event)
    found += [Difference(session, id, "is in the index, not in the log") for id in rows.keys() - calls.keys()]
    for id, call in calls.items():
        found += [Difference(session, id, problem) for problem in _problems(call, rows.get(id))]
    return found


def _problems(call: _Folded, row: Row | None) -> list[str]:
    if row is None:
        return ["is in the log, not in the index"]
    history, done = call.history, call.dones[0] if call.dones else None
    failure = (history.done or {}).get("failure") or {}
    said = {
        "it begins with": (call.first.kind, "accepted"),
        "dones": (len(call.dones), min(len(call.dones), 1)),
        "tool": (history.accepted.get("tool"), row.tool),
        "state": (row.state if row.state in call.states else "/".join(call.states), row.state),
        "first event": (call.first.seq, row.accepted_seq),
        "last event": (done, row.done_seq),
        "code": (failure.get("code"), row.code),
        "question": (history.question.id if history.question else row.question, row.question),
    }
    return [f"{name}: the log says {log!r}, the index {index!r}" for name, (log, index) in said.items() if log != index]
