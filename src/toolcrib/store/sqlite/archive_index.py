"""The sessions of an SQLite file that are in the archive."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from toolcrib.errors import StoreError
from toolcrib.store import Archive, SessionRow
from toolcrib.store.archive_index import ArchivedSession, ArchiveIndex
from toolcrib.store.rollups import negated
from toolcrib.store.schema import queries
from toolcrib.store.sqlite import rollups
from toolcrib.store.sqlite.sessions import any_call, delete_piece, fill, values_of

T = TypeVar("T")


class FileArchiveIndex(ArchiveIndex):
    """Kept in the file itself; `write` does something in a transaction of the writer, `read` after what was put."""

    def __init__(
        self,
        write: Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]],
        read: Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]],
        forget: Callable[[str], None],
    ) -> None:
        self._write = write
        self._read = read
        self._forget = forget

    async def idle(self, before: float, limit: int, past: SessionRow | None = None) -> list[SessionRow]:
        """Sessions that may go, the one unused for longest first."""
        used, id = (float("-inf"), "") if past is None else (past.updated_at, past.id)
        values = {"before": before, "limit": limit, "used": used, "id": id}
        return [SessionRow(*row) for row in await self._read(lambda db: _rows(db, "archivable", values))]

    async def put_away(self, entries: Sequence[ArchivedSession]) -> list[str]:
        """Takes sessions out in one transaction; their lines are deleted later, in pieces, as after a sweep."""
        gone: list[str] = await self._write(lambda db: _put_away(db, entries))
        for id in gone:
            self._forget(id)
        return gone

    async def find(self, session: str) -> ArchivedSession | None:
        """An archived session."""
        rows = await self._read(lambda db: _rows(db, "find_archived", {"id": session}))
        return archived(rows[0]) if rows else None

    async def page(self, owner: str | None = None, after: str = "", limit: int = 1000) -> list[ArchivedSession]:
        """Archived sessions by their ids."""
        name, values = "archived" if owner is None else "archived_of", {"owner": owner, "after": after, "limit": limit}
        return [archived(row) for row in await self._read(lambda db: _rows(db, name, values))]

    async def bring_back(self, entry: ArchivedSession, archive: Archive) -> bool:
        """Makes the session in one transaction."""
        made: bool = await self._write(lambda db: _bring_back(db, entry, archive))
        return made


def archived(row: Sequence[Any]) -> ArchivedSession:
    """An archived session from its columns."""
    return ArchivedSession(SessionRow(*row[:6]), *row[6:])


def _rows(db: sqlite3.Connection, name: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    return db.execute(queries()[name], values).fetchall()


def _put_away(db: sqlite3.Connection, entries: Sequence[ArchivedSession]) -> list[str]:
    sql, gone = queries(), []
    rollups.roll_all(db)
    for entry in entries:
        row = entry.session
        values = {"id": row.id, "seq": row.seq, "used": row.updated_at, "revision": row.revision}
        values |= {"archived_at": entry.archived_at, "sha256": entry.sha256, "size": entry.size}
        taken = db.execute(sql["put_away"], values).fetchall()
        for (n,) in taken:
            rollups.outlive(db, [(n, row.owner)])
            for name in ("delete_session", "keep_swept", "delete_leases"):
                db.execute(sql[name], {"n": n})
            gone.append(row.id)
    return gone


def _bring_back(db: sqlite3.Connection, entry: ArchivedSession, archive: Archive) -> bool:
    sql, last = queries(), db.execute(queries()["last_unrolled"]).fetchone()[0]
    taken = db.execute(sql["take_archived"], {"id": entry.session.id, "sha256": entry.sha256}).fetchall()
    if not taken:
        return False
    while taken[0][0] and not delete_piece(db, taken[0][0]):
        pass
    made = db.execute(sql["readopt_session"], values_of(archive)).fetchall()
    if not made or any_call(db, archive):
        what = "a call of it" if made else "the session"
        raise StoreError(f"Session '{entry.session.id}' cannot come back from the archive: {what} is in the store")
    n = made[0][0]
    fill(db, n, archive)
    db.execute(sql["forget_unrolled"], {"id": last})
    rollups.outlive(db, [(n, archive.session.owner)], change=negated)
    return True
