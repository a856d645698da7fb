"""Large values, kept beside the log in an SQLite file."""

from __future__ import annotations

import sqlite3
from zlib import crc32

from toolcrib.store.schema import queries


def kept_crc(id: str, data: bytes) -> int:
    """The CRC-32 of a large value."""
    return crc32(data, crc32(id.encode()))


def keep(db: sqlite3.Connection, n: int, id: str, data: bytes) -> None:
    """Stores a large value once."""
    db.execute(queries()["keep"], {"n": n, "id": id, "data": data, "crc": kept_crc(id, data)})
