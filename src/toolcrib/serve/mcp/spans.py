"""Spans `METHOD TOOL` of the requests of MCP clients, below the span that a request names in `_meta`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import UNSET

from toolcrib.serve.mcp.request import Later, McpReply, McpRequest
from toolcrib.serve.mcp.wire import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, NOT_FOUND, ProtocolError
from toolcrib.telemetry import Telemetry, extracted, failed

Method = Callable[[McpRequest], Awaitable["McpReply | Later"]]
ASKED_WRONG = (INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, NOT_FOUND)
"""Errors that are those of the client, and no fault of the server."""


def traced(methods: Mapping[str, Method], telemetry: Telemetry) -> dict[str, Method]:
    """Return the same methods, with a span around each."""
    return {name: _traced(method, telemetry) for name, method in methods.items()}


def _traced(method: Method, telemetry: Telemetry) -> Method:
    async def spanned(request: McpRequest) -> McpReply | Later:
        span = _ServerSpan(request, telemetry)
        reply = await span.over(method(request))
        if isinstance(reply, McpReply):
            span.end()
            return reply
        return span.finish(reply)

    return spanned


class _ServerSpan:
    """The span of one request."""

    def __init__(self, request: McpRequest, telemetry: Telemetry) -> None:
        from opentelemetry.trace import SpanKind

        self._telemetry = telemetry
        self._begun = time.perf_counter()
        self._measured: dict[str, Any] = {"mcp.method.name": request.method}
        name = request.params.name if request.method in ("tools/call", "prompts/get") else UNSET
        if request.method == "tools/call":
            self._measured["gen_ai.operation.name"] = "execute_tool"
        self._span = telemetry.tracer.start_span(
            request.method if name is UNSET else f"{request.method} {name}",
            _context(request),
            kind=SpanKind.SERVER,
            attributes={**self._measured, "jsonrpc.request.id": str(request.id), **_named(request.method, name)},
        )

    async def over(self, work: Awaitable[Any]) -> Any:
        """Does work within the span; where it fails, the span ends."""
        from opentelemetry.trace import use_span

        with use_span(self._span, record_exception=False, set_status_on_exception=False):
            try:
                return await work
            except ProtocolError as error:
                self._fail(str(error.code), counts=error.code not in ASKED_WRONG)
                raise
            except BaseException as error:
                self._fail(type(error).__name__)
                raise

    async def finish(self, later: Later) -> McpReply:
        """The reply that takes a while."""
        reply: McpReply = await self.over(later)
        self.end()
        return reply

    def _fail(self, kind: str, *, counts: bool = True) -> None:
        if counts:
            failed(self._span, kind)
            self._measured["error.type"] = kind
        self.end()

    def end(self) -> None:
        """Ends the span, and records how long it took."""
        from opentelemetry.trace import use_span

        with use_span(self._span):
            self._telemetry.instruments.mcp_server_duration.record(time.perf_counter() - self._begun, self._measured)
        self._span.end()


def _context(request: McpRequest) -> Any:
    """What the request names in `_meta`; else what its transport has named."""
    meta = request.params.meta
    if meta is UNSET or not isinstance(meta.traceparent, str):
        return None
    carrier = {"traceparent": meta.traceparent}
    return extracted(carrier | ({"tracestate": meta.tracestate} if isinstance(meta.tracestate, str) else {}))


def _named(method: str, name: Any) -> dict[str, str]:
    if name is UNSET:
        return {}
    return {"gen_ai.tool.name" if method == "tools/call" else "gen_ai.prompt.name": name}
