"""The server of a crib over HTTP: one ASGI application with all its doors, and how it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.crib import Crib
from toolcrib.serve.asgi import App, Message, Receive, Scope, Send, reply
from toolcrib.serve.origins import LOCAL, Origins
from toolcrib.serve.principal import Guard

if TYPE_CHECKING:
    import uvicorn

    from toolcrib.serve.mcp import Settings, Shelf

MCP = "/mcp"
GRACE_S = 5
EXPOSED = ((b"access-control-expose-headers", b"mcp-session-id, www-authenticate"), (b"vary", b"origin"))
PREFLIGHT = (
    (b"access-control-allow-methods", b"POST, GET, DELETE"),
    (b"access-control-max-age", b"600"),
    (b"vary", b"origin, access-control-request-headers"),
)


class Site:
    """All doors of a crib. It starts and stops the crib with the server, unless the crib runs already."""

    def __init__(
        self,
        crib: Crib,
        *,
        shelf: Shelf | None = None,
        mcp: Settings | None = None,
        guard: Guard | None = None,
        hosts: Sequence[str] = LOCAL,
        origins: Sequence[str] = (),
    ) -> None:
        self._crib = crib
        self._shelf = shelf
        self._mcp = mcp
        self._guard = guard
        self._origins = Origins(hosts, origins)
        self._doors: dict[str, App] = {}
        self._signs: dict[str, App] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Finds the door of a request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        door = self.door(scope["path"])
        if door is None:
            await self._signs.get(scope["path"], _nothing)(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not self._origins.admits(headers):
            await reply(send, 403, b'{"error":"This origin or host is not let in"}')
        elif b"origin" not in headers:
            await door(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            wanted = (b"access-control-allow-headers", headers.get(b"access-control-request-headers", b"content-type"))
            await reply(send, 204, b"", [*PREFLIGHT, wanted, (b"access-control-allow-origin", headers[b"origin"])])
        else:
            await door(scope, receive, _for_page(send, headers[b"origin"]))

    def door(self, path: str) -> App | None:
        """What answers at a path."""
        return self._doors.get(path)

    async def open(self) -> None:
        """Opens the doors of a crib that was started."""
        from toolcrib.serve.mcp.http import McpHttp
        from toolcrib.serve.mcp.server import Server
        from toolcrib.serve.mcp.sse import LISTEN, POST, McpSse

        server = await Server.over(self._crib, self._shelf, self._mcp)
        self._doors[MCP] = McpHttp(server, self._guard)
        self._doors[LISTEN] = self._doors[POST] = McpSse(server, self._guard)
        documents = {} if self._guard is None else self._guard.documents
        self._signs = {path: _document(said) for path, said in {"/healthz": {"ok": True}, **documents}.items()}

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._crib.start()
            await self.open()
        except Exception as error:  # noqa: BLE001 - the server tells whoever started it
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._crib.stop()
        await send({"type": "lifespan.shutdown.complete"})


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await reply(send, 404)


def _for_page(send: Send, origin: bytes) -> Send:
    """Tells a browser that the page of an origin that was let in may read the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"access-control-allow-origin", origin), *EXPOSED]}
        await send(message)

    return sending


def _document(said: Any) -> App:
    body = msgspec.json.encode(said)

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, 200, body) if scope["method"] in ("GET", "HEAD") else await reply(send, 405)

    return door


def config(site: App, **more: Any) -> uvicorn.Config:
    """How a site is served by uvicorn: one loop, no logs of its own, and no patience with senders of slow headers."""
    import uvicorn

    from toolcrib.serve.patience import PatientProtocol

    options: dict[str, Any] = {
        "http": PatientProtocol,
        "ws": "none",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": GRACE_S,
    }
    return uvicorn.Config(site, **(options | more))


def run(site: Site, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serves until it is told to stop."""
    import uvicorn

    uvicorn.Server(config(site, host=host, port=port, loop="uvloop")).run()
