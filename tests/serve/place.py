"""A site that is really served, and what tests send to it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn

from toolcrib import Crib
from toolcrib.serve.http import Site, config
from toolcrib.serve.http_protocol import BoundedProtocol
from toolcrib.serve.mcp.http import McpHttp

VERSION = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"
TASKS: dict[str, Any] = {"extensions": {f"{META}tasks": {}}}
BOTH = {"Accept": "application/json, text/event-stream"}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
NAMED |= {f"tasks/{what}": "taskId" for what in ("get", "update", "cancel")}


class Place:
    """A served crib, and a client that says what the protocol wants to hear unless told otherwise."""

    def __init__(self, crib: Crib, site: Site, http: httpx.AsyncClient) -> None:
        self.crib = crib
        self.site = site
        self.http = http

    @property
    def mcp(self) -> McpHttp:
        door = self.site.endpoint("/mcp")
        assert isinstance(door, McpHttp)
        return door

    @property
    def url(self) -> str:
        return str(self.http.base_url)

    def message(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """A request of the newest revision; `can` are the capabilities of the client, `meta` more of its `_meta`."""
        meta = {f"{META}protocolVersion": VERSION, f"{META}clientCapabilities": more.pop("can", {})}
        meta |= more.pop("meta", {})
        return {
            "jsonrpc": "2.0",
            "id": more.pop("id", 1),
            "method": method,
            "params": {**(params or {}), "_meta": meta},
        }

    async def post(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> httpx.Response:
        """Sends a request of the newest revision, with its headers; `headers` change or, with None, remove some."""
        changed = more.pop("headers", {})
        message = self.message(method, params, **more)
        return await self.http.post("/mcp", json=message, headers=headers(message, changed))

    async def result(self, method: str, params: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The result of a request."""
        answer = await self.post(method, params, **more)
        found = last(answer)
        assert "result" in found, found
        result: dict[str, Any] = found["result"]
        return result

    async def error(
        self, method: str, params: Mapping[str, Any] | None = None, **more: Any
    ) -> tuple[int, dict[str, Any]]:
        """The status and the error of a request."""
        answer = await self.post(method, params, **more)
        return answer.status_code, last(answer)["error"]

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The result of a call, with whatever else stands in the parameters under `with_`."""
        params = {"name": tool, "arguments": dict(arguments or {}), **more.pop("with_", {})}
        return await self.result("tools/call", params, **more)

    @asynccontextmanager
    async def stream(self, method: str, params: Mapping[str, Any], **more: Any) -> AsyncIterator[AsyncIterator[Any]]:
        """The messages of a stream, as they come."""
        message = self.message(method, params, **more)
        async with self.http.stream("POST", "/mcp", json=message, headers=headers(message)) as answer:
            yield events(answer)

    async def begin(self, can: Mapping[str, Any] | None = None, version: str = LEGACY) -> Old:
        """A client of an older revision, greeted."""
        params = {"protocolVersion": version, "capabilities": can or {}, "clientInfo": {"name": "t", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = await self.http.post("/mcp", json=message, headers=BOTH)
        old = Old(self.http, answer.headers["mcp-session-id"], version)
        await old.notify("notifications/initialized")
        old.welcome = answer.json()["result"]
        return old


class Old:
    """A client of an older revision."""

    welcome: dict[str, Any]

    def __init__(self, http: httpx.AsyncClient, session: str, version: str) -> None:
        self.http = http
        self.headers = {**BOTH, "Mcp-Session-Id": session, "MCP-Protocol-Version": version}

    async def post(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})}
        return await self.http.post("/mcp", json=message, headers=self.headers)

    async def result(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> Any:
        found = last(await self.post(method, params, id))
        assert "result" in found, found
        return found["result"]

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        message = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
        return (await self.http.post("/mcp", json=message, headers=self.headers)).status_code

    async def respond(self, id: Any, result: Any) -> int:
        message = {"jsonrpc": "2.0", "id": id, "result": result}
        return (await self.http.post("/mcp", json=message, headers=self.headers)).status_code

    @asynccontextmanager
    async def stream(self, method: str, params: Mapping[str, Any], id: Any = 1) -> AsyncIterator[AsyncIterator[Any]]:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        async with self.http.stream("POST", "/mcp", json=message, headers=self.headers) as answer:
            yield events(answer, ids=True)

    @asynccontextmanager
    async def listen(self, after: str | None = None) -> AsyncIterator[AsyncIterator[Any]]:
        more = {} if after is None else {"Last-Event-ID": after}
        async with self.http.stream("GET", "/mcp", headers=self.headers | more) as answer:
            assert answer.status_code == 200, answer.status_code
            yield events(answer, ids=True)


def headers(message: Mapping[str, Any], changed: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """The headers that go with a request of the newest revision."""
    made = {**BOTH, "MCP-Protocol-Version": VERSION, "Mcp-Method": message["method"]}
    field = NAMED.get(message["method"])
    if field is not None and field in message["params"]:
        made["Mcp-Name"] = message["params"][field]
    return {name: value for name, value in (made | dict(changed or {})).items() if value is not None}


def last(answer: httpx.Response) -> dict[str, Any]:
    """The response in an answer, which may be a stream."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        found: dict[str, Any] = json.loads(lines[-1])
        return found
    body: dict[str, Any] = answer.json()
    return body


async def events(answer: httpx.Response, *, ids: bool = False) -> AsyncIterator[Any]:
    """The messages of a stream, with their event ids where they are wanted."""
    id = ""
    async for line in answer.aiter_lines():
        if line.startswith("id: "):
            id = line[4:]
        elif line.startswith("data:"):
            data = json.loads(line[5:]) if line[5:].strip() else None
            yield (id, data) if ids else data
            id = ""


class _Hasty(BoundedProtocol):
    headers_s = 0.5


class _Server(uvicorn.Server):
    """A server that tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@asynccontextmanager
async def serving(crib: Crib, **site: Any) -> AsyncIterator[Place]:
    """A crib that is served until the test is done."""
    made = Site(crib, **site)
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # with it, the loop sends at once what is written in parts
    listening.bind(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    more = {"loop": "none", "http": _Hasty, "log_level": "error", "lifespan": "on", "timeout_graceful_shutdown": 1}
    server = _Server(config(made, **more))
    task = asyncio.ensure_future(server.serve([listening]))
    await asyncio.wait({task, asyncio.ensure_future(server.ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), task.exception()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            yield Place(crib, made, http)
    finally:
        server.should_exit = True
        await task
        listening.close()
