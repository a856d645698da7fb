"""The messages to a server: a request for a call says what the client that made the call can do, not what we can."""

from __future__ import annotations

from typing import Any

from toolcrib.sources.mcp.callers import callers
from toolcrib.sources.mcp.questions import exchange_of_this_context
from toolcrib.sources.mcp.settings import McpClientSettings

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LEVEL = "io.modelcontextprotocol/logLevel"


class OutgoingMessages:
    """A stream of messages to a server. A request for a call says what the client of that call can do."""

    def __init__(self, inner: Any, settings: McpClientSettings) -> None:
        self._inner = inner
        self._settings = settings

    async def send(self, item: Any) -> None:
        """Sends a message."""
        params = getattr(getattr(item, "message", None), "params", None)
        if isinstance(params, dict) and isinstance(meta := params.get("_meta"), dict) and CAPABILITIES in meta:
            params["_meta"] = {**meta, **self._told(meta[CAPABILITIES])}
        await self._inner.send(item)

    def _told(self, capabilities: dict[str, Any]) -> dict[str, Any]:
        """Elicitation is always there, since people answer elsewhere too."""
        exchange = exchange_of_this_context.get()
        caller = None if exchange is None else callers.get(exchange.ctx.id)
        left = dict(capabilities)
        if self._settings.sampler is None and (caller is None or not caller.can("sampling")):
            left.pop("sampling", None)
        if caller is None:
            left.pop("roots", None)
            return {CAPABILITIES: left}
        if not caller.can("roots"):
            left.pop("roots", None)
        if not caller.knows(TASKS):
            left.pop("extensions", None)
        return {CAPABILITIES: left} | ({LEVEL: caller.level} if caller.level else {})

    async def aclose(self) -> None:
        """Closes the stream below."""
        await self._inner.aclose()

    async def __aenter__(self) -> OutgoingMessages:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
