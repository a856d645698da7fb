"""Whether an SQLite file is as it was written: SQLite's own check, the checksums of what it holds, and its WAL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from toolcrib.errors import StoreError
from toolcrib.store import Damage
from toolcrib.store.codec import decode
from toolcrib.store.schema import queries
from toolcrib.store.sqlite.checkpoint import BUSY_MS, IN_USE, LOST, WHOLE, is_whole, wal
from toolcrib.store.sqlite.kept_values import kept_crc
from toolcrib.store.sqlite.workers import used
from toolcrib.store.sqlite.writer import event_crc

MOST = 100
"""Problems that are reported; a file with so many is not repaired one by one."""


def damages(path: Path, advance: Callable[[], None] = lambda: None) -> list[Damage]:
    """Return the problems of a file, at most `MOST`; `advance` is called after each part."""
    problems: list[Damage] = []
    try:
        with closing(_reader(path)) as db:
            for look in (_whole, _own_check, _events, _kept, _strays):
                for one in look(db, path):
                    problems.append(one)
                    if len(problems) >= MOST:
                        return problems
                advance()
    except (sqlite3.Error, OSError) as error:
        problems.append(Damage("", f"the file cannot be read: {error}"))
    return problems


def accept_loss(path: Path) -> None:
    """Uses a file that lost its WAL as it is.

    Raises:
        StoreError: it is in use, or no database.
    """
    if used(path):
        raise StoreError(f"{path} is in use: stop what uses it first")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            if db.execute("PRAGMA application_id").fetchone()[0] == IN_USE:
                db.execute(f"PRAGMA application_id = {WHOLE}")
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be used: {error}") from None


def _reader(path: Path) -> sqlite3.Connection:
    """A connection that leaves the file as it is, as far as others let it: what is damaged must not be written to."""
    has_wal = wal(path).exists()
    alone = not has_wal and not used(path)
    uri = f"{path.resolve().as_uri()}?{'immutable=1' if alone else 'mode=rw'}"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_MS / 1000)
    if has_wal:
        is_whole(db, path, has_wal=True)
    db.execute("PRAGMA query_only = ON")
    db.text_factory = bytes  # damaged text may be no UTF-8
    return db


def _whole(db: sqlite3.Connection, path: Path) -> Iterator[Damage]:
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    if mark == IN_USE and not wal(path).exists():
        yield Damage("", LOST)


def _own_check(db: sqlite3.Connection, path: Path) -> Iterator[Damage]:
    """What SQLite itself checks: the pages, the order of rows, and that tables and their indexes agree."""
    for (line,) in db.execute(f"PRAGMA integrity_check({MOST})"):
        if line != b"ok":
            yield Damage("", line.decode("utf-8", "replace"))
    for table, row, *_ in db.execute("PRAGMA foreign_key_check"):
        yield Damage("", f"row {row} of {table.decode()} refers to nothing")


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {name.decode() for _, name, *_ in db.execute(f"PRAGMA table_info({table})")}


def _events(db: sqlite3.Connection, path: Path) -> Iterator[Damage]:
    """Each line of the log against its checksum; one of an older schema has none, and has to be JSON at least."""
    crc = "e.crc" if "crc" in _columns(db, "events") else "NULL"
    for id, *line, wanted in db.execute(queries()["checked_events"].format(crc=crc)):
        if not _holds(line, wanted):
            session = _text(id)
            yield Damage(session, f"event {line[0] & 0xFFFFFFFF} is not what was written")


def _holds(line: list[object], wanted: int | None) -> bool:
    try:
        key, at, call, kind, data, large = line
        assert isinstance(key, int) and isinstance(at, float) and isinstance(kind, bytes) and isinstance(data, bytes)
        call = call.decode() if isinstance(call, bytes) else None
        large = large.decode() if isinstance(large, bytes) else None
        if wanted is None:
            return isinstance(decode(data), dict)
        return event_crc(key, at, call, kind.decode(), data, large) == wanted
    except (AssertionError, ValueError):  # of another type, no UTF-8, no JSON
        return False


def _kept(db: sqlite3.Connection, path: Path) -> Iterator[Damage]:
    crc = "k.crc" if "crc" in _columns(db, "kept") else "NULL"
    for session, id, data, wanted in db.execute(queries()["checked_kept"].format(crc=crc)):
        name = _text(id)
        if not isinstance(data, bytes) or (wanted is not None and kept_crc(name, data) != wanted):
            yield Damage(_text(session), f"the large value {name} is not what was written")


def _strays(db: sqlite3.Connection, path: Path) -> Iterator[Damage]:
    """What belongs to no session, and readers that stand nowhere."""
    for table, count in db.execute(queries()["strays"]):
        if count:
            yield Damage("", f"{count} rows of {table.decode()} belong to no session")
    for session, consumer in db.execute(queries()["bad_cursors"]):
        yield Damage(_text(session), f"the cursor '{_text(consumer)}' stands nowhere")


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
