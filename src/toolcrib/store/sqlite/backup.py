"""An SQLite file as the source of a backup, and as the place of a restore."""

from __future__ import annotations

import asyncio
import base64
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from toolcrib.errors import StoreError
from toolcrib.store.backup import PIECE, TABLES, Rows, synced
from toolcrib.store.private_files import make_private
from toolcrib.store.schema import migrate, migrations, queries
from toolcrib.store.sqlite.checkpoint import BUSY_MS, LOST, WHOLE, is_whole, wal
from toolcrib.store.sqlite.kept_values import kept_crc
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.store.sqlite.workers import used
from toolcrib.store.sqlite.writer import event_crc


@asynccontextmanager
async def source(url: str) -> AsyncIterator[_FileSource]:
    """The file as of one read transaction, which no writer waits for."""
    path = SqliteStore(url).path
    if not path.exists():
        raise StoreError(f"There is no store yet: {path} does not exist")
    has_wal = wal(path).exists()
    try:
        with closing(_connect(path)) as db:
            if not is_whole(db, path, has_wal=has_wal):
                raise StoreError(f"{path} cannot be backed up: {LOST}")
            if db.execute("PRAGMA user_version").fetchone()[0] != migrations()[-1][0]:
                raise StoreError(f"{path} has another schema than this program: run `toolcrib store migrate` first")
            db.execute("BEGIN")
            yield _FileSource(db, path)
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read: {error}. `toolcrib store verify` tells more") from None


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False)


class _FileSource:
    kind = "sqlite"

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db = db
        self._path = path

    async def counts(self) -> dict[str, int]:
        """How many rows each table has, of sessions that are there."""

        def count() -> dict[str, int]:
            return {
                table: self._db.execute(f"SELECT count(*) FROM ({queries()[f'backup_{table}']})").fetchone()[0]
                for table in TABLES
            }

        return await asyncio.to_thread(count)

    async def rows(self, table: str) -> AsyncIterator[Rows]:
        """The rows of a table, in pieces, each with its checksum compared."""
        cursor = await asyncio.to_thread(self._db.execute, queries()[f"backup_{table}"])
        while rows := await asyncio.to_thread(cursor.fetchmany, PIECE if table != "kept" else 8):
            yield [self._row(table, list(row)) for row in rows]

    def _row(self, table: str, row: list[Any]) -> list[Any]:
        if table == "events":
            n, seq, at, call, kind, data, large, crc = row
            self._compare(crc, event_crc((n << 32) + seq, at, call, kind, data.encode(), large))
            return row[:-1]
        if table == "kept":
            n, id, content, crc = row
            self._compare(crc, kept_crc(id, content))
            return [n, id, base64.b64encode(content).decode()]
        return row

    def _compare(self, stored: int | None, computed: int) -> None:
        if stored is not None and stored != computed:
            raise StoreError(f"{self._path} is damaged: `toolcrib store verify` tells where. Nothing was written")


@asynccontextmanager
async def target(url: str, force: bool) -> AsyncIterator[_FileTarget]:
    """A new file, which takes its name when all is in it."""
    path = SqliteStore(url).path
    if path.exists() and not force:
        raise StoreError(f"{path} exists: choose another place, or write over it with --force")
    if used(path):
        raise StoreError(f"{path} is in use: stop what uses it first")
    if not path.parent.is_dir():
        raise StoreError(f"{path} cannot be written: the folder {path.parent} does not exist")
    part = path.with_name(f"{path.name}.restoring")
    part.unlink(missing_ok=True)
    make_private(part)
    try:
        with closing(_connect(part)) as db:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
            migrate(db, str(path))
            db.execute("BEGIN")
            yield _FileTarget(db)
            db.execute("COMMIT")
            db.execute(f"PRAGMA application_id = {WHOLE}")
        _take_place(part, path)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path} cannot be written: {error}") from None
    finally:
        part.unlink(missing_ok=True)


def _take_place(part: Path, path: Path) -> None:
    handle = os.open(part, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    for beside in (wal(path), path.with_name(f"{path.name}-shm")):  # of what is written over
        beside.unlink(missing_ok=True)
    part.replace(path)
    synced(path.parent)


class _FileTarget:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    async def put(self, table: str, rows: Rows) -> None:
        """Takes rows of a table."""
        await asyncio.to_thread(self._put, table, rows)

    def _put(self, table: str, rows: Rows) -> None:
        if table == "events":
            rows = [_event(row) for row in rows]
        elif table == "kept":
            rows = [[n, id, content := base64.b64decode(text), kept_crc(id, content)] for n, id, text in rows]
        elif table == "calls":
            worker = TABLES["calls"].index("worker")
            rows = [[*row[:worker], None, *row[worker + 1 :]] for row in rows]
        self._db.executemany(queries()[f"restore_{table}"], rows)


def _event(row: list[Any]) -> list[Any]:
    n, seq, at, call, kind, data, large = row
    key = (n << 32) + seq
    return [key, at, call, kind, data, large, event_crc(key, at, call, kind, data.encode(), large)]
