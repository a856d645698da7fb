"""Calls that go round in circles: an agent's by what they gave, anybody else's by failures in a row.

`RunHistory` is a value: it is folded over the calls of a run since the last message of the user, `RunHistory()` being
the empty one. The breaker is for everybody else: for a while after its last failure the same call of the same caller is
refused, then one is let through, and by its end the others are again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple

from msgspec.json import encode

from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import CallOptions, CallRequest
from toolcrib.policy import Verdict
from toolcrib.store.codec import canonical
from toolcrib.tool import Tool
from toolcrib.types import By, Result

REST_S = 60.0
MOST = 100
RUNS = 16
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
        message = f"Loop: '{tool}' was called {times} times with the same arguments and the same result"
        return Verdict("deny", "limit", message)

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


class _Row(NamedTuple):
    """Failures of one call in a row, when the last was, and the call that was let through since."""

    failures: int
    at: float
    trial: str = ""
    trial_at: float = 0.0

    def wait(self, call: str, now: float) -> float:
        """For how many seconds a call is refused."""
        return 0.0 if call == self.trial else max(self.at, self.trial_at) + REST_S - now


class RepeatedCalls:
    """What a session remembers of its last calls."""

    def __init__(self) -> None:
        self._rows: dict[tuple[By, str], _Row] = {}
        self._runs: dict[str, RunHistory] = {}

    def warned(self, live: LiveCall, result: Result) -> Result:
        """The result of an agent's call, with a hint from the third equal one on."""
        run, tool = self._runs.get(_run(live.admission.request.options)), live.admission.tool
        if tool is None or run is None or len(run.past) < WARN - 1:
            return result
        return self._hinted(live, result, tool, run)

    def _hinted(self, live: LiveCall, result: Result, tool: Tool, run: RunHistory) -> Result:
        text = hint(run.equal(self._signature(live), _outcome(result)), tool.limits.repeat)
        if text is None:
            return result
        if result.failure is not None:
            return result.but(failure=replace(result.failure, hint=result.failure.hint or text))
        return result.but(metadata={**result.metadata, "hint": text})

    def note(self, live: LiveCall, result: Result) -> bool:
        """Takes the outcome of a call; False where there is nothing to remember then."""
        options = live.admission.request.options
        if options.by.kind != "agent":
            self._note_failures(live, result)
        elif result.failure is None or _told(result) or _is_refused(live):
            name, call = _run(options), self._signature(live)
            run = self._runs.pop(name, None) or RunHistory()
            ran = result.failure is None or not _is_refused(live)
            failed = result.failure is not None and _failed(result)
            self._runs[name] = run.note(call, _outcome(result), failed) if ran else run.note_refused(call)
            if len(self._runs) > RUNS:
                del self._runs[next(iter(self._runs))]
        return bool(self._rows or self._runs)

    def _note_failures(self, live: LiveCall, result: Result) -> None:
        key = (live.by, signature(live.tool_id or live.name, live.args))
        if result.failure is None:
            self._rows.pop(key, None)
            return
        row = self._rows.get(key, _Row(0, 0.0))
        if not _failed(result):
            if row.trial == live.id:  # it says nothing, so another may try
                self._rows[key] = _Row(row.failures, row.at)
            return
        self._rows.pop(key, None)
        self._rows[key] = _Row(row.failures + 1, live.pipeline.clock.now())
        if len(self._rows) > MOST:
            del self._rows[next(iter(self._rows))]

    def verdict(self, request: CallRequest, tool: Tool, arguments: bytes) -> Verdict | None:
        """A refusal of a call that came in vain too often."""
        if request.options.by.kind == "agent":
            run = self._runs.get(_run(request.options))
            return None if run is None else run.verdict(tool.name, signature(tool.id, arguments), tool.limits.repeat)
        row = self._open_row(request, tool, arguments)
        if row is None or self.wait(request, tool, arguments) <= 0:
            return None
        return Verdict("deny", "limit", f"'{tool.name}' failed {row.failures} times in a row with these arguments")

    def wait(self, request: CallRequest, tool: Tool, arguments: bytes) -> float:
        """For how many seconds the breaker refuses a call of anybody but an agent, which has to find another way."""
        row = self._open_row(request, tool, arguments)
        return 0.0 if row is None else row.wait(request.id, request.session.pipeline.clock.now())

    def begin(self, request: CallRequest, tool: Tool, arguments: bytes) -> None:
        """Notes that such a call is let through after the time of the breaker: until it ends, no other is."""
        row = self._open_row(request, tool, arguments)
        if row is not None:
            now = request.session.pipeline.clock.now()
            self._rows[request.by, signature(tool.id, arguments)] = row._replace(trial=request.id, trial_at=now)

    def _open_row(self, request: CallRequest, tool: Tool, arguments: bytes) -> _Row | None:
        """The failures of a call, if they are as many as it takes."""
        row = self._rows.get((request.by, signature(tool.id, arguments))) if self._rows else None
        repeat = tool.limits.repeat
        return None if row is None or repeat is None or row.failures < failures(repeat) else row

    def _signature(self, live: LiveCall) -> str:
        call = live.admission
        if call.tool is not None and call.parsed is not None:
            return signature(call.tool.id, call.parsed.json)
        return signature(call.tool_id or live.name, call.arguments)


def _run(options: CallOptions) -> str:
    """The run whose calls are looked at together; those of agents that name none are one."""
    return options.run or options.foreign_run


@lru_cache(16)
def signature(tool_id: str, arguments: bytes) -> str:
    """What makes two calls the same: the tool and its canonical arguments. A call is looked at up to three times."""
    return f"{tool_id} {digest(arguments)}"


def digest(json: bytes) -> str:
    """A short name of a JSON text, whatever the order of its keys."""
    return blake2b(encode(canonical(json)), digest_size=16).hexdigest()


def _outcome(result: Result) -> str:
    """What makes two results the same."""
    if result.failure is None and not result.content:
        return digest(result.encoded or result.json)
    if result.failure is not None:
        return digest(encode([result.failure.code, result.failure.message]))
    return digest(encode([result.data, list(result.content)]))


def _failed(result: Result) -> bool:
    """True if a call failed of itself: no person, limit or outage ended it, and no other call was quicker."""
    return result.failure is not None and result.failure.code not in SPARED and "conflict" not in result.metadata


def _is_refused(live: LiveCall) -> bool:
    """True if a call did not run because it came in vain too often."""
    return live.verdict is not None and live.verdict.by == "limit"


def _told(result: Result) -> bool:
    """True if an end that is no success says something of the call that an agent could learn from."""
    return _failed(result) or (result.failure is not None and result.failure.code in ("denied", "declined"))
