"""Calls that go round in circles: an agent's by what they gave, anybody else's by failures in a row.

The second is a breaker: for a while after its last failure the same call of the same caller is refused, then one is let
through, and by its end the others are again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import CallRequest
from toolcrib.policy import Verdict
from toolcrib.policy.loops import SPARED, RunHistory, digest, failures, hint, signature
from toolcrib.store.codec import canonical
from toolcrib.tool import Tool
from toolcrib.types import By, Result

REST_S = 60.0
MOST = 100
RUNS = 16


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
        self._rows: dict[tuple[By, str, str], _Row] = {}
        self._runs: dict[str, RunHistory] = {}
        # A call is looked at before it runs, when it ends and when that is noted: what names it is worked out once.
        self._call: tuple[str, bytes, str] = ("", b"", "")
        self._end: tuple[bytes, str] = (b"", "")

    def __bool__(self) -> bool:
        return bool(self._rows or self._runs)

    def warned(self, live: LiveCall, result: Result) -> Result:
        """The result of an agent's call, with a hint from the third equal one on."""
        if live.tool is None:
            return result
        times = self._run(live).equal(self._signature(live), self._outcome(result))
        said = hint(times, live.tool.limits.repeat)
        if said is None:
            return result
        if result.failure is not None:
            return result.but(failure=replace(result.failure, hint=result.failure.hint or said))
        metadata = {**result.metadata, "hint": said}
        return result.but(metadata=metadata)

    def note(self, live: LiveCall, result: Result) -> None:
        """Takes the outcome of a call."""
        if live.by.kind == "agent":
            self._note_run(live, result)
            return
        key = (live.by, *_key(live.tool_id or live.name, live.args))
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

    def _note_run(self, live: LiveCall, result: Result) -> None:
        run, call = self._run(live), self._signature(live)
        refused = live.verdict is not None and live.verdict.by == "limit"
        if not refused and result.failure is not None and not _told(result):
            return
        self._runs.pop(live.run or "", None)
        self._runs[live.run or ""] = (
            run.note_refused(call) if refused else run.note(call, self._outcome(result), _failed(result))
        )
        if len(self._runs) > RUNS:
            del self._runs[next(iter(self._runs))]

    def verdict(self, request: CallRequest, tool: Tool, arguments: bytes) -> Verdict | None:
        """A refusal of a call that came in vain too often."""
        repeat = tool.limits.repeat
        if request.by.kind == "agent":
            run = self._runs.get(request.run or "") or RunHistory()
            return run.verdict(tool.name, self._named(request.id, tool.id, arguments), repeat)
        row = self._open_row(request, tool, arguments)
        if row is None or self.wait(request, tool, arguments) <= 0:
            return None
        return Verdict("deny", "limit", f"'{tool.name}' failed {row.failures} times in a row with these arguments")

    def wait(self, request: CallRequest, tool: Tool, arguments: bytes) -> float:
        """For how many seconds the breaker refuses a call; 0 for that of an agent, which has to find another way."""
        row = None if request.by.kind == "agent" else self._open_row(request, tool, arguments)
        return 0.0 if row is None else row.wait(request.id, request.session.pipeline.clock.now())

    def begin(self, request: CallRequest, tool: Tool, arguments: bytes) -> None:
        """Notes that a call is let through after the time of the breaker: until it ends, no other is."""
        row = None if request.by.kind == "agent" else self._open_row(request, tool, arguments)
        if row is not None:
            now = request.session.pipeline.clock.now()
            self._rows[request.by, *_key(tool.id, arguments)] = row._replace(trial=request.id, trial_at=now)

    def _open_row(self, request: CallRequest, tool: Tool, arguments: bytes) -> _Row | None:
        """The failures of a call, if they are as many as it takes."""
        row = self._rows.get((request.by, *_key(tool.id, arguments))) if self._rows else None
        repeat = tool.limits.repeat
        return None if row is None or repeat is None or row.failures < failures(repeat) else row

    def _run(self, live: LiveCall) -> RunHistory:
        return self._runs.get(live.run or "") or RunHistory()

    def _signature(self, live: LiveCall) -> str:
        return self._named(live.id, live.tool_id or live.name, live.args)

    def _named(self, call: str, tool: str, arguments: bytes) -> str:
        id, before, named = self._call
        if id != call or before is not arguments:
            named = signature(*_key(tool, arguments))
            self._call = call, arguments, named
        return named

    def _outcome(self, result: Result) -> str:
        failure = result.failure
        if failure is not None:
            return digest([failure.code, failure.message])
        if result.content:
            return digest([result.data, list(result.content)])
        json, named = self._end
        if json is not result.json:
            named = digest(canonical(result.json))
            self._end = result.json, named
        return named


def _key(tool: str, arguments: bytes) -> tuple[str, str]:
    text = canonical(arguments)
    return tool, text if isinstance(text, str) else bytes(text).decode()


def _failed(result: Result) -> bool:
    """Whether a call failed of itself: no person, limit or outage ended it, and no other call was quicker."""
    return result.failure is not None and result.failure.code not in SPARED and "conflict" not in result.metadata


def _told(result: Result) -> bool:
    """Whether an end that is no success says something of the call that an agent could learn from."""
    return _failed(result) or (result.failure is not None and result.failure.code in ("denied", "declined"))
