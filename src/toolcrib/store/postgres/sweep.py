"""Deleting old sessions from a Postgres database in pieces; any number of sweepers share the work."""

from __future__ import annotations

from collections.abc import Callable

from toolcrib.store.postgres import rollups
from toolcrib.store.postgres.connection import Connection, ConnectionPool
from toolcrib.store.schema import queries

PIECE = 5000
"""Lines that are deleted at once."""


Gone = Callable[[int, list[tuple[int, str]]], None]
"""Told the number of a transaction, and the numbers and ids of the sessions that it took out."""


async def sweep(pool: ConnectionPool, before: float, now: float, writer: str, tell: Gone) -> int:
    """Takes old sessions out, then deletes what was theirs, each piece in its own transaction; how many."""
    sql, count = queries("postgres"), 0
    while idle := await pool.fetch(sql["idle"], before, now, 100):
        numbers = [n for n, _ in idle]
        number, gone = await pool.run(lambda db, numbers=numbers: _take_out(db, numbers, before, now, writer))  # type: ignore[misc]
        if not gone:
            break  # another sweeper has them
        tell(number, gone)
        count += len(gone)
    await delete_swept(pool)
    await pool.fetch(sql["forget_rates"], now)
    await pool.run(lambda db: rollups.forget(db, now))
    return count


async def delete_swept(pool: ConnectionPool) -> None:
    """Deletes what sessions that are gone have left."""
    while await pool.run(_delete_some):
        pass


async def _take_out(
    db: Connection, numbers: list[int], before: float, now: float, writer: str
) -> tuple[int, list[tuple[int, str]]]:
    """Ends sessions at one blow, so that whoever opens one finds all or nothing."""
    sql = queries("postgres")
    async with db.transaction():
        mine = [n for (n,) in await db.fetch(sql["lock_idle"], numbers)]
        tallies = await rollups.counted(db, mine)
        # A statement of its own, which sees what was written before the locks were taken.
        gone = [(n, id) for n, id in await db.fetch(sql["take_out"], mine, before, now)]
        await rollups.outlive(db, [tallies[n] for n, _ in gone])
        return await db.fetchval(sql["count_batch"], writer) if gone else 0, gone


async def _delete_some(db: Connection) -> bool:
    """One piece of what swept sessions left; False when nothing is left, or others are at it."""
    sql = queries("postgres")
    async with db.transaction():
        numbers = [n for (n,) in await db.fetch(sql["swept"])]
        for name in ("delete_events", "delete_calls"):
            if numbers and (await db.execute(sql[name], numbers, PIECE)) == f"DELETE {PIECE}":
                return True
        if numbers:
            await db.execute(sql["delete_rest"], numbers)
    return bool(numbers)
