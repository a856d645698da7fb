"""One request of a client: who sent it, what the client can do, and where messages about it go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from toolcrib.serve.mcp.wire import INVALID_PARAMS, MISSING_CAPABILITY, TASKS, Id, Params, ProtocolError
from toolcrib.serve.principal import Principal
from toolcrib.tool import Tool
from toolcrib.types import By

_NOTHING: Mapping[str, Any] = {}


class MessageSink(Protocol):
    """Where messages of the server go while a request is under way.

    One that was `refused` ended because whoever listened may not any more; they did not leave.
    """

    refused: bool

    async def send(self, message: bytes, seq: int = 0) -> None:
        """Sends one; `seq` is the place in the log that it was made from."""


class McpReply:
    """What answers a request: the JSON of a result, and its type in the newest revision."""

    __slots__ = ("body", "kind")

    def __init__(self, body: bytes, kind: bytes = b"complete") -> None:
        self.body = body
        self.kind = kind


Later = Awaitable[McpReply]
"""An answer that takes a while, so that somebody has to watch whether it is still wanted."""


class McpRequest:
    """A request as its method sees it. Its defaults stand on the class, so that one that needs little costs little."""

    modern = True
    capabilities: Mapping[str, Any] = _NOTHING
    level: str | None = None
    connection = ""
    call = ""
    line: MessageSink | None = None
    tool: Callable[[Tool, bytes], None] | None = None

    def __init__(self, id: Id, method: str, params: Params, principal: Principal) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.principal = principal

    @property
    def knows_tasks(self) -> bool:
        """True if its client takes a task for a result."""
        extensions = self.capabilities.get("extensions")
        return self.modern and isinstance(extensions, Mapping) and TASKS in extensions

    @property
    def takes_task(self) -> bool:
        """True if a task may answer it: that of a client that knows tasks, and a call of a tool."""
        return self.method == "tools/call" and self.knows_tasks

    @property
    def token(self) -> Id | None:
        """What progress is to be told under, if it is to be told."""
        meta = self.params.meta
        return None if meta is UNSET or meta.token is UNSET else meta.token

    @property
    def by(self) -> By:
        """Who asks, as the log names it."""
        return _by(self.principal.name)

    def needs(self, name: str) -> str:
        """A parameter that has to be there.

        Raises:
            Wrong: it is not.
        """
        value: str | UnsetType = getattr(self.params, name)
        if value is UNSET:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: {_CAMEL.get(name, name)} is missing")
        return value

    async def send(self, message: bytes, seq: int = 0) -> None:
        """Sends a message about it, where there is a way."""
        if self.line is not None:
            await self.line.send(message, seq)


_CAMEL = {"task_id": "taskId"}


@lru_cache(10_000)
def _by(name: str) -> By:
    return By("client", name)


def lacking(*capabilities: str, extension: str | None = None) -> ProtocolError:
    """The error for a client that did not declare what a request needs."""
    required: dict[str, Any] = {name: {} for name in capabilities}
    if extension is not None:
        required["extensions"] = {extension: {}}
    names = ", ".join((*capabilities, *([extension] if extension else [])))
    message = f"The client has not declared what this needs: {names}"
    return ProtocolError(MISSING_CAPABILITY, message, {"requiredCapabilities": required})
