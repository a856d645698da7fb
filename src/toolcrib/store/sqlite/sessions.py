"""Whole sessions of an SQLite file: what is theirs, taken in from elsewhere, and deleted. Each is one transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any

from toolcrib.errors import StoreError
from toolcrib.store import Archive, Row, Write
from toolcrib.store.codec import Stored
from toolcrib.store.schema import queries
from toolcrib.store.sqlite.kept_values import keep
from toolcrib.store.sqlite.rollups import outlive, roll_all
from toolcrib.store.sqlite.writer import insert_row, line_of

PIECE = 5000
"""Lines of the log that are deleted at once, as the statement says."""

BUSY_S = 0.004
"""After so much time of a processor, a transaction that takes sessions out, or deletes what they left, ends."""


def belongings(db: sqlite3.Connection, n: int) -> tuple[dict[str, int], list[str]]:
    """The cursors of a session, and the ids of its large values."""
    sql, values = queries(), {"n": n}
    return dict(db.execute(sql["cursors_of"], values)), [id for (id,) in db.execute(sql["kept_of"], values)]


def adopt(db: sqlite3.Connection, archive: Archive) -> bool:
    """Makes a session; False where its id or a call's is taken."""
    if any_call(db, archive) or not db.execute(queries()["adopt_session"], values_of(archive)).rowcount:
        return False
    fill(db, number(db, archive.session.id), archive)
    return True


def any_call(db: sqlite3.Connection, archive: Archive) -> bool:
    """Whether a call of one of its ids is in the store."""
    return any(db.execute("SELECT 1 FROM calls WHERE id = ?", (call.id,)).fetchone() for call in archive.rows)


def values_of(archive: Archive) -> dict[str, Any]:
    """What the row of a session says."""
    row = archive.session
    values = {"id": row.id, "owner": row.owner, "revision": row.revision, "at": row.created_at, "used": row.updated_at}
    return {**values, "closed": archive.closed}


def fill(db: sqlite3.Connection, n: int, archive: Archive) -> None:
    """Writes all that is a session's but its row."""
    for event in archive.events:
        insert_event(db, n, event.seq, (event.at, event.call, event.kind, Stored(event.json)))
    for call in archive.rows:
        insert_row(db, n, call)
    for id, content in archive.kept.items():
        keep(db, n, id, content)
    marks = [{"n": n, "consumer": name, "seq": seq} for name, seq in archive.cursors.items()]
    db.executemany(queries()["move_cursor"], marks)


def delete(db: sqlite3.Connection, session: str, tombstone: Write) -> bool:
    """Takes a session out and writes its tombstone; its lines are deleted later, in pieces, as after a sweep."""
    sql = queries()
    row = db.execute("SELECT n, owner FROM sessions WHERE id = ?", (session,)).fetchone()
    grave = db.execute(sql["session_head"], {"id": tombstone.session}).fetchone()
    if row is None or grave is None or db.execute(sql["busy"], {"n": row[0]}).fetchone():
        return False
    values = {"n": row[0]}
    roll_all(db)
    outlive(db, [row])
    db.execute("DELETE FROM sessions WHERE n = :n", values)
    db.execute(sql["keep_swept"], values)
    db.execute(sql["delete_open"], values)
    for seq, draft in enumerate(tombstone.events, grave[1] + 1):
        insert_event(db, grave[0], seq, draft)
    return True


def insert_event(db: sqlite3.Connection, n: int, seq: int, draft: Any) -> None:
    """Writes one line of a log."""
    db.execute(queries()["insert_event"], line_of(db, (n << 32) + seq, draft))


def number(db: sqlite3.Connection, session: str) -> int:
    """The number by which the tables know a session; -1 where there is none."""
    row = db.execute("SELECT n FROM sessions WHERE id = ?", (session,)).fetchone()
    return -1 if row is None else int(row[0])


def known(db: sqlite3.Connection, session: str) -> int:
    """The same of a session that there has to be."""
    n = number(db, session)
    if n < 0:
        raise StoreError(f"There is no session '{session}'")
    return n


def rebuild(db: sqlite3.Connection, session: str, rows: list[Row], revision: int | None) -> None:
    """Exchanges the rows of a session."""
    n = known(db, session)
    db.execute(queries()["delete_index"], {"n": n})
    db.execute(queries()["set_revision"], {"n": n, "revision": revision})
    for row in rows:
        db.execute(queries()["delete_call"], {"id": row.id})
        if not insert_row(db, n, row):
            raise StoreError(f"Two calls of session '{session}' have the key '{row.key}'")


def take_out(db: sqlite3.Connection, numbers: Sequence[int], values: dict[str, Any]) -> tuple[int, int]:
    """Ends some sessions at one blow, so that whoever opens one finds all or nothing; at how many it looked, and took.

    One that is needed again stays. Others wait for it, so it stops after some milliseconds.
    """
    stop, sql, looked, gone = time.thread_time() + BUSY_S, queries(), 0, list[tuple[int, str]]()
    roll_all(db)
    for n in numbers:
        owner = db.execute("SELECT owner FROM sessions WHERE n = :n", {"n": n}).fetchone()
        if db.execute(sql["take_out"], {**values, "n": n}).rowcount > 0:
            gone.append((n, owner[0]))
        looked += 1
        if time.thread_time() > stop:
            break
    outlive(db, gone)
    for n, _ in gone:
        for name in ("keep_swept", "delete_open", "delete_leases"):
            db.execute(sql[name], {"n": n})
    return looked, len(gone)


def delete_some(db: sqlite3.Connection, numbers: Sequence[int]) -> int:
    """Deletes what swept sessions left, for some milliseconds; of how many nothing is left now."""
    stop, done = time.thread_time() + BUSY_S, 0
    for n in numbers:
        if not delete_piece(db, n):
            break
        done += 1
        if time.thread_time() > stop:
            break
    return done


def delete_piece(db: sqlite3.Connection, n: int) -> bool:
    """One piece of what a swept session left; True when nothing is left."""
    for name in ("delete_calls", "delete_events"):
        deleted = db.execute(queries()[name], {"n": n}).rowcount
    if deleted >= PIECE or db.execute(queries()["left_of_swept"], {"n": n}).fetchone():
        return False
    for name in ("delete_kept", "delete_cursors", "forget_swept"):
        db.execute(queries()[name], {"n": n})
    return True
