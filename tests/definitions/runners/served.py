"""A web server of a few lines that remembers what it was asked, and answers what a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answering = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Served:
    """A server; `answer` may be replaced at any time."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    answer: Answering = field(default_factory=lambda: says(200, "{}"))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in head[1:] if line}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.asked.append(Asked(method, target, headers, body))
            await self.answer(self.asked[-1], writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def says(status: int, body: str | bytes = "", **headers: str) -> Answering:
    """Always the same answer."""
    sent = body.encode() if isinstance(body, str) else body
    named = {"content-length": str(len(sent)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + sent)
        await writer.drain()

    return answer


@asynccontextmanager
async def served(tls: SSLContext | None = None) -> AsyncIterator[Served]:
    """A server for one test."""
    made = Served()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await server.wait_closed()
