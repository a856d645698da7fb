"""The body of an HTTP answer, which never takes more memory than it may be large, however tightly it is packed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from toolcrib.errors import ToolFailure

if TYPE_CHECKING:
    import httpx

ENCODINGS = "gzip, deflate"
"""What requests say they accept."""

_PACKED = ("gzip", "x-gzip", "deflate")


async def read_body(response: httpx.Response, most: int, **metadata: Any) -> bytes:
    """Return the whole body, unpacked, and close the response.

    Raises:
        ToolFailure: `too_large`, there is more; `failed`, it cannot be unpacked, or is packed in another way.
    """
    try:
        coding = response.headers.get("content-encoding", "identity").strip().lower() or "identity"
        if coding != "identity" and coding not in _PACKED:
            raise ToolFailure("failed", "The answer is packed in a way that was not asked for", metadata=metadata)
        unpack = None if coding == "identity" else zlib.decompressobj(47)
        body = bytearray()
        async for chunk in response.aiter_raw():
            if coding == "deflate" and not body and not _headed(chunk):
                unpack = zlib.decompressobj(-15)  # as some servers send it
            body += chunk if unpack is None else unpack.decompress(chunk, most + 1 - len(body))
            if len(body) > most:
                raise ToolFailure("too_large", f"The answer has more than {most} bytes", metadata=metadata)
        return bytes(body)
    except zlib.error:
        raise ToolFailure("failed", "The answer cannot be unpacked", metadata=metadata) from None
    finally:
        await response.aclose()


def _headed(chunk: bytes) -> bool:
    """Whether deflated bytes begin with the header of zlib."""
    return len(chunk) < 2 or (chunk[0] & 0x0F == 8 and (chunk[0] << 8 | chunk[1]) % 31 == 0)
