"""A receiver of OTLP over HTTP on this machine, which keeps what it is sent as plain values."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {0: "unspecified", 1: "internal", 2: "server", 3: "client"}


class Span(NamedTuple):
    """One span."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    events: list[str]
    failed: bool
    description: str
    resource: dict[str, Any]
    scope: str


class Point(NamedTuple):
    """One point of a metric."""

    name: str
    attributes: dict[str, Any]
    value: float
    exemplars: list[tuple[str, str]]


class Line(NamedTuple):
    """One line of a log."""

    body: Any
    attributes: dict[str, Any]
    trace: str
    span: str


class Receiver:
    """What was received until now."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Span] = []
        self.points: list[Point] = []
        self.lines: list[Line] = []
        self.raw = b""
        self._arrived = threading.Condition()

    def environment(self, **more: str) -> dict[str, str]:
        """The variables that have a program send everything here, soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
            "OTEL_BLRP_SCHEDULE_DELAY": "100",
            **more,
        }

    def take(self, path: str, body: bytes) -> None:
        """Keep what one request holds."""
        with self._arrived:
            self.raw += body
            match path:
                case "/v1/traces":
                    self.spans += _spans(ExportTraceServiceRequest.FromString(body))
                case "/v1/metrics":
                    self.points += _points(ExportMetricsServiceRequest.FromString(body))
                case "/v1/logs":
                    self.lines += _lines(ExportLogsServiceRequest.FromString(body))
            self._arrived.notify_all()

    def wait_for(self, *names: str) -> None:
        """Return when spans of these names have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: set(names) <= {one.name for one in self.spans}, 120), self.names

    @property
    def names(self) -> list[str]:
        """The names of all spans."""
        return [one.name for one in self.spans]

    def named(self, name: str) -> list[Span]:
        """The spans of a name."""
        return [one for one in self.spans if one.name == name]

    def one(self, name: str) -> Span:
        """The only span of a name."""
        spans = self.named(name)
        assert len(spans) == 1, (name, self.names)
        return spans[0]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver at a port that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            plain = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            receiver.take(self.path, plain)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _spans(request: Any) -> Iterator[Span]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for one in scope.spans:
                yield Span(
                    one.name,
                    KINDS[one.kind],
                    one.trace_id.hex(),
                    one.span_id.hex(),
                    one.parent_span_id.hex(),
                    _values(one.attributes),
                    [(link.trace_id.hex(), link.span_id.hex()) for link in one.links],
                    [event.name for event in one.events],
                    one.status.code == 2,
                    one.status.message,
                    _values(resource.resource.attributes),
                    scope.scope.name,
                )


def _points(request: Any) -> Iterator[Point]:
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in getattr(metric, metric.WhichOneof("data")).data_points:
                    value = point.count if hasattr(point, "count") else point.as_int or point.as_double
                    exemplars = [(one.trace_id.hex(), one.span_id.hex()) for one in point.exemplars]
                    yield Point(metric.name, _values(point.attributes), value, exemplars)


def _lines(request: Any) -> Iterator[Line]:
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            for one in scope.log_records:
                yield Line(_value(one.body), _values(one.attributes), one.trace_id.hex(), one.span_id.hex())


def _values(pairs: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)
