"""What has no end: headers, and what follows a body. Nobody has to be let in to send them, so none of it is kept."""

from __future__ import annotations

import asyncio

import pytest

from tests.serve.api.place import SOON_S, Desk, desk
from tests.serve.tools import TOOLS
from toolcrib import Crib

ENOUGH = 64 * 1024 * 1024
"""More than anybody has to take, and far more than any buffer between here and there."""


async def sent(served: Desk, head: bytes, again: bytes) -> tuple[int, bytes]:
    """How many bytes could be sent after a beginning until the server hung up, and what it said."""
    url = served.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    count = 0
    async with asyncio.timeout(SOON_S):
        try:
            writer.write(head)
            while count < ENOUGH:
                writer.write(again)
                count += len(again)
                await writer.drain()
        except ConnectionError:
            pass
        said = b""
        try:
            said = await reader.read(1000)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
    return count, said


@pytest.mark.parametrize(
    ("head", "again"),
    [
        (b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\n", b"X-More: " + b"x" * 1000 + b"\r\n"),
        (b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\nX-Long: ", b"x" * 10_000),
        (b"GET /v1/me?", b"x" * 10_000),
        (
            b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
            b"X-More: " + b"x" * 1000 + b"\r\n",
        ),
    ],
    ids=["headers", "one header", "address", "trailers"],
)
async def test_what_has_no_end_is_not_kept(head: bytes, again: bytes) -> None:
    async with desk(Crib(TOOLS)) as served:
        count, _ = await sent(served, head, again)
        assert count < ENOUGH
        assert (await served.get("/me"))["name"] == "anyone"


async def test_headers_that_are_long_but_end_are_taken_and_so_are_large_bodies() -> None:
    async with desk(Crib(TOOLS)) as served:
        long = {"X-Long": "x" * 30_000}
        assert (await served.ask("GET", "/me", headers=long)).status_code == 200
        session = await served.open()
        large = {"tool": "no-such-tool", "args": {"a": "x" * 2_000_000}}
        assert (await served.ask("POST", f"/sessions/{session}/calls", large)).status_code == 200


async def test_of_somebody_unknown_no_large_body_is_read() -> None:
    async with desk(Crib(TOOLS)) as served:
        assert await served.refused("POST", "/signin", {"key": "x" * 1_000_000}) == (413, "too_large")
