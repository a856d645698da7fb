"""OpenTelemetry, where a program has set it up. Nothing of it is imported where a program has not.

Only its API is used here: what becomes of spans, numbers and log lines is decided by the SDK that a program sets up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from toolcrib.telemetry.instruments import Instruments

API = "opentelemetry.trace"
PARENT = "traceparent"
_IDLE = frozenset({"ProxyTracerProvider", "NoOpTracerProvider", "_ProxyMeterProvider", "NoOpMeterProvider"})
"""The providers of the API itself, which do nothing. Any other may be anybody's class, under the same name too."""


class Telemetry:
    """The tracer and the instruments of a program. `content` says whether arguments, results and messages are told."""

    def __init__(self, *, content: bool = False) -> None:
        from opentelemetry import metrics, trace

        self.content = content
        self.tracer = trace.get_tracer("toolcrib")
        self.instruments = _instruments(metrics.get_meter_provider())

    def current(self) -> str | None:
        """Return the `traceparent` of the span that is under way here, if there is one."""
        return current_trace()

    def begun(self, name: str, session: str) -> str:
        """Return the `traceparent` that something belongs to which goes on by itself, perhaps much later and elsewhere.

        That is the span under way; where there is none, a span of no length begins the trace.
        """
        trace = self.current()
        if trace is None:
            facts = {"gen_ai.conversation.id": session, "session.id": session}
            span = self.tracer.start_span(name, attributes=facts)
            trace = written(span.get_span_context())
            span.end()
        return trace

    def parent(self, trace: str | None) -> Any:
        """Return the context below a `traceparent`: the one of now where that is the same span."""
        from opentelemetry import context

        if trace is None or trace == self.current():
            return context.get_current()
        return extracted({PARENT: trace})

    def links(self, trace: str | None) -> list[Any]:
        """Return a link to the span that is under way here, unless a `traceparent` names it."""
        from opentelemetry.trace import Link, get_current_span

        here = get_current_span().get_span_context()
        return [Link(here)] if here.is_valid and trace != self.current() else []


def telemetry(*, content: bool = False) -> Telemetry | None:
    """Return what a program has set up for spans and numbers; None where it has set up nothing."""
    if API not in sys.modules:
        return None
    from opentelemetry import metrics, trace

    providers = (trace.get_tracer_provider(), metrics.get_meter_provider())
    return None if all(map(_is_idle, providers)) else Telemetry(content=content)


def _is_idle(provider: Any) -> bool:
    kind = type(provider)
    return kind.__name__ in _IDLE and kind.__module__.startswith("opentelemetry.")


def instruments() -> Instruments | None:
    """Return the instruments of the program, for parts that no crib gives them to; None where nobody reads them."""
    if API not in sys.modules:
        return None
    from opentelemetry import metrics

    provider = metrics.get_meter_provider()
    return None if _is_idle(provider) else _instruments(provider)


@lru_cache(8)
def _instruments(provider: Any) -> Instruments:
    return Instruments(provider.get_meter("toolcrib"))


def current_trace() -> str | None:
    """Return the `traceparent` of the span that is under way here, if there is one."""
    if API not in sys.modules:
        return None
    from opentelemetry.trace import get_current_span

    here = get_current_span().get_span_context()
    return written(here) if here.is_valid else None


def written(span: Any) -> str:
    """Return the context of a span as the header `traceparent` writes it."""
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def trace_link(template: str, trace: str, session: str = "", call: str = "") -> str:
    """Return the address where a trace is looked at: a template with the ids of a `traceparent`, a session, a call."""
    _, id, span, *_ = [*trace.split("-"), "", "", ""]
    ids = {"{trace}": id, "{span}": span, "{session}": session, "{call}": call}
    for name, value in ids.items():
        template = template.replace(name, quote(value, safe=""))
    return template


def extracted(carrier: Mapping[str, str]) -> Any:
    """Return the context that headers, or fields like them, carry."""
    from opentelemetry import propagate

    return propagate.extract(carrier)


def inject(headers: MutableMapping[str, str]) -> None:
    """Add what tells the receiver of a request which span made it, where there is one."""
    if current_trace() is not None:
        from opentelemetry import propagate

        propagate.inject(headers)


@contextmanager
def joined(carrier: Mapping[str, str]) -> Iterator[None]:
    """Make what happens within part of the trace that a request belongs to."""
    from opentelemetry import context

    token = context.attach(extracted(carrier))
    try:
        yield
    finally:
        context.detach(token)


def failed(span: Any, kind: str) -> None:
    """Mark a span as one that ended in an error of that kind. Its text stays out: it may hold anything."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
