"""The messages of a server as they come in, mended where the SDK would refuse more than it has to."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from typing import Any

from mcp_types import JSONRPCResponse, methods
from pydantic import ValidationError

log = logging.getLogger("toolcrib.mcp")


class IncomingMessages:
    """A stream of messages. A result that does not say what kind it is, is complete.

    While a list of tools is waited for, `version` says by which revision they are looked at, and `room` how many of
    them are still taken; `truncated` says that there were more.
    """

    def __init__(self, inner: Any, ended: Callable[[], None]) -> None:
        self._inner = inner
        self._ended = ended
        self.heard = 0
        self.version: str | None = None
        self.room = 0
        self.truncated = False

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context of the request that the last message belongs to, where the transport knows it."""
        return getattr(self._inner, "last_context", None)

    def __aiter__(self) -> IncomingMessages:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await anext(self._inner)
        except StopAsyncIteration:
            self._ended()
            raise
        self.heard += 1
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse):
            message.result.setdefault("resultType", "complete")
            if self.version is not None:
                self._cut(message.result)
                _sift(message.result, self.version)
        return item

    def _cut(self, result: dict[str, Any]) -> None:
        """Forgets what is too much before anybody looks at it."""
        tools = result.get("tools")
        if isinstance(tools, list) and len(tools) > self.room:
            del tools[self.room :]
            self.truncated = True

    async def receive(self) -> Any:
        """The next message."""
        return await anext(self)

    async def aclose(self) -> None:
        """Closes the stream below."""
        await self._inner.aclose()

    async def __aenter__(self) -> IncomingMessages:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _sift(result: dict[str, Any], version: str) -> None:
    """Takes out the tools that do not hold: the SDK would refuse the whole list for one of them."""
    tools = result.get("tools")
    if isinstance(tools, list) and not _holds(result, version):
        result["tools"] = [tool for tool in tools if _holds({**result, "tools": [tool]}, version)]
        log.warning("%d tools of a server are left out, since they do not hold", len(tools) - len(result["tools"]))


def _holds(result: dict[str, Any], version: str) -> bool:
    try:
        methods.validate_server_result("tools/list", version, result)
    except ValidationError:
        return False
    return True
