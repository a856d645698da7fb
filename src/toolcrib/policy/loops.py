"""Loops: the same call again and again with the same result, or failing again and again, within one run.

`RunHistory` is a value: it is folded over the calls of a run since the last message of the user, `RunHistory()` being
the empty one. So it can be kept beside a session or made again from the log, and both say the same.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple

from toolcrib.policy.verdicts import Verdict
from toolcrib.tool import canonical

WINDOW = 20
REPEAT = 5
FAILURES = 3
WARN = 3
SPARED = ("cancelled", "unavailable", "rate_limited", "denied", "declined")
"""Ends of which the call itself knows nothing: a person, a limit or an outage decided."""

Repeat = int | Literal["default"] | None
"""How often a tool may fail in a row, as its limits say it."""

Action = Literal["run", "warn", "refuse"]


class PastCall(NamedTuple):
    """One call of the run and how it ended."""

    signature: str
    outcome: str
    failed: bool


def signature(tool_id: str, arguments: Any) -> str:
    """What makes two calls the same: the tool and its canonical arguments."""
    return f"{tool_id} {digest(arguments)}"


def digest(value: Any) -> str:
    """A short name of any JSON value, for signatures and outcomes."""
    return hashlib.blake2b(canonical(value), digest_size=16).hexdigest()


class RunHistory(NamedTuple):
    """The last calls of a run, oldest first."""

    past: tuple[PastCall, ...] = ()

    def repeats(self, call: str, repeat: Repeat = "default") -> int:
        """How often this call came in vain, if that is too often; else 0. `repeat` is that of the tool's limits."""
        same = [past for past in self.past if past.signature == call]
        if not same or repeat is None:
            return 0
        equal = sum(past.outcome == same[-1].outcome for past in same)
        if equal >= _equal(repeat, same[-1].failed):
            return equal
        row = _row_of_failures(same)
        return row if row >= failures(repeat) else 0

    def equal(self, call: str, outcome: str) -> int:
        """How often this call will have given that outcome, this time included."""
        return 1 + len([past for past in self.past if past.signature == call and past.outcome == outcome])

    def action(self, call: str, outcome: str, repeat: Repeat = "default") -> Action:
        """What happens to a call that would give this outcome."""
        if self.repeats(call, repeat):
            return "refuse"
        return "run" if hint(self.equal(call, outcome), repeat) is None else "warn"

    def verdict(self, tool: str, call: str, repeat: Repeat = "default") -> Verdict | None:
        """The refusal of a call that goes round in circles."""
        times = self.repeats(call, repeat)
        if not times:
            return None
        told = f"Loop: '{tool}' was called {times} times with the same arguments and the same result"
        return Verdict("deny", "limit", told)

    def note(self, call: str, outcome: str, failed: bool) -> RunHistory:
        """The run after a call that ran."""
        return RunHistory((*self.past[-WINDOW + 1 :], PastCall(call, outcome, failed)))

    def note_refused(self, call: str) -> RunHistory:
        """The run after a call that was refused as a loop: it counts as one more of what came before."""
        last = next((past for past in reversed(self.past) if past.signature == call), PastCall(call, "", True))
        return RunHistory((*self.past[-WINDOW + 1 :], last))


def failures(repeat: int | Literal["default"]) -> int:
    """After how many failures in a row the next call like them is refused."""
    return FAILURES if repeat == "default" else repeat


def _equal(repeat: int | Literal["default"], failed: bool) -> int:
    """After how many equal outcomes it is refused; failures have a number of their own."""
    if repeat == "default":
        return REPEAT - 1
    return repeat if failed else repeat - 1


def hint(equal: int, repeat: Repeat = "default") -> str | None:
    """What the model reads beside a result that came so often."""
    if repeat is None or equal < WARN:
        return None
    return f"This call has given the same result {equal} times"


def _row_of_failures(same: list[PastCall]) -> int:
    row = 0
    for past in reversed(same):
        if not past.failed:
            break
        row += 1
    return row
