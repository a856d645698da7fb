"""One application with all endpoints: which request gets where, and what starts and stops with it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.errors import StoreError
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.http import COLLECT_AT, Site, config, settle
from toolcrib.serve.http_protocol import BoundedProtocol
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.mcp import McpServerSettings
from toolcrib.serve.principal import Principal
from toolcrib.serve.start_token import StartToken

KEY, DIGEST = new_key()
SCRAPER, SCRAPER_DIGEST = new_key()
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}


def keys() -> ApiKeys:
    scraper = Principal("prometheus", scopes=frozenset({"metrics"}), auth="key")
    return ApiKeys({DIGEST: Principal("ada", auth="key"), SCRAPER_DIGEST: scraper})


@asynccontextmanager
async def opened(crib: Crib | None = None, **options: Any) -> AsyncIterator[tuple[Site, httpx.AsyncClient]]:
    """A site whose crib runs, and a client that reaches it without a network."""
    async with crib or Crib(TOOLS) as running:
        site = Site(running, **options)
        site.mount("/echo", echo)
        await site.open()
        transport = httpx.ASGITransport(app=site)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield site, http
        await site.quiet()


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Tells what a mounted application gets to see."""
    keys = [value.decode() for name, value in scope["headers"] if name == b"authorization"]
    told = " ".join([scope["path"], scope["raw_path"].decode(), *keys])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-told", told.encode())]})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(
    ("root", "path", "raw", "told"),
    [
        ("", "/echo/a", b"/echo/a", "/echo/a /echo/a"),
        ("/crib", "/crib/echo/a/b", b"/crib/echo/a%2Fb", "/echo/a/b /echo/a%2Fb"),
        ("/crib/", "/crib/echo", b"/crib/echo", "/echo /echo"),
        ("/crib", "/echo/a", b"/echo/a", "/echo/a /echo/a"),
        ("/a b", "/a b/echo", b"/a%20b/echo", "/echo /echo"),
        ("/crib", "/crib/echo/ü", None, "/echo/ü /echo/ü"),
        ("/crib", "/crib", b"/crib", "/ /"),
        ("/crib", "/crib/", b"/crib/", "/ /"),
    ],
)
async def test_a_site_below_a_prefix_sees_paths_without_it(root: str, path: str, raw: bytes | None, told: str) -> None:
    async with opened() as (site, _):
        site.mount("/", echo)
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope: dict[str, Any] = {"type": "http", "method": "GET", "query_string": b"", "root_path": root, "path": path}
        scope |= {"headers": [(b"host", b"localhost")], "raw_path": raw if raw is not None or root else path.encode()}
        await site(scope, nobody, send)
        assert sent[0]["headers"] == [(b"x-told", told.encode())]


async def nobody() -> Any:
    return {"type": "http.request"}


async def test_a_name_that_only_begins_like_a_prefix_is_another() -> None:
    async with opened() as (site, http):
        assert (await http.get("/echoes")).status_code == 404
        assert (await http.get("/echo/es")).status_code == 200
        assert (await http.get("/crib/x")).status_code == 404
        site.mount("/", echo)
        assert (await http.get("/echoes")).headers["x-told"] == "/echoes /echoes"
        assert (await http.get("/healthz")).json() == {"ok": True}, "the root takes no document's place"


async def test_what_is_no_http_is_not_answered() -> None:
    async with opened() as (site, _):
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await site({"type": "websocket", "path": "/v1/live", "headers": []}, nobody, send)
        assert sent == []


@pytest.mark.parametrize(
    "name", ["Host", "Origin", "Authorization", "Idempotency-Key", "Last-Event-ID", "MCP-Session-Id"]
)
async def test_a_header_that_counts_comes_once(name: str) -> None:
    async with opened() as (_, http):
        for values in (("a", "b"), ("localhost", "localhost")):
            headers = [("Host", "localhost"), *((name, value) for value in values)]
            answer = await http.get("/echo", headers=headers)
            assert answer.status_code == 400
            assert answer.json()["error"]["message"] == f"The header {name.lower()} came twice"


async def test_other_headers_may_come_twice() -> None:
    async with opened() as (_, http):
        assert (await http.get("/echo", headers=[("Accept", "a"), ("Accept", "b")])).status_code == 200


async def test_a_page_signs_in_and_its_cookie_stands_for_its_key() -> None:
    async with opened(guard=keys()) as (_, http):
        answer = await http.post("/v1/signin", json={"key": KEY}, headers={"X-Toolcrib": "1"})
        assert answer.status_code < 300, answer.text
        assert "Secure" not in answer.headers["set-cookie"]
        assert (await http.get("/echo")).headers["x-told"] == f"/echo /echo Bearer {KEY}"
        assert (await http.post("/echo")).status_code == 403
        assert (await http.post("/echo", headers={"X-Toolcrib": "1"})).status_code == 200
        kept = await http.get("/echo", headers={"Authorization": "Bearer other"})
        assert kept.headers["x-told"] == "/echo /echo Bearer other"
        safe = await http.post("https://localhost/v1/signin", json={"key": KEY}, headers={"X-Toolcrib": "1"})
        assert "; Secure" in safe.headers["set-cookie"]


async def test_the_cookies_of_others_mean_nothing() -> None:
    for guard in (keys(), None):
        async with opened(guard=guard) as (_, http):
            for cookie in ("other=1", "toolcrib=forged", "toolcrib"):
                assert (await http.post("/echo", headers={"Cookie": cookie})).headers["x-told"] == "/echo /echo"


async def test_pages_of_other_origins_are_let_in_by_name() -> None:
    async with opened(guard=keys(), origins=["https://app.example"]) as (_, http):
        known, strange = {"Origin": "https://app.example"}, {"Origin": "https://evil.example"}
        assert (await http.get("/echo", headers=strange)).status_code == 403
        plain = await http.get("/echo")
        assert "access-control-allow-origin" not in plain.headers
        answer = await http.get("/echo", headers=known)
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "retry-after" in answer.headers["access-control-expose-headers"]
        asked = {**known, "Access-Control-Request-Headers": "x-toolcrib"}
        before = await http.options("/echo", headers=asked)
        assert (before.status_code, before.headers["access-control-allow-headers"]) == (204, "x-toolcrib")
        assert before.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-told" in (await http.options("/echo")).headers, "what comes from no page asks for nothing"


async def test_documents_are_read_and_not_changed() -> None:
    async with opened() as (_, http):
        assert [(await http.request(method, "/healthz")).status_code for method in ("GET", "HEAD", "POST")] == [
            200,
            200,
            405,
        ]


async def test_numbers_are_for_who_may_see_them_and_asks_from_here() -> None:
    async with opened() as (_, http):
        assert "toolcrib_calls_here" in (await http.get("/metrics")).text
        assert (await http.get("/metrics", headers={"Host": "evil.example"})).status_code == 403
    async with opened(guard=keys()) as (_, http):
        assert (await http.get("/metrics")).status_code == 401
        assert (await http.get("/metrics", headers=AUTHORIZED)).status_code == 403
        scrape = {"Authorization": f"Bearer {SCRAPER}"}
        assert (await http.get("/metrics", headers=scrape)).status_code == 200
        assert (await http.get("/metrics", headers={**scrape, "Host": "evil.example"})).status_code == 200


async def test_a_site_for_mcp_clients_alone_has_nothing_else() -> None:
    async with Crib(TOOLS) as crib:
        site = Site(crib)
        site.only_mcp()
        await site.open()
        assert site.endpoint("/v1/tools") is None
        assert [path for path in ("/mcp", "/sse", "/messages") if site.endpoint(path) is None] == []
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site), base_url="http://localhost") as http:
            answer = await http.get("/v1/tools")
        assert answer.json()["error"]["hint"] == "this server serves MCP clients alone, at /mcp"
        await site.quiet()


@pytest.mark.parametrize(
    ("options", "namespaces"),
    [
        ({}, None),
        ({"namespaces": ["a", "b"]}, ("a", "b")),
        ({"mcp": McpServerSettings(namespaces=("c",))}, ("c",)),
        ({"namespaces": ["a"], "mcp": McpServerSettings(namespaces=("c",))}, ("a",)),
        ({"namespaces": ["a"], "mcp": McpServerSettings()}, ("a",)),
    ],
)
def test_what_is_open_to_everybody_is_said_once_for_all_doors(options: Any, namespaces: Any) -> None:
    assert Site(Crib(TOOLS), **options).api.sessions.namespaces == namespaces


@pytest.mark.parametrize(("guard", "shared"), [(None, False), (StartToken("t"), False), (ApiKeys({}), True)])
def test_owners_share_a_server_that_knows_them(guard: Any, shared: bool) -> None:
    site = Site(Crib(TOOLS), guard=guard)
    assert (site.api.gate.shared, site.api.turns is not None) == (shared, shared)


async def test_nothing_is_left_behind_by_a_site_that_has_stopped() -> None:
    async with Crib(TOOLS) as crib:
        before = asyncio.all_tasks()
        site = Site(crib, guard=keys())
        await site.open()
        assert asyncio.all_tasks() - before
        await site.quiet()
        for task in asyncio.all_tasks() - before:
            await asyncio.wait({task}, timeout=60)
        assert asyncio.all_tasks() - before == set()


async def test_a_server_that_stops_or_whose_store_is_away_is_not_ready() -> None:
    async with opened() as (site, http):
        assert (await http.get("/readyz")).json() == {"ready": True}
        await site.quiet()
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["problem"]) == (503, "The server is stopping")


class Lifespan:
    """What a server and an application say to each other at start and end."""

    def __init__(self, site: Site) -> None:
        self.sent: list[Any] = []
        self._turn, self._told = asyncio.Event(), asyncio.Event()
        self._stop = asyncio.Event()
        self._begun = False
        self.task = asyncio.ensure_future(site({"type": "lifespan"}, self._receive, self._send))

    async def _receive(self) -> Any:
        if self._begun:
            await self._stop.wait()
            return {"type": "lifespan.shutdown"}
        self._begun = True
        return {"type": "lifespan.startup"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        self._told.set()

    async def told(self) -> Any:
        await asyncio.wait_for(self._told.wait(), 60)
        self._told.clear()
        return self.sent[-1]["type"]

    async def stop(self) -> Any:
        self._stop.set()
        return await self.told()


async def test_the_crib_starts_and_stops_with_the_server() -> None:
    crib = Crib(TOOLS)
    site = Site(crib)
    server = Lifespan(site)
    assert await server.told() == "lifespan.startup.complete"
    await crib.open("s", owner="ada")
    assert site.endpoint("/mcp") is not None
    assert await server.stop() == "lifespan.shutdown.complete"
    await server.task
    assert site.api.streams.stopped
    assert crib.in_memory == 0


class Closed(ApiKeys):
    """A guard whose keys cannot be read."""

    async def start(self) -> None:
        raise StoreError("the keys are away")


async def test_whoever_starts_a_server_is_told_why_it_does_not_start() -> None:
    server = Lifespan(Site(Crib(TOOLS), guard=Closed({})))
    assert await server.told() == "lifespan.startup.failed"
    await server.task
    assert [message.get("message") for message in server.sent] == ["the keys are away"]


def test_a_reader_has_as_long_as_the_limits_of_the_site_say() -> None:
    site = Site(Crib(TOOLS), limits=ServeLimits(drain_s=7.0))
    made = config(site, port=8123, access_log=True)
    assert issubclass(made.http, BoundedProtocol)  # type: ignore[arg-type]
    assert made.http.drain_s == 7.0  # type: ignore[union-attr]
    assert (made.port, made.access_log, made.server_header) == (8123, True, False)
    assert config(echo).http is BoundedProtocol


def test_the_garbage_collector_passes_over_what_was_loaded() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        settle()
        assert gc.get_freeze_count() > frozen
        assert gc.get_threshold()[0] == COLLECT_AT
    finally:
        gc.set_threshold(*before)
