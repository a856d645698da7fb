"""Spans and numbers of calls. They are made only where a program has set up OpenTelemetry.

A span is named `execute_tool TOOL` and has the attributes of the semantic conventions for generative AI, and of those
for MCP where the tool is one of an MCP server. A call that waits has a span for each time its body ran, below the same
parent, whichever machine goes on with it. Arguments and results are told only where that is switched on, as the log has
them; texts of errors never.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib._call import lifecycle
from toolcrib._call.live_call import call_behind
from toolcrib.context import Parked, Stopped
from toolcrib.errors import ToolFailure
from toolcrib.store.codec import encode
from toolcrib.telemetry import Telemetry, failed
from toolcrib.types import Layer, Result

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.request import CallRequest

NO_TOOL = "none"
"""The name of tools that do not exist: whoever calls must not make up names of spans and numbers."""

LARGEST = 32_768
"""So many characters of arguments or of a result are told at the most."""


class CallSpans:
    """Makes the spans of calls."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.telemetry = telemetry

    def stamped(self, request: CallRequest) -> CallRequest:
        """The same request, with the span that it was made in, for whoever runs it."""
        if request.options.trace is not None:
            return request
        trace = self.telemetry.begun("call", request.session.id)
        return msgspec.structs.replace(request, options=msgspec.structs.replace(request.options, trace=trace))

    def around(self, layer: Layer | None) -> Layer:
        """The same layer, with a span around each call."""

        async def spans(context: Any, go_on: Callable[[], Awaitable[Any]]) -> Any:
            with self._span(context) as span:
                value = await (go_on() if layer is None else layer(context, go_on))
                failure = getattr(value, "failure", None)
                if failure is not None:
                    failed(span, failure.code)
                elif self.telemetry.content and span.is_recording():
                    _tell_result(span, call_behind(context), value)
                return value

        return spans

    def ended(self, live: LiveCall) -> None:
        """Counts a call that ended here; one whose body never ran gets a span that tells why."""
        assert live.result is not None
        failure = live.result.failure
        tool = NO_TOOL if live.tool is None else live.tool.id
        code = "succeeded" if failure is None else failure.code
        self.telemetry.instruments.calls.add(1, {"gen_ai.tool.name": tool, "toolcrib.call.outcome": code})
        if failure is not None and not live.started_at and live.row is not None and live.row.attempt == 0:
            parent = self.telemetry.parent(live.request.options.trace)
            span = self.telemetry.tracer.start_span(f"execute_tool {tool}", parent, attributes=_facts(live))
            failed(span, failure.code)
            span.end()

    @contextmanager
    def _span(self, context: Any) -> Iterator[Any]:
        live = call_behind(context)
        attributes = {**_facts(live), "toolcrib.call.attempt": context.attempt}
        if self.telemetry.content:
            attributes["gen_ai.tool.call.arguments"] = encode(lifecycle.arguments(live)).decode()[:LARGEST]
        trace, measured, begun = live.request.options.trace, _measured(live), time.perf_counter()
        with self.telemetry.tracer.start_as_current_span(
            f"execute_tool {live.tool_id}",
            self.telemetry.parent(trace),
            attributes=attributes,
            links=self.telemetry.links(trace) if live.history is not None else (),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                with _outcome(span):
                    yield span
            finally:
                error = (getattr(span, "attributes", None) or {}).get("error.type")
                measured |= {} if error is None else {"error.type": error}
                self.telemetry.instruments.tool_duration.record(time.perf_counter() - begun, measured)


@contextmanager
def _outcome(span: Any) -> Iterator[None]:
    """Tells a span how a body left: it waits, or it failed."""
    try:
        yield
    except (Parked, Stopped):
        span.set_attribute("toolcrib.call.paused", True)
        raise
    except ToolFailure as failure:
        failed(span, failure.code)
        raise
    except BaseException as error:
        failed(span, type(error).__name__)
        raise


def _facts(live: LiveCall) -> dict[str, Any]:
    tool = live.tool
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": NO_TOOL if tool is None else tool.id,
        "gen_ai.tool.call.id": live.id,
        "gen_ai.conversation.id": live.session_id,
        "session.id": live.session_id,
    }
    if tool is not None:
        attributes["gen_ai.tool.type"] = "function" if tool.trusted else "extension"
        attributes["toolcrib.tool.effect"] = tool.does
        if "mcp" in tool.metadata:
            attributes["mcp.method.name"] = "tools/call"
    options = live.request.options
    if options.agent is not None:
        attributes["gen_ai.agent.name"] = options.agent
    if live.request.origin.parent is not None:
        attributes["toolcrib.call.parent"] = live.request.origin.parent
    return attributes


def _measured(live: LiveCall) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": live.tool_id}
    agent = live.request.options.agent
    return attributes if agent is None else attributes | {"gen_ai.agent.name": agent}


def _tell_result(span: Any, live: LiveCall, value: Any) -> None:
    data = value.data if isinstance(value, Result) else value
    try:
        text = encode(data).decode()
    except Exception:  # noqa: BLE001 - a tool may return anything; what is no JSON is not told
        return
    span.set_attribute("gen_ai.tool.call.result", live.masked(text)[:LARGEST])
