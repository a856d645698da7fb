"""A Postgres database as the source of a backup, and as the place of a restore."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from toolcrib.errors import StoreError
from toolcrib.store.backup import PIECE, TABLES, Rows
from toolcrib.store.postgres.connection import BROKEN, MIGRATE_S, Connection, DatabaseAddress, hang_up
from toolcrib.store.postgres.migrations import migrate
from toolcrib.store.schema import migrations, queries


@asynccontextmanager
async def _connected(address: DatabaseAddress) -> AsyncIterator[Connection]:
    connection = await address.connect(MIGRATE_S)
    try:
        yield connection
    except BROKEN as error:
        raise StoreError(f"{address.shown}: {error}") from None
    finally:
        await hang_up(connection)


@asynccontextmanager
async def source(url: str) -> AsyncIterator[_DatabaseSource]:
    """The database as of one snapshot, which no writer waits for."""
    address = DatabaseAddress(url)
    async with _connected(address) as db:
        known = await db.fetchval("SELECT to_regclass('schema_version')")
        if known is None or await db.fetchval("SELECT version FROM schema_version") != migrations("postgres")[-1][0]:
            raise StoreError(
                f"{address.shown} has another schema than this program: run `toolcrib store migrate` first"
            )
        async with db.transaction(isolation="repeatable_read", readonly=True):
            yield _DatabaseSource(db)


class _DatabaseSource:
    kind = "postgresql"

    def __init__(self, db: Connection) -> None:
        self._db = db

    async def counts(self) -> dict[str, int]:
        """How many rows each table has, of sessions that are there."""
        sql = queries("postgres")
        return {
            table: await self._db.fetchval(f"SELECT count(*) FROM ({sql[f'backup_{table}']}) rows") for table in TABLES
        }

    async def rows(self, table: str) -> AsyncIterator[Rows]:
        """The rows of a table, in pieces."""
        cursor = await self._db.cursor(queries("postgres")[f"backup_{table}"])
        while rows := await cursor.fetch(PIECE if table != "kept" else 8):
            yield [_packed(table, list(row)) for row in rows]


def _packed(table: str, row: list[Any]) -> list[Any]:
    return [*row[:-1], base64.b64encode(row[-1]).decode()] if table == "kept" else row


@asynccontextmanager
async def target(url: str, force: bool) -> AsyncIterator[_DatabaseTarget]:
    """An empty schema, filled in one transaction."""
    address, sql = DatabaseAddress(url), queries("postgres")
    async with _connected(address) as db:
        await migrate(db, address)
        async with db.transaction():
            await db.execute(sql["lock_for_restore"])
            if await db.fetchval(sql["in_use"], address.lease):
                raise StoreError(f"{address.shown} is in use: stop what uses it first")
            if await db.fetchval(sql["any_session"]) and not force:
                raise StoreError(f"{address.shown} is not empty: choose another place, or write over it with --force")
            await db.execute(sql["empty"])
            yield _DatabaseTarget(db)
            await db.execute(sql["go_on_counting"])


class _DatabaseTarget:
    def __init__(self, db: Connection) -> None:
        self._db = db
        self._owners: dict[int, str] = {}

    async def put(self, table: str, rows: Rows) -> None:
        """Takes rows of a table."""
        columns = list(TABLES[table])
        if table == "kept":
            rows = [[n, id, base64.b64decode(text)] for n, id, text in rows]
        elif table == "calls":
            rows, columns = [self._call(row) for row in rows], [*columns, "owner", "queued_at"]
        elif table == "events":
            await self._count(rows)
        elif table == "sessions":
            self._owners |= {n: owner for n, _, owner, *_ in rows}
            rows = [[*row[:-1], bool(row[-1])] for row in rows]
        elif table == "archived":
            rows, columns = [[*row, 0] for row in rows], [*columns, "n"]
        await self._db.copy_records_to_table(table, records=[tuple(row) for row in rows], columns=columns)

    def _call(self, row: list[Any]) -> list[Any]:
        """A call that nobody runs, with what only Postgres keeps beside."""
        values = dict(zip(TABLES["calls"], row, strict=True))
        values |= {"worker": None, "background": bool(values["background"])}
        queued_at = time.time() if values["state"] == "queued" else None
        return [*values.values(), self._owners[values["session"]], queued_at]

    async def _count(self, rows: Rows) -> None:
        """The last event of each session, and the last that belongs to no call, stand in its row."""
        ends: dict[int, list[int]] = {}
        for n, seq, _, call, *_ in rows:
            end = ends.setdefault(n, [0, 0])
            end[0] = max(end[0], seq)
            end[1] = max(end[1], 0 if call is not None else seq)
        columns = [list(column) for column in zip(*((n, *end) for n, end in ends.items()), strict=True)]
        await self._db.execute(queries("postgres")["restore_ends"], *columns)
