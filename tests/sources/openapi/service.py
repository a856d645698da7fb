"""A real web service that tells what it received, and documents that describe it."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import uvicorn

from toolcrib import Tool
from toolcrib.sources.openapi import OpenApi

Send = Callable[[dict[str, Any]], Awaitable[None]]
SERVER = "https://shop.example/v1"
TOKEN = "tok-3fe2a1-very-secret"
JSON = "application/json"


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    def told(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": self.headers,
            "body": base64.b64encode(self.body).decode(),
        }


@dataclass
class Service:
    """What it answers: `/echo/...` the request, `/status/N` that status, and some more."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    withdrawn: set[str] = field(default_factory=set)
    lives: int = 3600
    held: threading.Event = field(default_factory=threading.Event)

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        assert scope["type"] == "http"
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message.get("body", b"")
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["raw_path"].decode().partition("?")[0]
        seen = Seen(scope["method"], path, scope["query_string"].decode(), headers, body)
        self.seen.append(seen)
        if path == "/echo/held" and sum(one.path == path for one in self.seen) == 1:
            while not self.held.is_set():  # noqa: ASYNC110 - it is set in another thread
                await asyncio.sleep(0.02)
        status, extra, answer = self.answer(seen)
        sent = [(name.lower().encode(), value.encode()) for name, value in extra.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": answer})

    def answer(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        kind, _, rest = seen.path.lstrip("/").partition("/")
        if seen.path in self.files:
            return self._file(seen)
        match kind:
            case "echo":
                return self._echo(seen)
            case "status":
                status, _, text = rest.partition("/")
                said = parse_qs(seen.query)
                extra = {"content-type": JSON} | ({"retry-after": said["after"][0]} if "after" in said else {})
                shown = {"problem": text or "none", "you_sent": seen.headers.get("x-key", "")}
                return int(status), extra, json.dumps(shown).encode()
            case "token":
                return self._token(seen)
            case "moved":
                return int(rest or 307), {"location": parse_qs(seen.query)["to"][0]}, b""
            case "kind":
                return self._kind(rest)
        return 404, {"content-type": "text/html"}, b"<html>nothing here</html>"

    def _file(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        media, data = self.files[seen.path]
        mark = f'"{hash(data)}"'
        if seen.headers.get("if-none-match") == mark:
            return 304, {"etag": mark}, b""
        return 200, {"content-type": media, "etag": mark}, data

    def _echo(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        used = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if used in self.withdrawn:
            return 401, {"content-type": JSON}, b'{"error": "expired"}'
        return 200, {"content-type": JSON}, json.dumps(seen.told()).encode()

    def _token(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        form = parse_qs(seen.body.decode())
        basic = base64.b64decode(seen.headers.get("authorization", "Basic ").partition(" ")[2]).decode()
        client = basic or f"{form.get('client_id', [''])[0]}:{form.get('client_secret', [''])[0]}"
        if form.get("grant_type") != ["client_credentials"] or not client.endswith(":s3cret-of-client"):
            return 401, {"content-type": JSON}, json.dumps({"error": "invalid_client", "was": client}).encode()
        token = f"{TOKEN}-{client.partition(':')[0]}-{len(self.tokens)}"
        self.tokens.append(token)
        return 200, {"content-type": JSON}, json.dumps({"access_token": token, "expires_in": self.lives}).encode()

    def _kind(self, kind: str) -> tuple[int, dict[str, str], bytes]:
        match kind:
            case "png":
                return 200, {"content-type": "image/png"}, b"\x89PNG\x00"
            case "zip":
                return 200, {"content-type": "application/zip"}, b"PK\x03\x04\xff"
            case "text":
                return 200, {"content-type": "text/plain; charset=latin-1"}, "schön".encode("latin-1")
            case "nothing":
                return 204, {}, b""
            case "list":
                return 200, {"content-type": JSON}, b"[1, 2]"
            case "bomb":
                zeros = gzip.compress(b"0" * 40_000_000)
                return 200, {"content-type": "text/plain", "content-encoding": "gzip"}, zeros
        return 200, {"content-type": JSON}, b"{broken"


@contextmanager
def serving() -> Iterator[Service]:
    """The service on a port of its own, in a thread."""
    service = Service()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        service.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(service, lifespan="off", log_level="error", loop="asyncio", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield service
        finally:
            server.should_exit = True
            thread.join(30)


def document(
    paths: dict[str, Any], *, server: str | None = None, version: str = "3.1.0", **more: Any
) -> dict[str, Any]:
    """A document with these paths."""
    made: dict[str, Any] = {"openapi": version, "info": {"title": "Shop", "version": "1"}, "paths": paths, **more}
    return made if server is None else {**made, "servers": [{"url": server}]}


def operation(*parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An operation with these parameters, whose answer is not described."""
    return {"operationId": "it", "parameters": list(parameters), "responses": {"200": {"description": "ok"}}, **more}


def parameter(name: str, place: str, schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema or {"type": "string"}, **more}


async def tools(given: Any, **settings: Any) -> dict[str, Tool]:
    """The tools of a document, by name."""
    source = OpenApi(given, **{"refresh_s": None, **settings})
    try:
        return {tool.name: tool for tool in await source.start(lambda changed: None)}
    finally:
        await source.stop()


def paths(*ids: str, method: str = "get") -> dict[str, Any]:
    return {f"/{id}": {method: {**operation(), "operationId": id}} for id in ids}
