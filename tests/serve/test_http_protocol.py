"""A reader who takes nothing: what is sent waits for them, and then they are cut off."""

import asyncio
import socket
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
