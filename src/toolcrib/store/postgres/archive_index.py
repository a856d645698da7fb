"""The sessions of a Postgres database that are in the archive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from toolcrib.errors import StoreError
from toolcrib.store import Archive, SessionRow
from toolcrib.store.archive_index import ArchivedSession, ArchiveIndex
from toolcrib.store.postgres import rollups
from toolcrib.store.postgres.connection import Connection
from toolcrib.store.postgres.sessions import fill, values_of
from toolcrib.store.rollups import negated
from toolcrib.store.schema import queries

Run = Callable[[Callable[[Connection], Awaitable[Any]]], Awaitable[Any]]
"""Does something with a connection of its own."""


class DatabaseArchiveIndex(ArchiveIndex):
    """Kept in the database; `gone` is told the number of a transaction and the sessions that it took out."""

    def __init__(
        self,
        run: Run,
        flush: Callable[[], Awaitable[None]],
        writer: Callable[[], str],
        gone: Callable[[int, list[tuple[int, str]]], None],
        sql: Callable[[], dict[str, str]],
    ) -> None:
        self._sql = sql
        self._run = run
        self._flush = flush
        self._writer = writer
        self._gone = gone

    async def _rows(self, name: str, *values: Any) -> list[Any]:
        rows: list[Any] = await self._run(lambda db: db.fetch(queries("postgres")[name], *values))
        return rows

    async def idle(self, before: float, limit: int, past: SessionRow | None = None) -> list[SessionRow]:
        """Sessions that may go, the one unused for longest first."""
        await self._flush()
        place = (float("-inf"), "") if past is None else (past.updated_at, past.id)
        return [SessionRow(*row) for row in await self._rows("archivable", before, *place, limit)]

    async def put_away(self, entries: Sequence[ArchivedSession]) -> list[str]:
        """Takes sessions out in one transaction; their lines are deleted later, in pieces, as after a sweep."""
        number, gone = await self._run(lambda db: _put_away(db, entries, self._writer()))
        if gone:
            self._gone(number, gone)
        return [id for _, id in gone]

    async def find(self, session: str) -> ArchivedSession | None:
        """An archived session."""
        rows = await self._rows("find_archived", session)
        return _archived(rows[0]) if rows else None

    async def page(self, owner: str | None = None, after: str = "", limit: int = 1000) -> list[ArchivedSession]:
        """Archived sessions by their ids."""
        return [_archived(row) for row in await self._rows("archived", owner, after, limit)]

    async def bring_back(self, entry: ArchivedSession, archive: Archive) -> bool:
        """Makes the session in one transaction."""
        made: bool = await self._run(lambda db: _bring_back(db, self._sql(), entry, archive))
        return made


def _archived(row: Sequence[Any]) -> ArchivedSession:
    columns = tuple(row)
    return ArchivedSession(SessionRow(*columns[:6]), *columns[6:])


async def _put_away(
    db: Connection, entries: Sequence[ArchivedSession], writer: str
) -> tuple[int, list[tuple[int, str]]]:
    sql = queries("postgres")
    ids, seqs = [entry.session.id for entry in entries], [entry.session.seq for entry in entries]
    facts = ([getattr(entry, name) for entry in entries] for name in ("archived_at", "sha256", "size"))
    async with db.transaction():
        mine = [n for (n,) in await db.fetch(sql["lock_archivable"], ids, seqs)]
        tallies = await rollups.counted(db, mine)
        # A statement of its own, which sees what was written before the locks were taken.
        gone = [(n, id) for n, id in await db.fetch(sql["put_away"], mine, ids, seqs, *facts)]
        await rollups.outlive(db, [tallies[n] for n, _ in gone])
        return await db.fetchval(sql["count_batch"], writer) if gone else 0, gone


async def _bring_back(db: Connection, sql: dict[str, str], entry: ArchivedSession, archive: Archive) -> bool:
    row = entry.session
    async with db.transaction():
        before = await db.fetchval(sql["take_archived"], row.id, entry.sha256)
        if before is None:
            return False
        await db.execute(sql["delete_remains"], before)
        n = await db.fetchval(sql["readopt_session"], *values_of(archive))
        if n is None or await db.fetchval(sql["any_call"], [call.id for call in archive.rows]):
            what = "the session" if n is None else "a call of it"
            raise StoreError(f"Session '{row.id}' cannot come back from the archive: {what} is in the store")
        await fill(db, n, archive)
        await db.execute(sql["forget_unrolled"], n)
        await rollups.outlive(db, [negated(tallies) for tallies in (await rollups.counted(db, [n])).values()])
    return True
