"""Large values, kept beside the log in an SQLite file."""

from __future__ import annotations

import sqlite3
from zlib import crc32

from toolcrib.store import SECRET, Write
from toolcrib.store.schema import queries


def kept_crc(id: str, data: bytes) -> int:
    """The CRC-32 of a large value."""
    return crc32(data, crc32(id.encode()))


def keep(db: sqlite3.Connection, n: int, id: str, data: bytes) -> None:
    """Stores a large value once."""
    db.execute(queries()["keep"], {"n": n, "id": id, "data": data, "crc": kept_crc(id, data)})


def change_kept(db: sqlite3.Connection, n: int, write: Write) -> None:
    """Stores what a write keeps beside the log, and deletes the secrets of calls that are over."""
    for id, data in write.keeps:
        keep(db, n, id, data)
    for call in write.forgets:
        db.execute(queries()["forget_secrets"], {"n": n, "id": f"{SECRET}{call}"})
