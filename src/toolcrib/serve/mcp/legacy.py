"""Revisions before the newest: a greeting, a connection that the server remembers, and questions that it asks itself.

A stream is a reader of the log. Its event ids say which request and which call it is about and how far it got, so that
a lost one is read on from there; nothing is buffered for it. The server's own requests carry the ids of the questions,
so that a response finds its question in the log, whichever stream it was asked on.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from toolcrib.errors import Refused, ToolFailure
from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.mcp.library import LONGEST
from toolcrib.serve.mcp.notifications import LEVELS
from toolcrib.serve.mcp.questions import give, open_questions, refuse
from toolcrib.serve.mcp.request import Later, McpReply, McpRequest
from toolcrib.serve.mcp.server import McpServer
from toolcrib.serve.mcp.subscriptions import MOST_URIS, Subscriber
from toolcrib.serve.mcp.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Id,
    McpMessage,
    Meta,
    Params,
    ProtocolError,
    decode,
    encode,
)
from toolcrib.serve.principal import Principal
from toolcrib.session import Session

RESUMES = "2025-11-25"
"""The first revision whose clients take an empty event, and come back when a stream ends."""

LOGOUT_S = 1.0
MOST_SAID = 64 * 1024
SWEEP_S = 60.0


class LegacyConnection:
    """What the server knows of a client since its greeting."""

    __slots__ = (
        "capabilities",
        "id",
        "level",
        "principal",
        "requests",
        "stream",
        "subscriber",
        "uris",
        "used",
        "version",
        "watches",
    )

    def __init__(self, id: str, principal: Principal, version: str, capabilities: Mapping[str, Any]) -> None:
        self.id = id
        self.principal = principal
        self.version = version
        self.capabilities = capabilities
        self.level: str | None = None
        self.uris: set[str] = set()
        self.requests: dict[Id, McpRequest] = {}
        self.watches: dict[str, asyncio.Task[None]] = {}
        self.subscriber: Subscriber | None = None
        self.stream: asyncio.Task[Any] | None = None
        self.used = time.monotonic()

    def updated(self, uri: str) -> None:
        """Tells the client, if it listens, that a resource changed."""
        if self.subscriber is not None:
            self.subscriber.updated(uri)

    @property
    def idle(self) -> bool:
        """True if nothing is under way."""
        return not self.requests and self.stream is None and not self.watches


class StreamPosition(NamedTuple):
    """How far a stream got: the request, its method and what it named, the call, and the last event of the log."""

    id: Id
    method: str
    uri: str | None
    token: Id | None
    call: str
    seq: int

    def text(self) -> bytes:
        """As an event id."""
        return urlsafe_b64encode(encode(list(self))).rstrip(b"=")

    @classmethod
    def of(cls, text: bytes) -> StreamPosition:
        """From an event id.

        Raises:
            Wrong: it is none of this server's.
        """
        try:
            return _place.decode(urlsafe_b64decode(text + b"=" * (-len(text) % 4)))
        except ValueError:
            raise ProtocolError(INVALID_REQUEST, "Last-Event-ID is none of this server's") from None


_place = msgspec.json.Decoder(StreamPosition)


class LegacyHandler:
    """Reads what clients of older revisions send, and does what it says."""

    def __init__(self, server: McpServer, prefix: str = "mcp-") -> None:
        self.server = server
        self._prefix = prefix
        self.connections: dict[str, LegacyConnection] = {}
        self._of: dict[str, dict[str, LegacyConnection]] = {}
        self._swept = time.monotonic()
        self._methods = {
            **server.methods,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }

    def greet(self, message: McpMessage, principal: Principal) -> tuple[LegacyConnection, bytes]:
        """Begins a connection.

        Raises:
            Wrong: the greeting does not say what it has to.
            ApiError: there are too many connections.
        """
        params = Params() if message.params is UNSET else message.params
        if params.protocol_version is UNSET:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: protocolVersion is missing")
        self._sweep()
        self._make_room(principal.name)
        capabilities = {} if params.capabilities is UNSET else params.capabilities
        if len(encode(capabilities)) > MOST_SAID:  # they are kept for as long as the session
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: capabilities have more than {MOST_SAID} bytes")
        welcome = self.server.welcome(params.protocol_version)
        version = params.protocol_version if params.protocol_version.encode() in welcome else RESUMES
        made = LegacyConnection(f"{self._prefix}{secrets.token_hex(16)}", principal, version, capabilities)
        self.connections[made.id] = self._of.setdefault(principal.name, {})[made.id] = made
        return made, welcome

    def _make_room(self, owner: str) -> None:
        """Lets go of what was silent for longest, so that nobody's sessions keep others out, nor their own."""
        settings, own = self.server.settings, self._of.get(owner, {})
        if len(own) >= settings.sessions_each:
            idle = [one for one in own.values() if one.idle]
            if not idle:
                reason = f"{len(own)} sessions are at work already"
                raise ApiError("too_many", reason, "end one with DELETE", retry_after=5)
            self.leave(min(idle, key=lambda one: one.used))
        if len(self.connections) >= settings.sessions:
            raise ApiError("unavailable", "There are too many sessions", "try again later", retry_after=5)

    def _sweep(self) -> None:
        """Lets go of connections that were silent for long."""
        now = time.monotonic()
        if now - self._swept < SWEEP_S:
            return
        self._swept = now
        for one in list(self.connections.values()):
            if now - one.used > self.server.settings.idle_s and one.idle:
                self.leave(one)

    def leave(self, connection: LegacyConnection) -> None:
        """Ends a connection, and logs its session out."""
        self.connections.pop(connection.id, None)
        own = self._of.get(connection.principal.name, {})
        own.pop(connection.id, None)
        if not own:
            self._of.pop(connection.principal.name, None)
        for task in (connection.stream, *connection.watches.values()):
            if task is not None:
                task.cancel()
        session = self.server.crib._session_table.at_hand(connection.id)
        if session is not None:
            self.server.crib.pipeline.aside(_log_out(session))

    def find(self, id: str, principal: Principal) -> LegacyConnection | None:
        """The connection of that id, if it is this principal's; another key of theirs may open less."""
        connection = self.connections.get(id)
        if connection is None or connection.principal != principal:
            return None
        connection.used = time.monotonic()
        return connection

    def request(self, message: McpMessage, connection: LegacyConnection) -> McpRequest:
        """A message as a request.

        Raises:
            Wrong: nobody knows its method.
        """
        if message.method not in self._methods:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {message.method}")
        assert isinstance(message.method, str)
        assert isinstance(message.id, str | int)
        params = Params() if message.params is UNSET else message.params
        return self._request(connection, message.id, message.method, params)

    def _request(self, connection: LegacyConnection, id: Id, method: str, params: Params) -> McpRequest:
        request = McpRequest(id, method, params, connection.principal)
        request.modern = False
        request.capabilities = connection.capabilities
        request.level = connection.level
        request.connection = connection.id
        return request

    async def do(self, request: McpRequest) -> McpReply | Later:
        """Does what a request asks for."""
        return await self._methods[request.method](request)

    def answered(self, reply: McpReply) -> bytes:
        """The result of a request."""
        return reply.body

    async def resume(self, connection: LegacyConnection, last: bytes) -> tuple[McpRequest, Later]:
        """The rest of a stream that was lost.

        Raises:
            Wrong: there is no such stream of this connection.
        """
        place = StreamPosition.of(last)
        row = await self.server.crib.store.call(place.call)
        session = self.server.crib._session_table.at_hand(connection.id)
        if row is None or session is None or row.session != connection.id:
            raise ProtocolError(INVALID_REQUEST, "Last-Event-ID is of no stream of this session")
        params = Params(meta=Meta(token=UNSET if place.token is None else place.token))
        params.uri = UNSET if place.uri is None else place.uri
        request = self._request(connection, place.id, place.method, params)
        request.call = place.call
        tool = session._view.names.get(row.tool)
        return request, self.server.running.follow(request, session, tool, self.server.shape(request), place.seq)

    # What comes without being a request

    async def notified(self, message: McpMessage, connection: LegacyConnection) -> None:
        """Takes a notification; those that mean nothing here are ignored."""
        if message.method != "notifications/cancelled" or message.params is UNSET:
            return
        id = message.params.request_id
        request = None if id is UNSET else connection.requests.get(id)
        session = self.server.crib._session_table.at_hand(connection.id)
        if request is not None and request.call and session is not None:
            await _cancel(session, request.call)

    async def responded(self, message: McpMessage, connection: LegacyConnection) -> None:
        """Takes what a client says to a question; whatever does not fit the question is a no."""
        question, _, name = str(message.id).partition("|")
        session = self.server.crib._session_table.at_hand(connection.id)
        if session is None:
            return
        call = question.rpartition("-")[0]
        opened = await open_questions(session, call, connection.capabilities, connection.principal)
        opened = [one for one in opened if one.question.id == question and one.wanted]
        if not opened:  # nobody asked, or nobody asked this client
            return
        response = _read(message.result) if isinstance(message.result, Raw) else None
        answers = {name or next(iter(opened[0].wanted)): response}
        if response is None or not await give(session, opened, answers, connection.principal.name):
            reason = message.error.get("message") if isinstance(message.error, dict) else None
            await refuse(
                session, opened, connection.principal.name, f"The client did not answer: {reason or 'no reason'}"
            )

    # Methods of their own

    async def _ping(self, request: McpRequest) -> McpReply:
        return McpReply(b"{}")

    async def _set_level(self, request: McpRequest) -> McpReply:
        level = request.needs("level")
        if level not in LEVELS:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: level must be one of {', '.join(LEVELS)}")
        self.connections[request.connection].level = level
        return McpReply(b"{}")

    async def _subscribe(self, request: McpRequest) -> McpReply:
        uri, uris = request.needs("uri"), self.connections[request.connection].uris
        if len(uri) > LONGEST or (len(uris) >= MOST_URIS and uri not in uris):
            reason = f"Invalid params: {MOST_URIS} addresses of {LONGEST} characters can be subscribed to"
            raise ProtocolError(INVALID_PARAMS, reason)
        if uri not in uris and self.server.upstreams:
            await self._watch(request, self.connections[request.connection], uri)
        uris.add(uri)
        return McpReply(b"{}")

    async def _watch(self, request: McpRequest, connection: LegacyConnection, uri: str) -> None:
        """Has a server tell of a resource until the client is gone, or wants to hear no more of it.

        Raises:
            ProtocolError: it may not be read here, or the server refuses.
        """
        mcp_session = await self.server.sessions.of(request.principal)
        session = await self.server.sessions.session(request.principal, connection.id)
        await self.server.upstreams.refresh(mcp_session)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def watch() -> None:
            try:
                async with self.server.upstreams.watching(mcp_session, session, uri, lambda: connection.updated(uri)):
                    begun.set_result(None)
                    await asyncio.Event().wait()
            except (ProtocolError, ToolFailure) as error:
                if not begun.done():
                    wrong = ProtocolError(INVALID_PARAMS, error.message, {"uri": uri})
                    begun.set_exception(error if isinstance(error, ProtocolError) else wrong)

        task = connection.watches[uri] = asyncio.create_task(watch())
        task.add_done_callback(lambda _: connection.watches.pop(uri, None))
        await begun

    async def _unsubscribe(self, request: McpRequest) -> McpReply:
        connection, uri = self.connections[request.connection], request.needs("uri")
        connection.uris.discard(uri)
        if uri in connection.watches:
            connection.watches[uri].cancel()
        return McpReply(b"{}")


def _read(result: Raw) -> Any:
    """What a client says; None where that cannot be read."""
    try:
        return decode(result)
    except (ValueError, RecursionError):
        return None


async def _cancel(session: Session, call: str) -> None:
    try:
        await session.cancel(call)
    except Refused:
        return  # it has ended already


async def _log_out(session: Session) -> None:
    await session.close(LOGOUT_S)
