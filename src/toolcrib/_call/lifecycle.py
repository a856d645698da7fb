"""The life of a call: its stages, what may follow what, and the only functions that change its row.

    accepted -> (scheduled -> fired)? -> (waiting <-> answered)* -> started
        -> (progress | output | step | waiting <-> answered)* -> done

`NEXT` says which event may follow which, and `STATES` what the index may say meanwhile. The functions below are pure:
from the row that stands they make the `Write` that changes it, guarded by the state and attempt that must still stand.
Recovery, `store verify`, the test kit and the property tests use the same table and the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from toolcrib.events import Done, Event, Started
from toolcrib.store import Draft, Row, State, Write
from toolcrib.store.codec import CompactWrite

Stage = Literal[
    "new",
    "queued",
    "scheduled",
    "asked",
    "running",
    "suspended",
    "resumed",
    "paused",
    "asked_again",
    "ended",
    "settled",
]
"""Where a call stands by its events. It is `scheduled` while it waits for its time. One that waits for an answer is
`asked` before it has run, else `suspended`, and `resumed` after the answer to that. It is `paused` while calls that it
made wait for somebody, and `asked_again` before it runs on.
"""

_REPORTS: tuple[str, ...] = ("started", "progress", "output", "activity", "step")
_ABOUT_QUESTION: tuple[str, ...] = ("endorsed", "escalated")

NEXT: dict[Stage, dict[str, Stage]] = {
    "new": {"accepted": "queued"},
    "queued": {"scheduled": "scheduled", "waiting": "asked", "started": "running", "done": "ended"},
    "scheduled": {"scheduled": "scheduled", "fired": "queued", "done": "ended"},
    "asked": {**dict.fromkeys(_ABOUT_QUESTION, "asked"), "answered": "queued", "done": "ended"},
    "running": {**dict.fromkeys(_REPORTS, "running"), "waiting": "suspended", "paused": "paused", "done": "ended"},
    "suspended": {**dict.fromkeys(_ABOUT_QUESTION, "suspended"), "answered": "resumed", "done": "ended"},
    "resumed": {
        **dict.fromkeys(_REPORTS[1:], "resumed"),
        "started": "running",
        "waiting": "suspended",
        "paused": "paused",
        "done": "ended",
    },
    "paused": {"started": "running", "waiting": "asked_again", "done": "ended"},
    "asked_again": {**dict.fromkeys(_ABOUT_QUESTION, "asked_again"), "answered": "paused", "done": "ended"},
    "ended": {"settled": "settled"},
    "settled": {},
}
"""The stage that follows each event of a call, by the stage before it."""

STATES: dict[Stage, tuple[State, ...]] = {
    "new": ("queued",),
    "queued": ("queued",),
    "scheduled": ("waiting",),
    "asked": ("waiting",),
    "running": ("running",),
    "suspended": ("waiting",),
    "resumed": ("queued", "running"),
    "paused": ("queued", "waiting"),
    "asked_again": ("waiting",),
    "ended": ("done",),
    "settled": ("done",),
}
"""What the index may say of a call in each stage. Going on after an answer or a pause writes no event of its own."""

MOVES: dict[State, tuple[State, ...]] = {
    "queued": ("running", "waiting", "done"),
    "running": ("running", "waiting", "done"),
    "waiting": ("waiting", "queued", "running", "done"),
    "done": ("done",),
}
"""The states that a row may move to. A running call is claimed again after a crash, a done one is settled."""

ENDS = ("done", "settled")
"""The events that end a call; `settled` follows a `done` of which nobody knew what happened."""


KINDS = frozenset(kind for after in NEXT.values() for kind in after)
"""The events that a life is made of."""


class Life:
    """The stage of one call, folded from its events, with the attempts that whoever wrote them has counted."""

    __slots__ = ("answered", "attempt", "ends", "faults", "stage")

    def __init__(self) -> None:
        self.stage: Stage = "new"
        self.attempt = 0
        self.answered = False
        self.ends: list[Event] = []
        self.faults: list[str] = []

    def take(self, event: Event) -> None:
        """Take the next event of the call; one that may not follow is a fault, and changes no stage."""
        kind, before = event.kind, self.stage
        self.stage = NEXT[before].get(kind, before)
        if kind not in KINDS:
            return
        if kind not in NEXT[before]:
            self.faults.append(f"'{kind}' at {event.seq} follows {before}")
        if kind in ENDS:
            self._end(event)
        elif kind == "started":
            started = event.data
            self.attempt = (started.attempt if isinstance(started, Started) else None) or 1
            self.answered = False
        elif kind == "waiting" and before == "queued" and self.answered:
            self.attempt += 1  # it never started since its last question, and yet both are told apart
        elif kind == "answered":
            self.answered = True
            self.attempt += before != "asked"  # going on is an attempt of its own where it had started before

    def _end(self, event: Event) -> None:
        if event.kind == "settled" and self.ends and not _is_unknown(self.ends[-1]):
            self.faults.append(f"settled at {event.seq} though its end was known")
        self.ends.append(event)

    def states(self, effect: str) -> tuple[State, ...]:
        """Return what the index may say, the one to write first.

        After an answer queued and running look alike: what may happen only once counts as running, so that nobody
        starts it a second time.
        """
        states = STATES[self.stage]
        return states[::-1] if self.stage == "resumed" and effect == "once" else states


# The only functions that change a call


def accept(row: Row, events: list[Draft] | CompactWrite) -> Write:
    """Write a call for the first time, in whatever state it has reached by then."""
    return Write(row.session, events, row)


def claim(row: Row, worker: str, events: Sequence[Draft]) -> Write:
    """Make a process the one that runs a call. The attempt rises, so that whoever had it before is fenced off."""
    return _moved(row, row.but(state="running", attempt=row.attempt + 1, worker=worker, expires_at=None), events)


def suspend(row: Row, question: str, expires_at: float, events: Sequence[Draft]) -> Write:
    """Let a call wait for the answer to a question."""
    # One that never started since its last question has no new attempt that would tell both questions apart.
    attempt = row.attempt + (row.state == "queued")
    return _moved(row, row.but(state="waiting", attempt=attempt, question=question, expires_at=expires_at), events)


def pause(row: Row, look_at: float, events: Sequence[Draft]) -> Write:
    """Let a call wait for calls that it made; it is looked at again at that time."""
    return _moved(row, row.but(state="waiting", question=None, expires_at=look_at), events)


def postpone(row: Row, expires_at: float, events: Sequence[Draft] = ()) -> Write:
    """Let a call wait on, until another time: others are asked as well, or its children still wait."""
    return _moved(row, row.but(expires_at=expires_at), events)


def endorse(row: Row, events: Sequence[Draft]) -> Write:
    """Let a call wait on: one of several who have to agree has."""
    return _moved(row, row.but(), events)


def resume(row: Row, worker: str | None, events: Sequence[Draft] = ()) -> Write:
    """Queue a call that waited, for this process or, with None, for whichever takes it."""
    return _moved(row, row.but(state="queued", worker=worker, expires_at=None), events)


def hold(row: Row, worker: str) -> Write:
    """Take a paused call, so that the end of a child does not let it go on: it is about to be ended."""
    return _moved(row, row.but(state="running", worker=worker, expires_at=None), ())


def finish(row: Row, code: str | None, events: Sequence[Draft]) -> Write:
    """End a call, with the code of its failure or None."""
    return _moved(row, row.but(state="done", code=code, expires_at=None), events)


def settle(row: Row, code: str | None, events: Sequence[Draft]) -> Write:
    """Say what came of a call that ended `unknown`."""
    return _moved(row, row.but(code=code), events)


def recover(row: Row) -> Row:
    """Count that a process died over a call, for the claim that follows."""
    return row.but(crashes=row.crashes + 1)


def report(row: Row, events: Sequence[Draft]) -> Write:
    """Write what happened in a call that goes on as it is."""
    return Write(row.session, list(events), row, (row.state, row.attempt))


def _moved(old: Row, row: Row, events: Sequence[Draft]) -> Write:
    if row.state not in MOVES[old.state]:
        raise ValueError(f"a call that is {old.state} cannot become {row.state}")
    return Write(row.session, list(events), row, (old.state, old.attempt))


DUE = "due:"
"""What the index has as the question of a call that waits for its time: this, and the id of its schedule."""


def waits_for_time(row: Row) -> bool:
    """True if a call waits for its time, or for the end of another call."""
    return row.state == "waiting" and row.question is not None and row.question.startswith(DUE)


def waits_for_children(row: Row) -> bool:
    """True if a call asks nobody itself, but waits for calls that it made."""
    return row.state == "waiting" and row.question is None


def _is_unknown(end: Event) -> bool:
    """Return whether a call ended without anybody knowing how."""
    failure = end.data.failure if isinstance(end.data, Done) else None
    return failure is not None and failure.code == "unknown"
