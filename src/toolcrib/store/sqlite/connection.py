"""Connections to an SQLite file, and why there is none."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from toolcrib.errors import StoreUnavailable
from toolcrib.store.private_files import make_private, restrict
from toolcrib.store.sqlite.checkpoint import BUSY_MS, wal

ROOM = 64 * 1024
"""With fewer bytes than that an SQLite file cannot be opened."""


def connect(path: Path) -> sqlite3.Connection:
    """Opens a file that nobody but its owner may read."""
    if not path.parent.is_dir():
        raise StoreUnavailable(f"Cannot open {path}: the folder {path.parent} does not exist")
    make_private(path)  # SQLite gives its WAL and its index the rights of the file
    for file in (path, wal(path), path.with_name(f"{path.name}-shm")):
        restrict(file)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file: it holds once there is a table
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error:
        db.close()
        raise
    return db


def reason(error: Exception, path: Path) -> str:
    """What went wrong; SQLite has no better word than an error of the disk where there is no room for its index."""
    try:
        room = os.statvfs(path.parent)
    except OSError:
        return str(error)
    if "full" in str(error) or room.f_bavail * room.f_frsize < ROOM:
        return "the disk is full: free some space"
    return str(error)
