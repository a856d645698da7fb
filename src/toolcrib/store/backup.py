"""Backups of a store: one compressed file with all its rows as of one moment, made while others write, and restored.

The file is gzip over JSON lines: what it is, then the rows of one table after the other, then a SHA-256 of all that.
It says the same whichever database it comes from, so a backup of an SQLite file can be restored into Postgres.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from toolcrib.errors import StoreError
from toolcrib.store.codec import decode, encode
from toolcrib.store.private_files import create_private

VERSION = 2
"""Since 2 a backup has the sessions that are in an archive; their files are not in it."""

PIECE = 500
"""Rows of one line."""

LINE_BYTES = 1 << 30
"""A longer line is none of ours."""

TABLES = {
    "sessions": ("n", "id", "owner", "revision", "created_at", "updated_at", "closed"),
    "events": ("session", "seq", "at", "call", "kind", "data", "large"),
    "calls": (
        *(
            "id",
            "session",
            "tool",
            "effect",
            "state",
            "attempt",
            "worker",
            "accepted_at",
            "background",
            "parent",
            "key",
        ),
        *("code", "question", "expires_at", "crashes", "accepted_seq", "done_seq"),
    ),
    "cursors": ("session", "consumer", "seq"),
    "kept": ("session", "id", "data"),
    "rates": ("key", "tat"),
    "archived": ("id", "owner", "seq", "revision", "created_at", "updated_at", "archived_at", "sha256", "size"),
}
"""What is in a backup, in this order. Large values are base64."""

Rows = list[list[Any]]
Advance = Callable[[int], None]


class BackupSource(Protocol):
    """A store as it was at one moment."""

    kind: str

    async def counts(self) -> dict[str, int]:
        """How many rows each table has."""

    def rows(self, table: str) -> AsyncIterator[Rows]:
        """The rows of a table, in pieces."""


class BackupTarget(Protocol):
    """An empty place; what was put there appears all at once, at the end of its block."""

    async def put(self, table: str, rows: Rows) -> None:
        """Takes rows of a table."""


class BackupHeader(msgspec.Struct):
    """The first line of a backup."""

    toolcrib: str
    version: int
    store: str
    made_at: float
    counts: dict[str, int]


class _End(msgspec.Struct):
    sha256: str


async def back_up(url: str, file: Path, *, force: bool = False, advance: Advance = lambda rows: None) -> BackupHeader:
    """Writes all that was committed in a store when it began into a file; who uses the store goes on.

    Raises:
        StoreError: the file exists, or the store cannot be read or is damaged.
    """
    if file.exists() and not force:  # noqa: ASYNC240 - one look at a local file
        raise StoreError(f"{file} exists: choose another name, or write over it with --force")
    part = file.with_name(f"{file.name}.part")
    try:
        async with _source(url) as source:
            about = BackupHeader("backup", VERSION, source.kind, time.time(), await source.counts())
            with create_private(part) as raw:
                with gzip.GzipFile("", "wb", 6, raw, 0) as packed:
                    await _write(packed, about, source, advance)
                raw.flush()
                os.fsync(raw.fileno())
        part.replace(file)
        synced(file.parent)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return about


async def _write(packed: gzip.GzipFile, about: BackupHeader, source: BackupSource, advance: Advance) -> None:
    digest = hashlib.sha256()

    def write(value: Any) -> None:
        line = encode(value) + b"\n"
        digest.update(line)
        packed.write(line)

    write(about)
    for table in TABLES:
        async for rows in source.rows(table):
            await asyncio.to_thread(write, [table, rows])
            advance(len(rows))
    packed.write(encode(_End(digest.hexdigest())) + b"\n")


async def restore(file: Path, url: str, *, force: bool = False, advance: Advance = lambda rows: None) -> BackupHeader:
    """Restore a backup into an empty store, after all of it was read and checked.

    What was running is left to recovery, which the next start does: no worker of the old place counts as alive.

    Raises:
        StoreError: the backup is damaged, or the place is not empty or in use.
    """
    about = await asyncio.to_thread(check, file)
    async with _target(url, force) as target:
        lines = _lines(file)
        while (entry := await asyncio.to_thread(next, lines, None)) is not None:
            table, rows = entry
            await target.put(table, rows)
            advance(len(rows))
    return about


def check(file: Path) -> BackupHeader:
    """Reads a whole backup and compares it with its checksum.

    Raises:
        StoreError: it is none, or damaged.
    """
    counts = dict.fromkeys(TABLES, 0)
    for table, rows in _lines(file):
        if any(len(row) != len(TABLES[table]) for row in rows):
            raise StoreError(_broken(file, f"rows of {table} have other columns"))
        counts[table] += len(rows)
    about = _about(file)
    if counts != dict.fromkeys(TABLES, 0) | about.counts:
        raise StoreError(_broken(file, "rows are missing"))
    return about


def _about(file: Path) -> BackupHeader:
    try:
        with gzip.open(file) as lines:
            about = msgspec.json.decode(lines.readline(LINE_BYTES), type=BackupHeader)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise StoreError(_broken(file, str(error))) from None
    if about.toolcrib != "backup" or about.version > VERSION:
        raise StoreError(
            f"{file} is a backup of version {about.version}, this program knows {VERSION}. Update toolcrib."
        )
    return about


def _lines(file: Path) -> Iterator[tuple[str, Rows]]:
    """The tables of a backup, piece by piece; at the end its checksum is compared."""
    _about(file)
    try:
        with gzip.open(file) as lines:
            yield from _checked(file, lines)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise StoreError(_broken(file, str(error))) from None


def _checked(file: Path, lines: gzip.GzipFile) -> Iterator[tuple[str, Rows]]:
    line = lines.readline(LINE_BYTES)
    digest = hashlib.sha256(line)
    while line := lines.readline(LINE_BYTES):
        value = decode(line)
        if isinstance(value, dict):
            if value != {"sha256": digest.hexdigest()} or lines.read(1):
                raise StoreError(_broken(file, "its checksum does not fit"))
            return
        digest.update(line)
        table, rows = value
        if table not in TABLES:
            raise StoreError(_broken(file, f"it has an unknown table '{table}'"))
        yield table, rows
    raise StoreError(_broken(file, "its end is missing"))


def _broken(file: Path, why: str) -> str:
    return f"{file} is no whole backup ({why}): nothing was restored. Take another one."


def _source(url: str) -> AbstractAsyncContextManager[BackupSource]:
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from toolcrib.store.sqlite.backup import source

        return source(url)
    if scheme in ("postgresql", "postgres"):
        from toolcrib.store.postgres import backup

        return backup.source(url)
    raise StoreError("A store in memory lives in its process alone: it has no backup. Export its sessions.")


def _target(url: str, force: bool) -> AbstractAsyncContextManager[BackupTarget]:
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from toolcrib.store.sqlite.backup import target

        return target(url, force)
    if scheme in ("postgresql", "postgres"):
        from toolcrib.store.postgres import backup

        return backup.target(url, force)
    raise StoreError("A store in memory is gone when its process ends: restore into a file or a database")


def synced(folder: Path) -> None:
    """A renamed file has its new name after a power cut too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
