"""An end to patience: readers who take nothing, and requests that are slow to say what they want or say too much."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from tests.requirements import requirement
from toolcrib.serve.http_protocol import BoundedProtocol

PIECES, PIECE = 1000, b"x" * 65536


class Impatient(BoundedProtocol):
    drain_s = 0.3


@requirement("reliability.stream.1")
async def test_what_a_reader_does_not_take_is_not_gathered_for_them_and_they_are_cut_off() -> None:
    sent, left, ended = 0, asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent

        async def listen() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            left.set()

        listening = asyncio.ensure_future(listen())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while sent < PIECES and not left.is_set():
            sent += 1
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            await asyncio.sleep(0)
        await listening
        ended.set()

    server = uvicorn.Server(uvicorn.Config(app, http=Impatient, lifespan="off", log_level="error", loop="none"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        serving = asyncio.ensure_future(server.serve([listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname(), limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 200")
        await asyncio.wait_for(ended.wait(), 60)
        writer.transport.abort()
        server.should_exit = True
        await serving
    assert 0 < sent < PIECES


BYTES = 2000
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


class Hasty(BoundedProtocol):
    headers_s = 0.2
    headers_bytes = BYTES


class Patient(BoundedProtocol):
    headers_bytes = BYTES


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, takes some time at `/slow`, and tells how long the body was."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * Hasty.headers_s)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
    await send({"type": "http.response.body", "body": b"%06d" % size})


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(http: type[BoundedProtocol]) -> AsyncIterator[Connection]:
    server = uvicorn.Server(uvicorn.Config(answer, http=http, lifespan="off", log_level="critical", loop="none"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        serving = asyncio.ensure_future(server.serve([listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        async with asyncio.timeout(60):
            yield reader, writer
        writer.transport.abort()
        server.should_exit = True
        await serving


async def body(connection: Connection) -> bytes:
    """The body of the next answer."""
    head = await connection[0].readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return await connection[0].readexactly(6)


async def test_a_request_that_said_what_it_wants_may_take_its_time() -> None:
    async with connected(Hasty) as connection:
        connection[1].write(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await body(connection) == b"000000"
        connection[1].write(HEAD + b"Content-Length: 2\r\n\r\n")
        await asyncio.sleep(2 * Hasty.headers_s)
        connection[1].write(b"12")
        assert await body(connection) == b"000002"


async def test_a_connection_that_does_not_say_what_it_wants_is_closed() -> None:
    for begun in (b"", HEAD):
        async with connected(Hasty) as connection:
            connection[1].write(begun)
            assert await connection[0].read() == b""


async def test_a_second_request_that_is_slow_is_closed_too() -> None:
    async with connected(Hasty) as connection:
        connection[1].write(HEAD + b"Content-Length: 0\r\n\r\n")
        assert await body(connection) == b"000000"
        connection[1].write(HEAD)
        assert await connection[0].read() == b""


def padded(size: int) -> bytes:
    """The beginning of a request, with so many bytes."""
    return HEAD + b"X-Pad: " + b"x" * (size - len(HEAD) - 7)


async def test_headers_have_so_many_bytes_and_not_one_more() -> None:
    async with connected(Patient) as connection:
        connection[1].write(padded(BYTES))
        await connection[1].drain()
        connection[1].write(b"\r\n")
        assert (await connection[0].read()).startswith(b"HTTP/1.1 400")
    async with connected(Patient) as connection:
        connection[1].write(padded(BYTES + 1))
        assert (await connection[0].read()).endswith(b'"message":"The headers have more than %d bytes."}}' % BYTES)
    async with connected(Patient) as connection:
        connection[1].write(padded(BYTES - 4) + b"\r\n\r\n")
        assert await body(connection) == b"000000"


async def test_bodies_and_the_requests_before_do_not_count_as_headers() -> None:
    async with connected(Patient) as connection:
        for _ in range(3):
            connection[1].write(padded(BYTES - 100) + b"\r\nContent-Length: %06d\r\n\r\n" % (3 * BYTES))
            for _ in range(6):
                connection[1].write(b"x" * (BYTES // 2))
                await connection[1].drain()
                await asyncio.sleep(0)
            assert await body(connection) == b"%06d" % (3 * BYTES)
