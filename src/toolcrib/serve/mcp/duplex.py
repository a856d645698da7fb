"""One client on a connection that carries messages both ways, whichever that is and of whichever revision they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

from msgspec import UNSET

from toolcrib._call.scheduler import Starter
from toolcrib.serve.mcp import wire
from toolcrib.serve.mcp.legacy import LegacyConnection, LegacyHandler
from toolcrib.serve.mcp.modern import ModernHandler
from toolcrib.serve.mcp.request import McpReply, McpRequest
from toolcrib.serve.mcp.server import McpServer
from toolcrib.serve.mcp.subscriptions import Subscriber
from toolcrib.serve.mcp.wire import INTERNAL, INVALID_REQUEST, Id, McpMessage, ProtocolError
from toolcrib.serve.principal import Principal

log = logging.getLogger("toolcrib.serve")


class Duplex:
    """Takes messages of a client and answers them; `write` sends one, `drained` returns when there is room for more."""

    def __init__(
        self,
        server: McpServer,
        principal: Principal,
        write: Callable[[bytes], None],
        drained: Callable[[], Awaitable[None]],
    ) -> None:
        self._server = server
        self._principal = principal
        self._write = write
        self._drained = drained
        self._modern = ModernHandler(server)
        self._legacy = LegacyHandler(server)
        self._connection: LegacyConnection | None = None
        self._working: dict[Id, asyncio.Task[None] | None] = {}
        self._left: set[asyncio.Task[Any]] = set()
        self._starter = Starter(asyncio.get_running_loop())
        self.refused = False

    @property
    def under_way(self) -> int:
        """How many requests are not answered yet."""
        return len(self._working)

    async def send(self, message: bytes, seq: int = 0) -> None:
        """Sends a message, and waits while the client does not read."""
        self._write(message)
        await self._drained()

    def take(self, line: bytes) -> None:
        """Takes a message; what can be answered at once is."""
        try:
            if len(line) > self._server.settings.largest:
                raise ProtocolError(INVALID_REQUEST, f"A message has more than {self._server.settings.largest} bytes")
            connection = self._connection
            parts = wire.batch(line) if connection is not None and connection.version == wire.BATCHES else None
            for part in (line,) if parts is None else parts:
                self._begin(wire.read(part))
        except ProtocolError as wrong:
            self._write(wire.error(wire.id_of(line), wrong))

    def _begin(self, message: McpMessage) -> None:
        if message.method is UNSET or message.id is UNSET:
            self._start(self._told(message), None)
            return
        id = cast(Id, message.id)
        if id in self._working:
            raise ProtocolError(INVALID_REQUEST, "A request of this id is under way")
        work = self._at_once(message, id) if message.method == "tools/call" else self._answered(message, id)
        if work is not None:
            self._working[id] = None
            self._start(self._answer(message, id, work), id)

    def _at_once(self, message: McpMessage, id: Id) -> Awaitable[bytes] | None:
        """Answers a call that is over at once; otherwise what there is to wait for."""
        if not _is_modern(message):
            return self._answered(message, id)
        request = self._modern.request(message, self._principal)
        request.line = self
        answer = self._server.call_at_once(request, self._starter)
        if not isinstance(answer, McpReply):
            return self._rest(request, self._modern.do(request) if answer is None else answer)
        self._write(wire.answer(id, self._modern.answered(answer)))
        return None

    async def _rest(self, request: McpRequest, work: Awaitable[Any]) -> bytes:
        return wire.answer(request.id, self._modern.answered(await self._done(request, work)))

    def _start(self, work: Any, id: Id | None) -> None:
        task = self._starter.start(work)
        if task is None:
            return
        self._left.add(task)
        task.add_done_callback(self._left.discard)
        if id is not None:
            self._working[id] = task

    async def _told(self, message: McpMessage) -> None:
        """What is no request."""
        if message.method is UNSET:
            if self._connection is not None:
                await self._legacy.responded(message, self._connection)
        elif message.method == "notifications/cancelled" and message.params is not UNSET:
            await self._cancelled(message)

    async def _cancelled(self, message: McpMessage) -> None:
        id = None if message.params is UNSET else message.params.request_id
        if self._connection is not None:
            await self._legacy.notified(message, self._connection)
        task = self._working.get(id) if isinstance(id, str | int) else None
        if task is not None:
            task.cancel()

    async def _answer(self, message: McpMessage, id: Id, work: Awaitable[bytes]) -> None:
        try:
            await self.send(await work)
        except ProtocolError as wrong:
            await self.send(wire.error(id, wrong))
        except Exception as error:
            log.error("request %s could not be answered", message.method, exc_info=error)
            await self.send(wire.error(id, ProtocolError(INTERNAL, "Internal error")))
        finally:
            self._working.pop(id, None)

    async def _answered(self, message: McpMessage, id: Id) -> bytes:
        if _is_modern(message):
            request = self._modern.request(message, self._principal)
            return await self._rest(request, self._modern.do(request))
        if message.method == "server/discover":
            self._modern.request(message, self._principal)  # says what is missing
        if message.method == "initialize":
            return wire.answer(id, self._greet(message))
        if self._connection is None:
            raise ProtocolError(INVALID_REQUEST, "Begin with initialize, or say protocolVersion in _meta")
        request = self._legacy.request(message, self._connection)
        self._connection.requests[id] = request
        try:
            reply = await self._done(request, self._legacy.do(request))
        finally:
            self._connection.requests.pop(id, None)
        return wire.answer(id, self._legacy.answered(reply))

    async def _done(self, request: McpRequest, work: Awaitable[Any]) -> McpReply:
        request.line = self
        answer = await work
        if isinstance(answer, McpReply):
            return answer
        reply: McpReply = await answer
        return reply

    def _greet(self, message: McpMessage) -> bytes:
        if self._connection is not None:
            raise ProtocolError(INVALID_REQUEST, "The session was begun already")
        self._connection, welcome = self._legacy.greet(message, self._principal)
        self._start(self._listen(self._connection), None)
        return welcome

    async def _listen(self, connection: LegacyConnection) -> None:
        """Tells a client of an older revision what changes."""
        subscriber = Subscriber(await self._server.sessions.of(self._principal), self, self._server.upstreams)
        lists = ("tools", "prompts", "resources") if self._server.has_library else ("tools",)
        subscriber.wants(frozenset(lists))
        subscriber.uris = connection.uris
        connection.subscriber = subscriber
        with self._server.hub.listening(subscriber):
            await subscriber.run()

    async def leave(self, grace_s: float) -> None:
        """Waits a little for what is under way, and stops the rest."""
        working = {task for task in self._working.values() if task is not None}
        if working and grace_s:
            await asyncio.wait(working, timeout=grace_s)
        for task in list(self._left):
            task.cancel()
        if self._left:
            await asyncio.wait(set(self._left))
        self._starter.close()

    def log_out(self) -> None:
        """Ends the session of a client that will not come back."""
        if self._connection is not None:
            self._legacy.leave(self._connection)


def _is_modern(message: McpMessage) -> bool:
    params = message.params
    return params is not UNSET and params.meta is not UNSET and params.meta.version is not UNSET
