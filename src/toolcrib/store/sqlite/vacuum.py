"""Giving the space of what was deleted back to the disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from toolcrib.errors import StoreError
from toolcrib.store.sqlite.checkpoint import is_whole, wal
from toolcrib.store.sqlite.workers import used

PIECE = 200
"""Pages that are freed in one transaction: a few milliseconds, for which other writers wait."""


def free_some(db: sqlite3.Connection) -> bool:
    """Free some unused pages; return True if there are more. A file made before this was so keeps them."""
    if db.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
        return False
    for _ in range(min(PIECE, db.execute("PRAGMA freelist_count").fetchone()[0])):
        db.execute("PRAGMA incremental_vacuum(1)")  # one step of the statement frees one page
    return int(db.execute("PRAGMA freelist_count").fetchone()[0]) > 0


def vacuum(path: Path) -> tuple[int, int]:
    """Writes a file anew without what nothing uses, after which sweeps make it smaller; its bytes before and after.

    Raises:
        StoreError: it is in use, or cannot be written.
    """
    if used(path):
        raise StoreError(f"{path} is in use: stop what uses it first")
    before, has_wal = path.stat().st_size, wal(path).exists()
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            is_whole(db, path, has_wal=has_wal)
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be written anew: {error}") from None
    return before, path.stat().st_size
