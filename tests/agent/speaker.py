"""A provider that answers what a test tells it, byte by byte: for replies that break off or make no sense."""

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import TracebackType
from typing import Any

SOON = 80.0
"""So long a test waits for an answer: the first one builds much of a client."""

Piece = bytes | asyncio.Event | None
"""Bytes to send, an event to wait for, or None: the connection is cut."""


@cache
def clients() -> None:
    """Imports the clients of providers, which takes its time where much else goes on."""
    for name in ("anthropic", "google", "openai"):
        import_module(f"pydantic_ai.models.{name}")


def http(status: int, body: Any, **headers: str) -> list[Piece]:
    """A whole answer."""
    data = json.dumps(body).encode()
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{''.join(lines)}\r\n"
    )
    return [head.encode() + data]


def sse(*events: Any, kind: str = "text/event-stream", end: Sequence[Piece] = (b"0\r\n\r\n",)) -> list[Piece]:
    """A stream of events: data for a `data:` line, or bytes as they are; `end` comes last."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces: list[Piece] = [head.encode()]
    for event in events:
        if isinstance(event, asyncio.Event):
            pieces.append(event)
            continue
        data = event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n"
        pieces.append(b"%x\r\n%s\r\n" % (len(data), data))
    return [*pieces, *end]


def chat(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """An event of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


DONE = b"data: [DONE]\n\n"


def answer(text: str) -> list[Piece]:
    """A chat completion that says this, and ends as it should."""
    return sse(chat({"role": "assistant", "content": text}), chat({}, "stop"), DONE)


class Speaker:
    """Answers each request with the next reply; `requests` has what came, `gone` is set when a client hangs up."""

    def __init__(self, *replies: list[Piece]) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.gone = asyncio.Event()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(int(line[15:]) for line in head.lower().splitlines() if line.startswith("content-length:"))
            self.headers.append(head)
            self.requests.append(json.loads(await reader.readexactly(length)))
            for piece in self.replies.pop(0):
                if piece is None:
                    writer.transport.abort()
                    return
                if isinstance(piece, asyncio.Event):
                    await self._until(piece, reader)
                else:
                    writer.write(piece)
                    await writer.drain()
        finally:
            writer.close()

    async def _until(self, event: asyncio.Event, reader: asyncio.StreamReader) -> None:
        """Waits, unless the client hangs up."""
        waits = {asyncio.ensure_future(event.wait()), asyncio.ensure_future(reader.read(1))}
        _, rest = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        if not event.is_set():
            self.gone.set()
