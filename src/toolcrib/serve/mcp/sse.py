"""The transport of the oldest revision: a stream from the server, and an address to which the client posts.

The stream begins with that address. What is posted there is taken, and answered on the stream.
"""

from __future__ import annotations

import asyncio
import secrets
from urllib.parse import parse_qs

from toolcrib.serve.asgi import Gone, Receive, Scope, Send, Unreadable, read, reply
from toolcrib.serve.mcp import wire
from toolcrib.serve.mcp.duplex import Duplex
from toolcrib.serve.mcp.http import Exchange, refuse
from toolcrib.serve.mcp.request import Reply
from toolcrib.serve.mcp.server import Server
from toolcrib.serve.principal import Guard, NotAdmitted, Principal, caller

LISTEN = "/sse"
POST = "/messages"
MOST_WAITING = 1000
"""Messages that a client has not read yet; nothing more is taken from it until it does."""


class _Outbox:
    """What is to be sent on a stream."""

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether the client should read first."""
        return len(self._messages) >= MOST_WAITING

    def put(self, message: bytes) -> None:
        """Sends a message soon."""
        self._messages.append(message)
        self._news.set()

    async def drained(self) -> None:
        """Returns when there is room."""
        while self.full:
            self._room.clear()
            await self._room.wait()

    async def pump(self, exchange: Exchange) -> Reply:
        """Sends what there is, until it is cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            messages, self._messages = self._messages, []
            for message in messages:
                await exchange.event(wire.event(message))
            self._room.set()


class McpSse:
    """Both addresses of the transport, as an ASGI application."""

    def __init__(self, server: Server, guard: Guard | None = None) -> None:
        self._server = server
        self._guard = guard
        self._clients: dict[str, tuple[Principal, Duplex, _Outbox]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        try:
            headers = dict(scope["headers"])
            principal = await caller(self._guard, headers)
            if scope["path"] == LISTEN and scope["method"] == "GET":
                await self._listen(principal, Exchange(receive, send))
            elif scope["path"] == POST and scope["method"] == "POST":
                await self._take(scope, principal, receive, send)
            else:
                await reply(send, 405)
        except NotAdmitted as error:
            challenge = [] if error.challenge is None else [(b"www-authenticate", error.challenge.encode())]
            await refuse(send, error.status, error.message, challenge)
        except Unreadable as error:
            await refuse(send, error.status, error.message, [(b"connection", b"close")])
        except (Gone, OSError):
            return

    async def _listen(self, principal: Principal, exchange: Exchange) -> None:
        if len(self._clients) >= self._server.settings.sessions:
            await exchange.finish(503, b"")
            return
        id, outbox = secrets.token_hex(16), _Outbox()
        client = Duplex(self._server, principal, outbox.put, outbox.drained)
        self._clients[id] = principal, client, outbox
        try:
            await exchange.event(b"event: endpoint\ndata: %b?session=%b\n\n" % (POST.encode(), id.encode()))
            await exchange.attend(outbox.pump(exchange), self._server.settings.ping_s)
        finally:
            del self._clients[id]
            client.log_out()
            await client.leave(0)

    async def _take(self, scope: Scope, principal: Principal, receive: Receive, send: Send) -> None:
        (id,) = parse_qs(scope["query_string"].decode("latin-1")).get("session", [""])[:1]
        owner, client, outbox = self._clients.get(id, (None, None, None))
        if client is None or outbox is None or owner is None or owner.name != principal.name:
            await refuse(send, 404, "There is no such session")
            return
        body = await read(receive, self._server.settings.largest, self._server.settings.body_s)
        if outbox.full:
            await refuse(send, 429, "Read what was answered first")
            return
        client.take(body)
        await reply(send, 202, b"Accepted", ((b"content-type", b"text/plain"),))
