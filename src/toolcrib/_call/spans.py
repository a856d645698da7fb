"""Spans of OpenTelemetry for calls. They are made only where a program has set up its SDK; else nothing is imported.

A span is named `execute_tool TOOL` and has the attributes of the semantic conventions for generative AI, and of those
for MCP where the tool is one of an MCP server. Arguments, results and texts of errors stay out: the log has them.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from toolcrib._call.live_call import call_behind
from toolcrib.context import Parked, Stopped
from toolcrib.errors import ToolFailure
from toolcrib.types import Layer

SDK = "opentelemetry.sdk.trace"


def tracer() -> Any:
    """The tracer of the provider that the program has set; None where it has set none."""
    if SDK not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    return provider.get_tracer("toolcrib") if isinstance(provider, sys.modules[SDK].TracerProvider) else None


def traced(layer: Layer | None) -> Layer | None:
    """The same layer, with a span around each call where somebody wants spans."""
    made = tracer()
    if made is None or getattr(layer, "spans", False):
        return layer

    async def spans(context: Any, go_on: Callable[[], Awaitable[Any]]) -> Any:
        with _span(made, context) as span:
            value = await (go_on() if layer is None else layer(context, go_on))
            failure = getattr(value, "failure", None)
            if failure is not None:
                _failed(span, failure.code)
            return value

    spans.spans = True  # type: ignore[attr-defined]
    return spans


@contextmanager
def _span(tracer: Any, context: Any) -> Iterator[Any]:
    name = f"execute_tool {context.tool}"
    with tracer.start_as_current_span(
        name, attributes=_attributes(context), record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except (Parked, Stopped):
            span.set_attribute("toolcrib.call.paused", True)
            raise
        except ToolFailure as failure:
            _failed(span, failure.code)
            raise
        except BaseException as error:
            _failed(span, type(error).__name__)
            raise


def _attributes(context: Any) -> dict[str, Any]:
    live = call_behind(context)
    tool = live.tool
    assert tool is not None
    said = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool.id,
        "gen_ai.tool.type": "function" if tool.trusted else "extension",
        "gen_ai.tool.call.id": live.id,
        "gen_ai.conversation.id": live.session_id,
        "toolcrib.tool.effect": tool.does,
        "toolcrib.call.attempt": context.attempt,
    }
    if context.agent is not None:
        said["gen_ai.agent.name"] = context.agent
    if "mcp" in tool.metadata:
        said["mcp.method.name"] = "tools/call"
    return said


def _failed(span: Any, kind: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


@contextmanager
def joined(headers: Mapping[bytes, bytes]) -> Iterator[None]:
    """Makes what happens within part of the trace that a request belongs to."""
    from opentelemetry import context
    from opentelemetry.propagate import extract

    carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
    token = context.attach(extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
