"""The server of a crib over HTTP: one ASGI application with all its endpoints, and how it is run."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import msgspec

from toolcrib.crib import Crib
from toolcrib.errors import StoreError
from toolcrib.serve.api.errors import nowhere, problem_of
from toolcrib.serve.asgi import App, Message, Receive, Scope, Send, reply
from toolcrib.serve.cookies import Cookies, guarded
from toolcrib.serve.metrics import KIND
from toolcrib.serve.origins import LOCAL, Origins
from toolcrib.serve.principal import Guard, NotAdmitted
from toolcrib.serve.start_token import StartToken
from toolcrib.telemetry import joined

if TYPE_CHECKING:
    import uvicorn

    from toolcrib.serve.api import Api, ServeLimits
    from toolcrib.serve.managed_sources import ManagedSources
    from toolcrib.serve.mcp import McpLibrary, McpServerSettings
    from toolcrib.serve.mcp.peers import McpPeers

log = logging.getLogger("toolcrib.serve")

MCP = "/mcp"
API = "/v1"
_STRANGE = (
    b'{"error":{"code":"denied","message":"This origin or host is not let in",'
    b'"hint":"name it with --allow-origin or --allow-host, or in crib.yaml under serve"}}'
)
_SIGNED = b'{"error":{"code":"denied","message":"Whoever is signed in has to send the header X-Toolcrib: 1"}}'
_TWICE = b'{"error":{"code":"invalid_arguments","message":"The header %b came twice"}}'
_ONCE = frozenset({b"host", b"origin", b"authorization", b"idempotency-key", b"last-event-id", b"mcp-session-id"})
FEATURES = ("ag_ui", "ai_sdk", "a2a")
FRONTS = ("/a2a", "/ag-ui", "/ai-sdk")
GRACE_S = 5
COUNT_S = 10.0
"""How often what was written is rolled up."""

READY_S = 3.0
LOOK_S = 0.02
COLLECT_AT = 10_000
"""How many objects more than at its last look have the garbage collector look at the young ones."""

EXPOSED = ((b"access-control-expose-headers", b"mcp-session-id, www-authenticate, retry-after"), (b"vary", b"origin"))
PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, PUT, DELETE"),
    (b"access-control-max-age", b"600"),
    (b"vary", b"origin, access-control-request-headers"),
)


def _below_root(scope: Scope) -> Scope:
    """The request as it is below the prefix at which another application has mounted this one."""
    root, path = scope["root_path"].rstrip("/"), scope["path"]
    if path != root and not path.startswith(f"{root}/"):
        return scope  # whoever mounted it has taken the prefix off already
    raw = scope.get("raw_path") or path.encode()
    own = raw.removeprefix(quote(root).encode()) or b"/"
    return {**scope, "path": path.removeprefix(root) or "/", "raw_path": own}


class Site:
    """All endpoints of a crib. It starts and stops the crib with the server, unless the crib runs already.

    `/v1` and `/mcp` are always there; `mount` adds more. `namespaces` are open to who has none of their own. `sources`
    are what administrators add while it runs; without them, sources at addresses that need no secrets. `peers` are
    other processes at the same port. `trace_url` is where the trace of a call is looked at, with `{trace}` for its id.
    """

    def __init__(  # noqa: PLR0913 - the one place where a server is put together, all by name
        self,
        crib: Crib,
        *,
        library: McpLibrary | None = None,
        mcp: McpServerSettings | None = None,
        guard: Guard | None = None,
        hosts: Sequence[str] = LOCAL,
        origins: Sequence[str] = (),
        namespaces: Sequence[str] | None = None,
        limits: ServeLimits | None = None,
        protections: Mapping[str, bool] | None = None,
        sources: ManagedSources | None = None,
        trace_url: str | None = None,
        peers: McpPeers | None = None,
    ) -> None:
        from toolcrib.serve.api import Api
        from toolcrib.serve.managed_sources import ManagedSources

        self._crib = crib
        self._library = library
        self._mcp = mcp
        self._peers = peers
        self._guard = guard
        nameless = guard is None or isinstance(guard, StartToken)
        self._origins = Origins(hosts, origins, own_port=nameless)
        chosen = namespaces or (None if mcp is None else mcp.namespaces)
        opened = None if chosen is None else tuple(chosen)
        self.api: Api = Api(crib, guard, limits=limits, namespaces=opened, protections=protections)
        self.api.sources = sources or ManagedSources(crib)
        self.api.trace_url = trace_url
        if not nameless:
            self._share()
        self._endpoints: dict[str, App] = {}
        self._mounts: dict[str, App] = {API: self.api}
        self._documents: dict[str, App] = {}
        self._sweeping: asyncio.Task[None] | None = None
        self._reviewing: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None
        self._traces = False

    def _share(self) -> None:
        """Has owners share the crib and the loop, unless its limits say otherwise."""
        self._crib.share()
        if self._crib.pipeline.scheduler.shared:
            self.api.gate.shared = True
            self.api.turns = self._crib.pipeline.rounds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to its endpoint."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        if scope.get("root_path"):
            scope = _below_root(scope)
        app = self.endpoint(scope["path"])
        if app is None:
            await self._documents.get(scope["path"], self._nothing)(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self._traces and b"traceparent" in headers:
            with joined({name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}):
                await self._let_in(app, headers, scope, receive, send)
        else:
            await self._let_in(app, headers, scope, receive, send)

    async def _let_in(self, app: App, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send) -> None:
        """Looks at where a request comes from, and lets it in."""
        if len(headers) < len(scope["headers"]) and (twice := _twice(scope["headers"])):
            await reply(send, 400, _TWICE % twice)
            return
        if b"cookie" in headers and self.api.cookies is not None:
            key = self.api.cookies.key(headers)
            if key is not None and not guarded(scope["method"], headers):
                await reply(send, 403, _SIGNED)
                return
            if key is not None:
                scope = {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + key)]}
        if not self._origins.admits(headers):
            await reply(send, 403, _STRANGE)
        elif (signed_in := self._signed_in(headers, scope)) is not None:
            await reply(send, 303, b"", signed_in)
        elif b"origin" not in headers:
            await app(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            wanted = (b"access-control-allow-headers", headers.get(b"access-control-request-headers", b"content-type"))
            await reply(send, 204, b"", [*PREFLIGHT, wanted, (b"access-control-allow-origin", headers[b"origin"])])
        else:
            await app(scope, receive, _for_page(send, headers[b"origin"]))

    def _signed_in(self, headers: dict[bytes, bytes], scope: Scope) -> list[tuple[bytes, bytes]] | None:
        """What a browser is told that comes to a page with the start token in its address."""
        guard, cookies = self._guard, self.api.cookies
        if not scope["query_string"] or (scope["method"], scope["path"]) != ("GET", "/"):
            return None
        if not isinstance(guard, StartToken) or cookies is None:
            return None
        return guard.signed_in(scope["query_string"], headers, cookies, secure=scope.get("scheme") == "https")

    def mount(self, prefix: str, app: App) -> None:
        """Mount an application at a prefix such as `/ag-ui`, and all below it; `/` is for all the rest.

        Origins and hosts are checked before it; it asks the guard itself.
        """
        self._mounts[prefix] = app

    def only_mcp(self) -> None:
        """Serve MCP clients alone."""
        self._mounts.clear()

    def endpoint(self, path: str) -> App | None:
        """Return the application at a path."""
        app = self._endpoints.get(path)
        if app is None:
            end = path.find("/", 1)
            app = self._mounts.get(path if end < 0 else path[:end])
        return app or (self._mounts.get("/") if path not in self._documents else None)

    async def open(self) -> None:
        """Make the endpoints of a crib that was started."""
        from toolcrib.serve.keyring import keyring
        from toolcrib.serve.mcp.http import McpHttp
        from toolcrib.serve.mcp.server import McpServer
        from toolcrib.serve.mcp.signed_state import Signer, kept_secret
        from toolcrib.serve.mcp.sse import LISTEN, POST, McpSse
        from toolcrib.serve.metrics import Metrics

        if self._guard is not None:
            await self._guard.start()
        if self.api.sources is not None:
            await self.api.sources.start()
        secret = await kept_secret(self._crib.store, self._crib.pipeline.clock.now())
        self.api.seal = Signer(secret)
        if self._guard is not None:
            self.api.cookies, self.api.keys = Cookies(secret), keyring(self._guard)
        server = await McpServer.over(self._crib, self._library, self._mcp)
        self._endpoints[MCP] = McpHttp(server, self.api, self._peers)
        self._endpoints[LISTEN] = self._endpoints[POST] = McpSse(server, self.api)
        if self._crib.agents is not None and API in self._mounts:
            self._mounts |= dict.fromkeys(FRONTS, self.api)
        self.api.features |= {"mcp": True, **{name: f"/{name.replace('_', '-')}" in self._mounts for name in FEATURES}}
        public = {"/healthz": {"ok": True}, **({} if self._guard is None else self._guard.documents)}
        self._documents = {path: _document(document) for path, document in public.items()}
        self._documents |= {"/readyz": self._ready, "/metrics": self._numbers}
        self.api.metrics = Metrics(self._crib)
        self._crib.pipeline.observers.append(self.api.metrics.called)
        self._traces = self._crib.pipeline.spans is not None
        self._sweeping = asyncio.ensure_future(self._crib._sweeper.hourly())
        self._reviewing = asyncio.ensure_future(self._log_findings())
        self._counting = asyncio.ensure_future(self._count())

    async def _count(self) -> None:
        """Rolls up what was written, so that whoever looks at numbers does not wait for much of it."""
        while True:
            left = 0
            with suppress(StoreError):
                left = await self._crib.store.roll_up(COUNT_S / 20)
            await asyncio.sleep(COUNT_S / 20 if left else COUNT_S)  # where there is much, half of the time

    async def reviewed(self) -> None:
        """Returns when the findings of the crib are in the log."""
        if self._reviewing is not None:
            await self._reviewing

    async def _log_findings(self) -> None:
        """Tells whoever reads the log what does nothing, beside serving: to look at many files takes a while."""
        from toolcrib.serve.findings import review_server

        for finding in await review_server(self.api):
            level = logging.INFO if finding.severity == "info" else logging.WARNING
            log.log(level, "%s [%s]", finding, finding.code)

    async def quiet(self) -> None:
        """The server is about to stop: it is not ready any more, and streams end, for their readers to come back."""
        for task in (self._sweeping, self._reviewing, self._counting):
            if task is not None:
                task.cancel()
        if self.api.sources is not None:
            await self.api.sources.stop()
        await self.api.close()
        if self._guard is not None:
            await self._guard.stop()

    async def _numbers(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The numbers of the server, for who may see them."""
        try:
            if self._guard is None and not self._origins.admits(dict(scope["headers"])):
                raise NotAdmitted(403, "This origin or host is not let in")
            if self._guard is not None and not (await self._guard.admit(dict(scope["headers"]))).may("metrics"):
                raise NotAdmitted(403, "This needs the scope 'metrics'", hint="use a key that has it")
            assert self.api.metrics is not None
            await reply(send, 200, await self.api.metrics.text(self.api), (KIND,))
        except (NotAdmitted, StoreError) as error:
            status, body, headers = problem_of(error).reply()
            await reply(send, status, body, headers)

    async def _ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whether requests can be carried out here: a balancer sends none to a server that says no."""
        problem = "The server is stopping" if self.api.streams.stopped else await self._away()
        data: dict[str, Any] = {"ready": problem is None} | ({} if problem is None else {"problem": problem})
        await reply(send, 200 if problem is None else 503, msgspec.json.encode(data))

    async def _away(self) -> str | None:
        try:
            async with asyncio.timeout(READY_S):
                await self._crib.store.next_expiry()
        except (StoreError, TimeoutError):
            return "The store does not answer"
        return None

    async def _nothing(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, body, headers = nowhere(MCP if API not in self._mounts else None).reply()
        await reply(send, status, body, headers)

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
        await self.quiet()
        await self._crib.stop()
        await send({"type": "lifespan.shutdown.complete"})


def _twice(headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return a header that must come once and came twice: a proxy before this server may have used the other one."""
    names = [name for name, _ in headers if name in _ONCE]
    return next((name for name in names if names.count(name) > 1), None)


def _for_page(send: Send, origin: bytes) -> Send:
    """Tells a browser that the page of an origin that was let in may read the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"access-control-allow-origin", origin), *EXPOSED]}
        await send(message)

    return sending


def _document(value: Any) -> App:
    body = msgspec.json.encode(value)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, 200, body) if scope["method"] in ("GET", "HEAD") else await reply(send, 405)

    return app


def config(site: App, **more: Any) -> uvicorn.Config:
    """How a site is served by uvicorn: one loop, no logs of its own, and no patience with senders of slow headers."""
    import uvicorn

    from toolcrib.serve.http_protocol import BoundedProtocol

    options: dict[str, Any] = {
        "http": BoundedProtocol,
        "ws": "none",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": GRACE_S,
    }
    options |= more
    if isinstance(site, Site):
        options["http"] = type("Patience", (options["http"],), {"drain_s": site.api.limits.drain_s})
    return uvicorn.Config(site, **options)


def server(
    site: Site, ready: Callable[[], None] | None = None, *, linger_s: float = 0.0, **more: Any
) -> uvicorn.Server:
    """A server of a site: it tells when it listens, and ends streams before it waits for connections to close.

    Where another process goes on at the same port, connections have `linger_s` to end with a response: one that is
    closed between two requests may cost its client the second.
    """
    import uvicorn

    from toolcrib.serve.http_protocol import BoundedProtocol

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if ready is not None and self.started:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            if linger_s:
                await self._linger()
            await site.quiet()
            await super().shutdown(sockets)

        async def _linger(self) -> None:
            for listening in self.servers:
                listening.close()
            for connection in self.server_state.connections:
                cast(BoundedProtocol, connection).leave()
            until = time.monotonic() + linger_s
            remain = self.server_state.connections
            while remain and time.monotonic() < until and not self.force_exit:  # noqa: ASYNC110 - uvicorn tells nobody
                await asyncio.sleep(LOOK_S)

    class Embedded(Server):
        """One whose signals are somebody else's: its own would be raised again when it is done."""

        def capture_signals(self) -> Any:
            return contextlib.nullcontext()

    return (Server if ready is None else Embedded)(config(site, **more))


def settle() -> None:
    """Has the garbage collector pass over all that was loaded, and look at the rest seldom: everybody waits for it.

    A call leaves no cycles behind. So the number of objects goes up and down with the calls under way, and a bound that
    is lower than what a few hundred calls hold would have the collector look at them again and again, and find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AT)


def run(site: Site, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve until a stop is requested."""
    settle()
    server(site, host=host, port=port, loop="uvloop").run()
