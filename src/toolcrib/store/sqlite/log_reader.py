"""Lines of the log in an SQLite file, read as events within a bound of bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from toolcrib.events import Event, with_values
from toolcrib.store import Row
from toolcrib.store.codec import WHOLE, PageLimit, decode
from toolcrib.store.schema import queries

MOST = 2**32 - 1
"""The last event that a session can have: its number takes half of the key."""


def data_version(db: sqlite3.Connection) -> int:
    """Another number after a commit of another process; its own commits do not count."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def read_page(
    db: sqlite3.Connection, query: str, values: dict[str, Any], extent: PageLimit
) -> tuple[list[Event], bool]:
    """A page of the log, and whether there may be more."""
    page, size = list[Event](), 0
    with closing(db.execute(queries()[query], values)) as lines:  # an open one would keep the WAL from shrinking
        for line in lines:
            event, length = _event(db, values["n"], line, extent.whole)
            page.append(event)
            size += length
            if size >= extent.max_bytes:
                return page, True
    return page, len(page) == values["limit"]


def read_stories(db: sqlite3.Connection, calls: Iterable[tuple[int, Row]]) -> list[list[Event]]:
    """All events of the first of these calls, each given with the number of its session."""
    stories, size = list[list[Event]](), 0
    for n, row in calls:
        story = _story(db, n, row)
        stories.append([event for event, _ in story])
        size += sum(length for _, length in story)
        if size >= WHOLE.max_bytes:
            break
    return stories


def _story(db: sqlite3.Connection, n: int, row: Row) -> list[tuple[Event, int]]:
    """A call's own lines lie between its first and its last."""
    last = MOST if row.done_seq is None else row.done_seq
    values = {"n": n, "after": row.accepted_seq - 1, "until": last, "limit": -1, "call": row.id}
    return [_event(db, n, line, whole=True) for line in db.execute(queries()["events_of_call"], values)]


def _event(db: sqlite3.Connection, n: int, line: tuple[Any, ...], whole: bool) -> tuple[Event, int]:
    """An event, and the bytes of the JSON of its data."""
    seq, at, call, kind, data, large = line
    json = data.encode()
    if large is None:
        return Event(seq, at, call, kind, json), len(json)
    ids: dict[str, str] = decode(large)
    if whole:
        json = with_values(json, {name: read_kept(db, n, id) or b"null" for name, id in ids.items()})
        return Event(seq, at, call, kind, json), len(json)
    sizes = {name: _kept_size(db, n, id) for name, id in ids.items()}
    return Event(seq, at, call, kind, json, sizes), len(json)


def _kept_size(db: sqlite3.Connection, n: int, id: str) -> int:
    (size,) = db.execute(queries()["kept_size"], {"n": n, "id": id}).fetchone() or (0,)
    return int(size)


def read_kept(db: sqlite3.Connection, n: int, id: str) -> bytes | None:
    """A large value."""
    row = db.execute(queries()["kept"], {"n": n, "id": id}).fetchone()
    return None if row is None else bytes(row[0])


def read_rows(db: sqlite3.Connection, query: str, **values: Any) -> list[Row]:
    """Rows of the index."""
    cursor = db.execute(queries()[query], values)
    names = [column[0] for column in cursor.description]
    return [to_row(dict(zip(names, line, strict=True))) for line in cursor]


def read_row(db: sqlite3.Connection, query: str, **values: Any) -> Row | None:
    """The first row of the index that fits."""
    return next(iter(read_rows(db, query, **values)), None)


def to_row(data: dict[str, Any]) -> Row:
    """A row of the index from its columns."""
    data["session"] = data.pop("session_id")
    data["background"] = bool(data["background"])
    return Row(**data)


def standing(db: sqlite3.Connection, n: int, row: Row) -> Row | None:
    """The row that has the id or the key of another."""
    return read_row(db, "call", id=row.id) or read_row(db, "call_by_key", n=n, key=row.key)
