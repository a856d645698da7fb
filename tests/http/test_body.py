"""Answers of web servers that are packed: as much is unpacked as may be kept, and no more is ever held."""

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.requirements import requirement
from toolcrib.errors import ToolFailure
from toolcrib.http.body import read_body

MOST = 1 << 20
BOMB = b"\0" * (256 << 20)
PLAIN = b"some text, and some more text " * 100


def deflated(body: bytes) -> bytes:
    """Deflated as some servers do it, without a header."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress}


def answer(body: bytes, coding: str, size: int = 1 << 16) -> httpx.Response:
    """An answer as it comes from the wire, in pieces."""

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), size):
            yield body[at : at + size]

    return httpx.Response(200, headers={"content-encoding": coding}, content=pieces())


@requirement("reliability.proof.18")
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
@pytest.mark.parametrize("coding", PACKED)
async def test_a_packed_answer_is_read_whole(coding: str, size: int) -> None:
    packed = PACKED[coding](PLAIN)
    assert await read_body(answer(packed, coding, size), len(PLAIN)) == PLAIN
    with pytest.raises(ToolFailure, match=f"more than {len(PLAIN) - 1} bytes"):
        await read_body(answer(packed, coding, size), len(PLAIN) - 1)


@requirement("reliability.proof.18")
async def test_deflate_without_a_header_is_read_too() -> None:
    assert await read_body(answer(deflated(PLAIN), "deflate"), len(PLAIN)) == PLAIN


@requirement("reliability.proof.18")
async def test_no_more_is_held_of_a_bomb_than_may_be_kept() -> None:
    bomb = answer(gzip.compress(BOMB, 9), "gzip")
    tracemalloc.start()
    try:
        with pytest.raises(ToolFailure, match=f"more than {MOST} bytes"):
            await read_body(bomb, MOST)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MOST


@requirement("reliability.proof.18")
@pytest.mark.parametrize("coding", ["br", "gzip, gzip", "zstd"])
async def test_what_is_packed_in_another_way_is_refused(coding: str) -> None:
    with pytest.raises(ToolFailure, match="not asked for"):
        await read_body(answer(gzip.compress(PLAIN), coding), MOST)
    with pytest.raises(ToolFailure, match="cannot be unpacked"):
        await read_body(answer(PLAIN, "gzip"), MOST)
