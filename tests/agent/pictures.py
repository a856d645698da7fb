"""Small real files for tests: a PNG of any number of bytes, and a PDF of one empty page."""

import struct
import zlib


def png(size: int = 0) -> bytes:
    """A picture of one red dot; with `size`, of at least so many bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    padding = chunk(b"teSt", b"\0" * size) if size else b""
    dot = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + padding + chunk(b"IDAT", dot) + chunk(b"IEND", b"")


DOT = png()
PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj "
    b"3 0 obj<</Type/Page/MediaBox[0 0 9 9]/Parent 2 0 R>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)
