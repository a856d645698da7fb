"""The newest revision: every request stands alone, and says itself which revision it is and what its client can do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from msgspec import UNSET

from toolcrib.errors import ToolFailure
from toolcrib.serve.mcp.library import LONGEST
from toolcrib.serve.mcp.notifications import LEVELS
from toolcrib.serve.mcp.request import Later, McpReply, McpRequest
from toolcrib.serve.mcp.server import McpServer
from toolcrib.serve.mcp.sessions import McpSession
from toolcrib.serve.mcp.subscriptions import LISTS, MOST_URIS, Subscriber, digest, states
from toolcrib.serve.mcp.wire import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NEWEST,
    SUPPORTED,
    UNSUPPORTED_VERSION,
    McpMessage,
    Params,
    ProtocolError,
)
from toolcrib.serve.principal import Principal

log = logging.getLogger("toolcrib.serve")
LISTEN = "subscriptions/listen"
MOST_TASKS = 100


class ModernHandler:
    """Reads a request of the newest revision and does what it says."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._methods = {
            **server.methods,
            "server/discover": server.discover,
            LISTEN: self.listen,
            "tasks/get": server.tasks.get,
            "tasks/update": server.tasks.update,
            "tasks/cancel": server.tasks.cancel,
        }

    def request(self, message: McpMessage, principal: Principal, header: str | None = None) -> McpRequest:
        """A message as a request; `header` is the revision that stands in the header, where there are headers.

        Raises:
            Wrong: it does not say what it has to, or says what nobody here knows.
        """
        params = Params() if message.params is UNSET else message.params
        meta = params.meta
        if meta is UNSET or meta.version is UNSET or meta.capabilities is UNSET:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: _meta must say protocolVersion and clientCapabilities")
        if header is not None and header != meta.version:
            raise ProtocolError(
                HEADER_MISMATCH, "Header mismatch: MCP-Protocol-Version must be the same as in the body"
            )
        if meta.version != NEWEST:
            known = {"supported": list(SUPPORTED), "requested": meta.version}
            raise ProtocolError(UNSUPPORTED_VERSION, f"Unsupported protocol version: {meta.version}", known)
        if message.method not in self._methods:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {message.method}")
        assert isinstance(message.method, str)
        assert isinstance(message.id, str | int)
        request = McpRequest(message.id, message.method, params, principal)
        request.capabilities = meta.capabilities
        if isinstance(meta.level, str) and meta.level in LEVELS:
            request.level = meta.level
        return request

    def do(self, request: McpRequest) -> Awaitable[McpReply | Later]:
        """Does what a request asks for."""
        return self._methods[request.method](request)

    def answered(self, reply: McpReply) -> bytes:
        """The result of a request."""
        return self._server.result(reply)

    # Subscriptions

    async def listen(self, request: McpRequest) -> Later:
        """A stream of what changes."""
        wanted = request.params.notifications
        if wanted is UNSET:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: notifications is missing")
        return self._listening(request, wanted)

    async def _listening(self, request: McpRequest, wanted: dict[str, Any]) -> McpReply:
        mcp_session = await self._server.mcp_session(request)
        assert request.line is not None
        subscriber = Subscriber(mcp_session, request.line, self._server.upstreams, request.id)
        shelved = self._server.has_library
        lists = {key: name for key, name in LISTS.items() if wanted.get(key) is True and (shelved or name == "tools")}
        uris = _texts(wanted.get("resourceSubscriptions"))[:MOST_URIS] if shelved else []
        uris = [uri for uri in uris if len(uri) <= LONGEST]
        tasks = _texts(wanted.get("taskIds"))[:MOST_TASKS] if request.knows_tasks else []
        tasks = [task for task in tasks if await self._server.sessions.task(task, request.principal) is not None]
        honoured = {**dict.fromkeys(lists, True), "resourceSubscriptions": uris, "taskIds": tasks}
        shown = {name: value for name, value in honoured.items() if value}
        subscriber.wants(frozenset(lists.values()))
        subscriber.uris.update(uris)
        with self._server.hub.listening(subscriber):
            await subscriber.send("notifications/subscriptions/acknowledged", {"notifications": shown})
            async with asyncio.TaskGroup() as group:
                for task in tasks:
                    group.create_task(self._follow(request, subscriber, task))
                if self._server.upstreams and uris:
                    await self._server.upstreams.refresh(mcp_session)
                    for uri in uris:
                        group.create_task(self._watch(mcp_session, subscriber, uri))
                await subscriber.run()
        raise AssertionError("who listens does so until it is cancelled")

    async def _watch(self, mcp_session: McpSession, subscriber: Subscriber, uri: str) -> None:
        """Hears of a resource of a server as long as the stream is open."""
        try:
            async with self._server.upstreams.watching(
                mcp_session, mcp_session.session, uri, lambda: subscriber.updated(uri)
            ):
                await asyncio.Event().wait()
        except (ProtocolError, ToolFailure) as error:
            log.info("nothing will be heard of %s: %s", uri, error.message)

    async def _follow(self, request: McpRequest, subscriber: Subscriber, task: str) -> None:
        """Tells how a task stands whenever that changes, and as it ends."""
        place = await self._server.sessions.task(task, request.principal)
        if place is None:
            return
        session, row = place
        last = b""
        async for _ in states(session, row.id):
            shown = await self._server.tasks.detailed(session, await session._row(row.id), request.capabilities)
            if digest(shown) != last:
                last = digest(shown)
                await subscriber.send("notifications/tasks", shown)


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
