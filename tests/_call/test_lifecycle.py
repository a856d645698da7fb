"""The states of a call: which may follow which, and what a log says that does not hold."""

from itertools import product
from typing import Any, get_args

import pytest

from toolcrib._call import lifecycle
from toolcrib._call.lifecycle import MOVES, Life
from toolcrib.events import Event
from toolcrib.store import Row, State, Write
from toolcrib.store.codec import encode

STATES: tuple[State, ...] = ("queued", "running", "waiting", "done")
WAYS: dict[State, Any] = {
    "running": lambda row: lifecycle.claim(row, "w", []),
    "waiting": lambda row: lifecycle.suspend(row, "q-1", 9.0, []),
    "queued": lambda row: lifecycle.resume(row, None),
    "done": lambda row: lifecycle.finish(row, None, []),
}


def row(state: State) -> Row:
    """A call in its third attempt."""
    return Row("c", "s", "n.t", "once", state, 3, "w", 1.0)


@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_a_call_moves_from_its_state_to_those_alone_that_may_follow(before: State, after: State) -> None:
    assert set(STATES) <= set(get_args(State))
    if after in MOVES[before]:
        write: Write = WAYS[after](row(before))
        assert write.row is not None
        assert (write.row.state, write.expect) == (after, (before, 3))
    else:
        with pytest.raises(ValueError, match=f"a call that is {before} cannot become {after}"):
            WAYS[after](row(before))


@pytest.mark.parametrize(("state", "attempt"), [("queued", 4), ("running", 3), ("waiting", 3)])
def test_a_call_that_asks_before_it_started_has_an_attempt_of_its_own(state: State, attempt: int) -> None:
    write = lifecycle.suspend(row(state), "q-1", 9.0, [])
    assert write.row is not None
    assert (write.row.attempt, write.row.question, write.row.expires_at) == (attempt, "q-1", 9.0)


def life(*kinds: tuple[str, dict[str, Any]]) -> Life:
    """The life that events of these kinds tell."""
    found = Life()
    for seq, (kind, data) in enumerate(kinds, 1):
        found.take(Event(seq, 1.0, "c", kind, encode(data)))
    return found


ACCEPTED = (
    "accepted",
    {"tool": "n.t", "label": "", "args": {}, "by": {"kind": "user", "name": ""}, "digest": "", "effect": "once"},
)
STARTED = ("started", {"attempt": 1, "args": {}, "digest": "", "timeout_s": 60})


def ended(kind: str, code: str | None) -> tuple[str, dict[str, Any]]:
    """An end, as an event."""
    failure = None if code is None else {"code": code, "message": "m", "retryable": False}
    return kind, {"ok": code is None, "data": None, "duration_ms": 0, "failure": failure}


@pytest.mark.parametrize(
    ("end", "faults"),
    [("unknown", []), ("failed", ["settled at 4 though its end was known"]), (None, ["settled at 4 though its end"])],
)
def test_only_a_call_of_which_nobody_knew_how_it_ended_is_settled(end: str | None, faults: list[str]) -> None:
    found = life(ACCEPTED, STARTED, ended("done", end), ended("settled", None))
    assert len(found.faults) == len(faults)
    assert all(fault.startswith(begin) for fault, begin in zip(found.faults, faults, strict=True))
    assert [event.kind for event in found.ends] == ["done", "settled"]


def test_what_may_not_follow_is_a_fault_and_changes_no_stage() -> None:
    found = life(ACCEPTED, ended("done", None), STARTED)
    assert (found.stage, len(found.faults)) == (life(ACCEPTED, ended("done", None)).stage, 1)
    assert found.faults[0].startswith("'started' at 3 follows")
