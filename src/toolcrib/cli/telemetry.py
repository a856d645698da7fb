"""Sends spans, numbers and log lines to where the variables of OpenTelemetry say, where its SDK is installed.

`OTEL_EXPORTER_OTLP_ENDPOINT` is enough. Where a program has set up an SDK itself, that is used as it is.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolcrib.cli.server_log import Hidden
from toolcrib.extras import install

if TYPE_CHECKING:
    from toolcrib.cli.terminal import Choice
    from toolcrib.crib import Crib

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SIGNALS = ("TRACES", "METRICS", "LOGS")
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CONTENT_ON = ("true", "span_only", "span_and_event")
PEER = "mcp-python-sdk"
"""The tracer whose spans would stand between those of calls and servers, with texts of errors of anybody."""

END_S = 5.0
"""How long the last spans, numbers and lines may take: a receiver that is away holds up nobody."""

log = logging.getLogger("toolcrib.cli")


def wanted() -> bool:
    """Return whether the environment says that something is to be sent."""
    named = any(
        os.environ.get(f"OTEL_EXPORTER_OTLP_{one}_ENDPOINT")
        or os.environ.get(f"OTEL_{one}_EXPORTER", "none").strip().lower() != "none"
        for one in SIGNALS
    )
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and (named or bool(os.environ.get(ENDPOINT)))


def tells_content() -> bool:
    """Return whether arguments, results and messages are to be sent too."""
    return os.environ.get(CONTENT, "").strip().lower() in CONTENT_ON


@contextmanager
def exported(crib: Crib, choice: Choice) -> Iterator[None]:
    """Send what a crib tells while it runs, if the environment says where to."""
    if not wanted():
        yield
        return
    crib.trace_content = crib.trace_content or tells_content()
    providers = _started()
    ours = logging.getLogger("toolcrib")
    handler = LogLines(Hidden(choice), content=crib.trace_content) if providers else None
    if handler is not None:
        ours.addHandler(handler)
    try:
        yield
    finally:
        if handler is not None:
            ours.removeHandler(handler)
        _end(providers)


def _started() -> list[Any]:
    """Set up the SDK by the variables of the environment; what has to be flushed in the end."""
    from toolcrib.telemetry import telemetry

    if telemetry() is not None:
        return []
    _defaults()
    try:
        from opentelemetry import _logs, metrics, trace
        from opentelemetry.sdk._configuration import _OTelSDKConfigurator
        from opentelemetry.sdk.trace import _TracerConfig
    except ImportError:
        log.warning("nothing is sent by OpenTelemetry: its SDK is not installed; %s", install("telemetry"))
        return []

    class Configurator(_OTelSDKConfigurator):
        """The SDK as the environment describes it."""

    try:
        configurator: Any = Configurator
        configurator().configure(tracer_configurator=lambda scope: _TracerConfig(is_enabled=scope.name != PEER))
    except (RuntimeError, ValueError) as error:
        log.warning("nothing is sent by OpenTelemetry: %s", error)
        return []
    return [trace.get_tracer_provider(), metrics.get_meter_provider(), _logs.get_logger_provider()]


def _end(providers: list[Any]) -> None:
    """Have everything sent that was not sent yet, side by side and only for a while."""
    threads = [threading.Thread(target=provider.shutdown, daemon=True) for provider in providers]
    for provider, thread in zip(providers, threads, strict=True):
        atexit.unregister(provider.shutdown)  # which would wait for the receiver once more
        thread.start()
    until = time.monotonic() + END_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _defaults() -> None:
    """What the SDK would else take from nowhere: a name, the protocol that the extra brings, all three signals."""
    os.environ.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", "toolcrib")
    for signal in SIGNALS:
        if os.environ.get(ENDPOINT) or os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"):
            os.environ.setdefault(f"OTEL_{signal}_EXPORTER", "otlp")


class LogLines(logging.Handler):
    """Sends the lines of the log, with the span that they belong to. Texts of exceptions only where content is told."""

    def __init__(self, hidden: Hidden, *, content: bool) -> None:
        super().__init__()
        self._hidden = hidden
        self._content = content

    def emit(self, record: logging.LogRecord) -> None:
        """Send a line."""
        from opentelemetry._logs import LogRecord, SeverityNumber, get_logger
        from opentelemetry.context import get_current

        severity = {10: "DEBUG", 20: "INFO", 30: "WARN", 40: "ERROR", 50: "FATAL"}.get(record.levelno, "UNSPECIFIED")
        get_logger(record.name).emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                context=get_current(),
                severity_text=record.levelname,
                severity_number=SeverityNumber[severity],
                body=self._hidden.text(self._body(record)),
                attributes=self._error(record),
            )
        )

    def _body(self, record: logging.LogRecord) -> str:
        if self._content or not isinstance(record.args, tuple):
            return record.getMessage()
        args = tuple(type(one).__name__ if isinstance(one, BaseException) else one for one in record.args)
        return record.msg % args if args else str(record.msg)

    def _error(self, record: logging.LogRecord) -> dict[str, str]:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return {}
        kind = {"exception.type": type(error).__qualname__}
        return kind | ({"exception.message": self._hidden.text(str(error))} if self._content else {})
