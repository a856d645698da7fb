"""Numbers for Prometheus. They are counted as calls end and requests are answered; a scrape reads no calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib.crib import Crib
    from toolcrib.serve.api import Api

KIND = (b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode())
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
NO_TOOL = "none"
"""The label of calls of tools that do not exist: whoever calls must not make up labels."""

OUT_OF_ORDER = frozenset({"unavailable", "timeout", "internal", "unknown"})
"""Ends that speak against the tool, and not against what it was asked."""

UNTRIED = frozenset({"denied", "declined", "cancelled", "invalid_arguments", "rate_limited"})
"""Ends that tell nothing of the tool."""

IN_A_ROW = 3
REASONS = 20
"""So many failure codes of one tool have a label each."""

OTHER = "other"
_REASON = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class Metrics:
    """What a server counts. Its numbers belong to no registry of the process, which may serve several cribs."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib
        self._calls = Counter("toolcrib_calls_total", "Calls that ended here.", ("tool", "outcome"), registry=None)
        self._times = Histogram(
            "toolcrib_call_duration_seconds",
            "How long calls ran that ended here.",
            ("tool",),
            buckets=BOUNDS,
            registry=None,
        )
        self._reasons = Counter(
            "toolcrib_call_failure_reasons_total",
            "Calls that ended here with a failure code of their tool's own.",
            ("tool", "reason"),
            registry=None,
        )
        self._known_reasons: dict[str, set[str]] = {}
        self._requests = Counter(
            "toolcrib_http_requests_total", "Requests to the API.", ("route", "method", "status"), registry=None
        )
        self._in_a_row: dict[str, list[str]] = {}

    def called(self, live: LiveCall) -> None:
        """Count a call that has ended here."""
        tool = NO_TOOL if live.tool is None else live.tool.id
        outcome = live.result
        if outcome is None:
            return
        code = "succeeded" if outcome.failure is None else outcome.failure.code
        self._calls.labels(tool, code).inc()
        if outcome.failure is not None and outcome.failure.reason is not None:
            self._reasons.labels(tool, self._reason(tool, outcome.failure.reason)).inc()
        if code in OUT_OF_ORDER:
            self._in_a_row[tool] = [*self._in_a_row.get(tool, ()), code][-IN_A_ROW:]
        elif code not in UNTRIED:
            self._in_a_row.pop(tool, None)
        if live.started_at:
            self._times.labels(tool).observe(max(0.0, self._crib.pipeline.clock.now() - live.started_at))

    def _reason(self, tool: str, reason: str) -> str:
        """Return the label of a tool's own failure code. A tool that makes up ever new ones gets no more labels."""
        known = self._known_reasons.setdefault(tool, set())
        if reason not in known:
            if len(known) >= REASONS or not _REASON.fullmatch(reason):
                return OTHER
            known.add(reason)
        return reason

    def out_of_order(self) -> dict[str, str]:
        """Return the tools that seem not to work, and why, by how their last calls ended here."""
        failing = {tool: codes for tool, codes in self._in_a_row.items() if len(codes) == IN_A_ROW}
        return {tool: f"Its last calls ended with {', '.join(codes)}" for tool, codes in failing.items()}

    def requested(self, path: str, method: str, status: int) -> None:
        """Count a request that was answered."""
        self._requests.labels(path, method, str(status)).inc()

    async def text(self, api: Api) -> bytes:
        """Return all numbers as they are now, in Prometheus' text form."""
        crib, states = self._crib, await self._crib.store.open_calls()
        gauges = [
            _gauge("toolcrib_calls", "Calls of the store that are not done.", states, "state"),
            _gauge("toolcrib_calls_here", "Calls in flight here.", {"": crib.in_flight}),
            _gauge("toolcrib_sessions_open", "Sessions in memory here.", {"": crib.in_memory}),
            _gauge("toolcrib_streams_open", "Streams of events.", {"": api.gate.open}),
        ]
        return generate_latest(_Scrape([*self._counted(), *gauges]))

    def _counted(self) -> Iterator[Metric]:
        for metric in (self._calls, self._reasons, self._times, self._requests):
            for family in metric.collect():
                family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
                yield family


class _Scrape(Collector):
    """The numbers of one answer."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        """Return all of them."""
        return self._families


def _gauge(name: str, help: str, values: Mapping[str, int], label: str | None = None) -> Metric:
    family = GaugeMetricFamily(name, help, labels=[] if label is None else [label])
    for key, value in values.items():
        family.add_metric([] if label is None else [key], value)
    return family
