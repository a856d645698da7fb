"""Whole sessions of an SQLite file: what is theirs, taken in from elsewhere, and deleted. Each is one transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

from toolcrib.store import Archive, Write
from toolcrib.store.codec import Stored, encode, split_large
from toolcrib.store.schema import queries
from toolcrib.store.sqlite.kept_values import keep
from toolcrib.store.sqlite.rollups import outlive, roll_all
from toolcrib.store.sqlite.writer import event_crc, insert_row


def belongings(db: sqlite3.Connection, n: int) -> tuple[dict[str, int], list[str]]:
    """The cursors of a session, and the ids of its large values."""
    sql, values = queries(), {"n": n}
    return dict(db.execute(sql["cursors_of"], values)), [id for (id,) in db.execute(sql["kept_of"], values)]


def adopt(db: sqlite3.Connection, archive: Archive) -> bool:
    """Makes a session; False where its id or a call's is taken."""
    row, sql = archive.session, queries()
    values = {"id": row.id, "owner": row.owner, "revision": row.revision, "at": row.created_at, "used": row.updated_at}
    values["closed"] = archive.closed
    taken = any(db.execute("SELECT 1 FROM calls WHERE id = ?", (call.id,)).fetchone() for call in archive.rows)
    if taken or not db.execute(sql["adopt_session"], values).rowcount:
        return False
    (n,) = db.execute("SELECT n FROM sessions WHERE id = ?", (row.id,)).fetchone()
    for event in archive.events:
        insert_event(db, n, event.seq, (event.at, event.call, event.kind, Stored(event.json)))
    for call in archive.rows:
        insert_row(db, n, call)
    for id, content in archive.kept.items():
        keep(db, n, id, content)
    db.executemany(
        sql["move_cursor"], [{"n": n, "consumer": name, "seq": seq} for name, seq in archive.cursors.items()]
    )
    return True


def delete(db: sqlite3.Connection, session: str, tombstone: Write) -> bool:
    """Takes a session out and writes its tombstone; its lines are deleted later, in pieces, as after a sweep."""
    sql = queries()
    row = db.execute("SELECT n, owner FROM sessions WHERE id = ?", (session,)).fetchone()
    grave = db.execute(sql["session_head"], {"id": tombstone.session}).fetchone()
    if row is None or grave is None or db.execute(sql["busy"], {"n": row[0]}).fetchone():
        return False
    values = {"n": row[0]}
    roll_all(db)
    outlive(db, *row)
    db.execute("DELETE FROM sessions WHERE n = :n", values)
    db.execute(sql["keep_swept"], values)
    db.execute(sql["delete_open"], values)
    for seq, draft in enumerate(tombstone.events, grave[1] + 1):
        insert_event(db, grave[0], seq, draft)
    return True


def insert_event(db: sqlite3.Connection, n: int, seq: int, draft: Any) -> None:
    """Writes one line of a log."""
    at, call, kind, data = draft
    text, large = split_large(kind, data)
    for part in large.values():
        keep(db, n, part.id, part.json)
    key, names = (n << 32) + seq, encode({name: part.id for name, part in large.items()}).decode() if large else None
    crc = event_crc(key, at, call, kind, text, names)
    db.execute(queries()["insert_event"], (key, at, call, kind, text.decode(), names, crc))
