"""The transport of the oldest revision: a stream from the server, and an address to which the client posts.

The stream begins with that address. What is posted there is taken, and answered on the stream.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.asgi import Receive, Scope, Send, reply
from toolcrib.serve.mcp import wire
from toolcrib.serve.mcp.duplex import Duplex
from toolcrib.serve.mcp.http import HttpExchange, IncomingRequest, refuse
from toolcrib.serve.mcp.request import McpReply
from toolcrib.serve.mcp.server import McpServer
from toolcrib.serve.principal import Principal

if TYPE_CHECKING:
    from toolcrib.serve.api import Api

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
        """True if the client should read first."""
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

    async def pump(self, exchange: HttpExchange) -> McpReply:
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

    def __init__(self, server: McpServer, api: Api) -> None:
        self._server = server
        self._api = api
        self._clients: dict[Principal, dict[str, tuple[Duplex, _Outbox]]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        await IncomingRequest(self._api, scope, receive, send).answer(self._answer)

    async def _answer(self, visit: IncomingRequest) -> None:
        path, method = visit.scope["path"], visit.scope["method"]
        if path == LISTEN and method == "GET":
            with visit.stream():
                await self._listen(visit.principal, HttpExchange(visit))
        elif path == POST and method == "POST":
            await self._take(visit)
        else:
            await reply(visit.send, 405)

    async def _listen(self, principal: Principal, exchange: HttpExchange) -> None:
        id, outbox = secrets.token_hex(16), _Outbox()
        client = Duplex(self._server, principal, outbox.put, outbox.drained)
        own = self._clients.setdefault(principal, {})
        own[id] = client, outbox
        try:
            await exchange.event(b"event: endpoint\ndata: %b?session=%b\n\n" % (POST.encode(), id.encode()))
            await exchange.attend(outbox.pump(exchange))
        finally:
            client.refused = exchange.refused
            del own[id]
            if not own:
                del self._clients[principal]
            client.log_out()
            await client.leave(0)

    async def _take(self, visit: IncomingRequest) -> None:
        (id,) = parse_qs(visit.scope["query_string"].decode("latin-1")).get("session", [""])[:1]
        own = self._clients.get(visit.principal, {})
        if id not in own:
            await refuse(visit.send, 404, "There is no such session")
            return
        client, outbox = own[id]
        body = await visit.body()
        if outbox.full:
            raise ApiError("too_many", "Answers wait that nobody reads", "read what was answered first", retry_after=1)
        many = sum(one.under_way for one, _ in own.values())
        if many >= self._api.limits.requests_each:
            reason = f"{many} requests are under way already"
            raise ApiError("too_many", reason, "wait for some of them to end", retry_after=1)
        client.take(body)
        await reply(visit.send, 202, b"Accepted", ((b"content-type", b"text/plain"),))
