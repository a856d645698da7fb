"""The little of ASGI that every endpoint needs: a body that is neither too large nor too slow, and replies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Header = tuple[bytes, bytes]
JSON: Header = (b"content-type", b"application/json")
STREAM: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class UnreadableBody(Exception):
    """A body that was not read to its end, with the status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ClientDisconnected(Exception):
    """The other side hung up."""


async def read(receive: Receive, largest: int, seconds: float) -> bytes:
    """The body of a request.

    Raises:
        Unreadable: 413, it is larger; 408, it takes longer.
        Gone: its sender went away.
    """
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body"):
                body = await _rest(receive, body, largest)
    except TimeoutError:
        raise UnreadableBody(408, "The request took too long to arrive") from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    if len(body) > largest:
        raise UnreadableBody(413, f"The request has more than {largest} bytes")
    return body


async def _rest(receive: Receive, begun: bytes, largest: int) -> bytes:
    pieces, size = [begun], len(begun)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > largest:
            raise UnreadableBody(413, f"The request has more than {largest} bytes")
        if not message.get("more_body"):
            return b"".join(pieces)


async def reply(send: Send, status: int, body: bytes = b"", headers: Iterable[Header] = (JSON,)) -> None:
    """A whole answer at once."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def gone(receive: Receive) -> None:
    """Returns when the other side hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass
