"""The server over streamable HTTP: one address, one message a request, a reply as JSON or as a stream of events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolcrib.errors import StoreError
from toolcrib.serve.api.errors import ApiError, problem_of
from toolcrib.serve.asgi import JSON, STREAM, ClientDisconnected, Header, Receive, Scope, Send, gone, read, reply
from toolcrib.serve.mcp import wire
from toolcrib.serve.mcp.batches import BatchAnswer
from toolcrib.serve.mcp.headers import VERSION, check_arguments, check_once, check_routing
from toolcrib.serve.mcp.legacy import RESUMES, LegacyConnection, LegacyHandler, StreamPosition
from toolcrib.serve.mcp.modern import LISTEN, ModernHandler
from toolcrib.serve.mcp.request import Later, McpReply, McpRequest
from toolcrib.serve.mcp.server import McpServer
from toolcrib.serve.mcp.subscriptions import Subscriber
from toolcrib.serve.mcp.wire import (
    BATCHES,
    INTERNAL,
    INVALID_REQUEST,
    LEGACY,
    LIMITED,
    SESSION_GONE,
    McpMessage,
    ProtocolError,
)
from toolcrib.serve.principal import Headers, NotAdmitted, Principal, caller, refused

if TYPE_CHECKING:
    from toolcrib.serve.api import Api
    from toolcrib.serve.mcp.peers import McpPeers

log = logging.getLogger("toolcrib.serve")
SESSION = b"mcp-session-id"
LAST = b"last-event-id"
RETRY_MS = 500
NOBODY = Principal("")
"""Who sent a request of which nobody has asked yet."""
_LEGACY = {version.encode() for version in LEGACY}
BEGINS_S = 1.0
"""An answer of an older revision that comes within this time is no stream: some clients take only small events."""


class IncomingRequest:
    """One request at the door: who sent it, with which headers, and where its answer goes."""

    __slots__ = ("api", "header_list", "headers", "principal", "receive", "scope", "send")

    def __init__(self, api: Api, scope: Scope, receive: Receive, send: Send) -> None:
        self.api = api
        self.scope = scope
        self.header_list: list[Header] = scope["headers"]
        self.headers: Headers = dict(self.header_list)
        self.principal = NOBODY
        self.receive = receive
        self.send = send

    async def answer(self, take: Callable[[IncomingRequest], Awaitable[None]]) -> None:
        """Has it taken, if its sender may come in and not too often; says why where it is not."""
        try:
            self.principal = await caller(self.api.guard, self.headers)
            self.api.gate.enter(self.principal)
            try:
                await self.api.turn(self.principal)
                await take(self)
            finally:
                self.api.gate.leave(self.principal)
        except (ClientDisconnected, OSError):
            return
        except Exception as error:  # noqa: BLE001 - what went wrong here is not the client's to know
            await turn_away(self.send, error)

    def stream(self) -> AbstractContextManager[None]:
        """Counts as a stream for a while, and as a request no more.

        Raises:
            ApiError: too many are open.
        """
        return self.api.gate.stream(self.principal)

    async def body(self) -> bytes:
        """What was sent.

        Raises:
            Unreadable, Gone: it did not arrive.
        """
        return await read(self.receive, self.api.limits.body_bytes, self.api.limits.body_s)


class HttpExchange:
    """One request and its answer. It is a stream from the first message on that comes before the answer."""

    def __init__(self, visit: IncomingRequest) -> None:
        self._visit = visit
        self._receive = visit.receive
        self._send = visit.send
        self.streams = False
        self.refused = False
        self.begins_s: float | None = None
        """After how long it becomes a stream, where nothing was sent before; unless said, that of a ping."""

    async def send(self, message: bytes, seq: int = 0) -> None:
        """Sends a message before the answer."""
        await self.event(wire.event(message))

    async def event(self, text: bytes, *, more: bool = True) -> None:
        """Sends a piece of the stream."""
        if not self.streams:
            self.streams = True
            await self._send({"type": "http.response.start", "status": 200, "headers": list(STREAM)})
        await self._send({"type": "http.response.body", "body": text, "more_body": more})

    async def finish(self, status: int, message: bytes) -> None:
        """Sends the answer."""
        if self.streams:
            await self.event(wire.event(message), more=False)
        else:
            await reply(self._send, status, message)

    async def attend(self, later: Later, most_s: float | None = None) -> McpReply | None:
        """Waits for an answer as long as somebody wants it and may have it; None where it takes longer than that.

        Raises:
            Gone: the other side hung up, or may not hear more.
            NotAdmitted: it may not any more, and has not heard anything yet.
        """
        work, left = asyncio.ensure_future(later), asyncio.ensure_future(gone(self._receive))
        until = None if most_s is None else asyncio.get_running_loop().time() + most_s
        try:
            while not work.done():
                wait = self._pause()
                wait = wait if until is None else min(wait, max(0.0, until - asyncio.get_running_loop().time()))
                done, _ = await asyncio.wait({work, left}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                if left in done and not work.done():
                    raise ClientDisconnected
                if not done and until is not None and asyncio.get_running_loop().time() >= until:
                    return None
                if not done:
                    await self._ask_again()
                    await self.event(b": still here\n\n")
            return work.result()
        finally:
            for task in (work, left):
                if not task.done():
                    task.cancel()
            await asyncio.wait({work, left})

    def _pause(self) -> float:
        """How long nothing may be sent."""
        ping_s = self._visit.api.limits.ping_s
        return ping_s if self.streams or self.begins_s is None else min(ping_s, self.begins_s)

    async def _ask_again(self) -> None:
        """Looks whether whoever listens would still be let in: keys are revoked and tokens expire meanwhile."""
        error = await refused(self._visit.api.guard, self._visit.headers)
        if error is None:
            return
        self.refused = True
        if not self.streams:
            raise error
        await self.event(b"", more=False)
        raise ClientDisconnected


class StreamExchange(HttpExchange):
    """An answer to a client of an older revision, whose events say how far it got."""

    request: McpRequest

    async def send(self, message: bytes, seq: int = 0) -> None:
        """Sends a message before the answer."""
        await self.event(wire.event(message, self._place(seq) if seq else b""))

    async def event(self, text: bytes, *, more: bool = True) -> None:
        """Sends a piece of the stream; a client that can come back is told first where to."""
        if self.begins_s is not None and not self.streams:
            text = b"id: %b\nretry: %d\ndata: \n\n" % (self._place(0), RETRY_MS) + text
        await super().event(text, more=more)

    def _place(self, seq: int) -> bytes:
        request = self.request
        uri = None if request.params.uri is UNSET else request.params.uri
        return StreamPosition(request.id, request.method, uri, request.token, request.call, seq).text()


class McpHttp:
    """The MCP endpoint, as an ASGI application."""

    def __init__(self, server: McpServer, api: Api, peers: McpPeers | None = None) -> None:
        self.server = server
        self.modern = ModernHandler(server)
        self.legacy = LegacyHandler(server, "mcp-" if peers is None else peers.prefix)
        self._api = api
        self._peers = peers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        await IncomingRequest(self._api, scope, receive, send).answer(self._take)

    async def _take(self, visit: IncomingRequest) -> None:
        method = visit.scope["method"]
        if method == "POST":
            await self._post(visit)
        elif SESSION in visit.headers and method in ("GET", "DELETE"):
            await self._session(method, visit)
        else:
            await reply(visit.send, 405, b"", [(b"allow", b"POST")])

    async def _post(self, visit: IncomingRequest) -> None:
        headers, send = visit.headers, visit.send
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            await refuse(send, 415, "Send application/json")
            return
        accept = headers.get(b"accept", b"*/*")
        if b"*/*" not in accept and b"application/json" not in accept and b"text/event-stream" not in accept:
            await refuse(send, 406, "Accept application/json and text/event-stream")
            return
        body = await visit.body()
        if self._peers is not None and SESSION in headers and await self._answered_elsewhere(self._peers, visit, body):
            return
        try:
            if await self._batch(visit, body):
                return
            message = wire.read(body)
        except ProtocolError as wrong:
            await reply(send, wrong.status, wire.error(wire.id_of(body), wrong))
            return
        if _is_modern(headers, message):
            await self._modern(visit, message)
        else:
            await self._legacy(visit, message)

    async def _batch(self, visit: IncomingRequest, body: bytes) -> bool:
        """Answers several messages at once, for a client of the one revision that has that; False for one message."""
        connection = self._connection(visit) if SESSION in visit.headers else None
        if connection is None or connection.version != BATCHES:
            return False
        parts = wire.batch(body)
        if parts is None:
            return False
        await BatchAnswer(self.legacy, connection, HttpExchange(visit)).send(parts)
        return True

    # The newest revision

    async def _modern(self, visit: IncomingRequest, message: McpMessage) -> None:
        headers, exchange = visit.headers, HttpExchange(visit)
        if message.id is UNSET or message.method is UNSET:
            await exchange.finish(202, b"")
            return
        try:
            check_once(headers, visit.header_list)
            request = self.modern.request(message, visit.principal, headers.get(VERSION, b"").strip().decode("latin-1"))
            check_routing(headers, message)
            request.line = exchange
            request.tool = lambda tool, arguments: check_arguments(headers, tool, arguments)
            with visit.stream() if request.method == LISTEN else nullcontext():
                answer = await self.modern.do(request)
                if not isinstance(answer, McpReply):
                    answer = await exchange.attend(answer) or McpReply(b"{}")
            await exchange.finish(200, wire.answer(request.id, self.modern.answered(answer)))
        except ProtocolError as wrong:
            await exchange.finish(wrong.status, wire.error(_id(message), wrong))
        except ApiError as problem:
            await turn_away(visit.send, problem, _id(message))
        except Exception as error:  # noqa: BLE001 - what went wrong here is not the client's to know
            await _fail(exchange, message, error)

    # Older revisions

    async def _legacy(self, visit: IncomingRequest, message: McpMessage) -> None:
        send = visit.send
        if message.method == "initialize" and message.id is not UNSET:
            await self._greet(visit, message)
            return
        connection = self._connection(visit)
        if connection is None:
            missing = SESSION not in visit.headers
            reason = "Mcp-Session-Id is missing: begin with initialize" if missing else "There is no such session"
            await refuse(send, 400 if missing else 404, reason, id=_id(message), code=SESSION_GONE)
        elif message.method is UNSET:
            await self.legacy.responded(message, connection)
            await reply(send, 202, b"", ())
        elif message.id is UNSET:
            await self.legacy.notified(message, connection)
            await reply(send, 202, b"", ())
        else:
            await self._request(message, connection, StreamExchange(visit))

    async def _greet(self, visit: IncomingRequest, message: McpMessage) -> None:
        try:
            connection, welcome = self.legacy.greet(message, visit.principal)
        except ProtocolError as wrong:
            await reply(visit.send, wrong.status, wire.error(_id(message), wrong))
            return
        except ApiError as problem:
            await turn_away(visit.send, problem, _id(message))
            return
        answer = wire.answer(_id(message), welcome)
        await reply(visit.send, 200, answer, (JSON, (SESSION, connection.id.encode())))

    def _connection(self, visit: IncomingRequest) -> LegacyConnection | None:
        return self.legacy.find(visit.headers.get(SESSION, b"").decode("latin-1"), visit.principal)

    async def _request(self, message: McpMessage, connection: LegacyConnection, stream: StreamExchange) -> None:
        try:
            request = stream.request = self.legacy.request(message, connection)
            request.line = stream
            connection.requests[request.id] = request
            try:
                answer = await self.legacy.do(request)
                await self._deliver(connection, stream, answer)
            finally:
                if connection.requests.get(request.id) is request:
                    del connection.requests[request.id]
        except ProtocolError as wrong:
            await stream.finish(200, wire.error(_id(message), wrong))
        except Exception as error:  # noqa: BLE001 - what went wrong here is not the client's to know
            await _fail(stream, message, error)

    async def _deliver(self, connection: LegacyConnection, stream: StreamExchange, answer: McpReply | Later) -> None:
        """Sends the answer or, where that takes long, ends the stream, for the client to come back to."""
        request = stream.request
        if not isinstance(answer, McpReply):
            resumes = connection.version >= RESUMES
            stream.begins_s = BEGINS_S if resumes else None
            reply = await stream.attend(answer, self.server.settings.stream_s if resumes else None)
            if reply is None:
                await stream.event(b"", more=False)
                return
            answer = reply
        await stream.finish(200, wire.answer(request.id, self.legacy.answered(answer)))

    async def _answered_elsewhere(self, peers: McpPeers, visit: IncomingRequest, body: bytes = b"") -> bool:
        """True if another process at this port keeps the connection, and has answered."""
        port = peers.port_of(visit.headers[SESSION].decode("latin-1"))
        return port is not None and await peers.pass_on(port, visit.scope, body, visit.receive, visit.send)

    async def _session(self, method: str, visit: IncomingRequest) -> None:
        if self._peers is not None and await self._answered_elsewhere(self._peers, visit):
            return
        connection = self._connection(visit)
        if connection is None:
            await refuse(visit.send, 404, "There is no such session", code=SESSION_GONE)
        elif method == "DELETE":
            self.legacy.leave(connection)
            await reply(visit.send, 204, b"", ())
        else:
            with visit.stream():
                if LAST in visit.headers:
                    await self._resume(connection, visit.headers[LAST], StreamExchange(visit))
                else:
                    await self._listen(connection, HttpExchange(visit))

    async def _resume(self, connection: LegacyConnection, last: bytes, stream: StreamExchange) -> None:
        try:
            request, rest = await self.legacy.resume(connection, last)
        except ProtocolError as wrong:
            await stream.finish(wrong.status, wire.error(None, wrong))
            return
        stream.request = request
        request.line = stream
        stream.begins_s = BEGINS_S
        try:
            await stream.event(b"")  # a client that came back reads a stream
            await self._deliver(connection, stream, rest)
        except ProtocolError as wrong:
            await stream.finish(200, wire.error(request.id, wrong))
        except StoreError as error:
            await stream.finish(503, wire.error(request.id, ProtocolError(INTERNAL, str(error))))

    async def _listen(self, connection: LegacyConnection, exchange: HttpExchange) -> None:
        """A stream of what changes; a new one takes the place of the one before."""
        if connection.stream is not None:
            connection.stream.cancel()
        mcp_session = await self.server.sessions.of(connection.principal)
        subscriber = Subscriber(mcp_session, exchange, self.server.upstreams)
        shelved = self.server.has_library
        subscriber.wants(frozenset(("tools", "prompts", "resources") if shelved else ("tools",)))
        subscriber.uris = connection.uris
        connection.subscriber = subscriber
        connection.stream = task = asyncio.ensure_future(subscriber.run())
        try:
            with self.server.hub.listening(subscriber):
                await exchange.event(b": listening\n\n")
                await exchange.attend(_ended(task))
            await exchange.event(b"", more=False)
        finally:
            task.cancel()
            if connection.stream is task:
                connection.stream = None


async def _ended(task: asyncio.Task[None]) -> McpReply:
    await asyncio.wait({task})
    return McpReply(b"{}")


def _is_modern(headers: Headers, message: McpMessage) -> bool:
    """A request of the newest revision says so in its header or in its body; nobody else does."""
    version = headers.get(VERSION)
    if version is not None and version.strip() not in _LEGACY:
        return True
    params = message.params
    return params is not UNSET and params.meta is not UNSET and params.meta.version is not UNSET


def _id(message: McpMessage) -> Any:
    return None if message.id is UNSET else message.id


async def _fail(exchange: HttpExchange, message: McpMessage, error: Exception) -> None:
    if isinstance(error, ClientDisconnected | OSError | NotAdmitted):
        raise error
    if isinstance(error, StoreError):
        await exchange.finish(503, wire.error(_id(message), ProtocolError(INTERNAL, str(error))))
        return
    log.error("request %s could not be answered", message.method, exc_info=error)
    await exchange.finish(500, wire.error(_id(message), ProtocolError(INTERNAL, "Internal error")))


async def refuse(
    send: Send, status: int, text: str, headers: Iterable[Header] = (), *, id: Any = None, code: int = INVALID_REQUEST
) -> None:
    """Turns a request away before it is one."""
    await reply(send, status, wire.error(id, ProtocolError(code, text)), (JSON, *headers))


async def turn_away(send: Send, error: Exception, id: Any = None) -> None:
    """Says why a request was not taken, as every door does, and in the form of the protocol."""
    problem = problem_of(error)
    status, _, headers = problem.reply()
    code = INTERNAL if status >= 500 else LIMITED if status == 429 else INVALID_REQUEST
    fields = {name: getattr(problem.detail, name) for name in ("code", "hint", "retry_after", "trace")}
    data = {name: value for name, value in fields.items() if value is not None}
    await reply(send, status, wire.error(id, ProtocolError(code, problem.detail.message, data)), headers)
