"""CRC-32 of what an SQLite file holds: its own integrity check does not notice changed bytes inside a value."""

from __future__ import annotations

import struct
from zlib import crc32

_pack = struct.Struct("<qd").pack


def event_crc(key: int, at: float, call: str | None, kind: str, data: bytes, large: str | None = None) -> int:
    """The checksum of a line of the log."""
    text = kind if call is None else call + kind
    return crc32(data, crc32(_pack(key, at) + (text if large is None else text + large).encode()))


def kept_crc(id: str, data: bytes) -> int:
    """The checksum of a large value."""
    return crc32(data, crc32(id.encode()))
