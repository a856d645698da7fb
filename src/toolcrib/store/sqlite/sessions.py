"""Whole sessions of an SQLite file: what is theirs, taken in from elsewhere, and deleted. Each is one transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

from toolcrib.errors import StoreError
from toolcrib.store import Archive, Row, Write
from toolcrib.store.codec import Stored
from toolcrib.store.schema import queries
from toolcrib.store.sqlite.kept_values import keep
from toolcrib.store.sqlite.rollups import outlive, roll_all
from toolcrib.store.sqlite.writer import insert_row, line_of


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
    outlive(db, *row)
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


def take_out(db: sqlite3.Connection, values: dict[str, Any]) -> bool:
    """Ends a session at one blow, so that whoever opens it finds all or nothing; False if it is needed again."""
    owner = db.execute("SELECT owner FROM sessions WHERE n = :n", values).fetchone()
    roll_all(db)
    taken = db.execute(queries()["take_out"], values).rowcount > 0
    if taken:
        outlive(db, values["n"], owner[0])
        db.execute(queries()["keep_swept"], values)
        db.execute(queries()["delete_open"], values)
        db.execute(queries()["delete_leases"], values)
    return taken


def delete_some(db: sqlite3.Connection, n: int) -> bool:
    """One piece of what a swept session left; True when nothing is left."""
    for name in ("delete_calls", "delete_events"):
        deleted = db.execute(queries()[name], {"n": n}).rowcount
    if deleted:
        return False
    for name in ("delete_kept", "delete_cursors", "forget_swept"):
        db.execute(queries()[name], {"n": n})
    return True
