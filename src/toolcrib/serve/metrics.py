"""Numbers for Prometheus, in its text form. What they are made of is counted as it happens, or looked up when asked.

There are a handful of them, so their text is written here; a client library would be a dependency for forty lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.calls.live import LiveCall
    from toolcrib.crib import Crib
    from toolcrib.serve.api import Api

KIND = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
NO_TOOL = "none"
"""The label of calls of tools that do not exist: whoever calls must not make up labels."""

OUT_OF_ORDER = frozenset({"unavailable", "timeout", "internal", "unknown"})
"""Ends that speak against the tool, and not against what it was asked."""

UNTRIED = frozenset({"denied", "declined", "cancelled", "invalid_arguments", "rate_limited"})
"""Ends that tell nothing of the tool."""

IN_A_ROW = 3

Labels = dict[str, str]


class Metrics:
    """What a server counts."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib
        self._calls: Counter[tuple[str, str]] = Counter()
        self._times: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._in_a_row: dict[str, list[str]] = {}

    def called(self, live: LiveCall) -> None:
        """A call has ended here."""
        tool = NO_TOOL if live.tool is None else live.tool.id
        outcome = live.result
        if outcome is None:
            return
        code = "succeeded" if outcome.failure is None else outcome.failure.code
        self._calls[tool, code] += 1
        if code in OUT_OF_ORDER:
            self._in_a_row[tool] = [*self._in_a_row.get(tool, ()), code][-IN_A_ROW:]
        elif code not in UNTRIED:
            self._in_a_row.pop(tool, None)
        if live.started_at:
            seconds = max(0.0, self._crib.pipeline.clock.now() - live.started_at)
            times = self._times.get(tool)
            if times is None:
                times = self._times[tool] = [0] * (len(BOUNDS) + 1)
            times[bisect_left(BOUNDS, seconds)] += 1
            self._seconds[tool] += seconds  # type: ignore[assignment]  # a sum of seconds

    def out_of_order(self) -> dict[str, str]:
        """The tools that seem not to work, and why, by how their last calls ended here."""
        told = {tool: codes for tool, codes in self._in_a_row.items() if len(codes) == IN_A_ROW}
        return {tool: f"Its last calls ended with {', '.join(codes)}" for tool, codes in told.items()}

    def requested(self, path: str, method: str, status: int) -> None:
        """A request was answered."""
        self._requests[path, method, status] += 1

    async def text(self, api: Api) -> bytes:
        """All of it, now."""
        crib = self._crib
        open_calls = Counter(
            row.state for row in await crib.store.calls(None, ("waiting", "queued", "running"), limit=100_000)
        )
        lines = [
            *_metric("toolcrib_calls_total", "counter", "Calls that ended here.", self._call_lines()),
            *self._durations(),
            *_metric(
                "toolcrib_calls",
                "gauge",
                "Calls of the store that are not done.",
                (({"state": state}, open_calls[state]) for state in ("waiting", "queued", "running")),
            ),
            *_metric("toolcrib_calls_here", "gauge", "Calls in flight here.", [({}, crib.in_flight)]),
            *_metric("toolcrib_sessions_open", "gauge", "Sessions in memory here.", [({}, crib.in_memory)]),
            *_metric("toolcrib_streams_open", "gauge", "Streams of events.", [({}, api.gate.open)]),
            *_metric("toolcrib_http_requests_total", "counter", "Requests to the API.", self._request_lines()),
        ]
        return "\n".join([*lines, ""]).encode()

    def _call_lines(self) -> Iterator[tuple[Labels, Any]]:
        for (tool, outcome), count in sorted(self._calls.items()):
            yield {"tool": tool, "outcome": outcome}, count

    def _request_lines(self) -> Iterator[tuple[Labels, Any]]:
        for (path, method, status), count in sorted(self._requests.items()):
            yield {"route": path, "method": method, "status": str(status)}, count

    def _durations(self) -> Iterator[str]:
        name = "toolcrib_call_duration_seconds"
        yield from _head(name, "histogram", "How long calls ran that ended here.")
        for tool, times in sorted(self._times.items()):
            total = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), times, strict=True):
                total += count
                yield _line(f"{name}_bucket", {"tool": tool, "le": bound}, total)
            yield _line(f"{name}_sum", {"tool": tool}, round(self._seconds[tool], 6))
            yield _line(f"{name}_count", {"tool": tool}, total)


def _metric(name: str, kind: str, help: str, values: Iterable[tuple[Labels, Any]]) -> Iterator[str]:
    yield from _head(name, kind, help)
    for labels, value in values:
        yield _line(name, labels, value)


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Labels, value: Any) -> str:
    if not labels:
        return f"{name} {value}"
    given = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{given}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
