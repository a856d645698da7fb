"""Deleting old sessions from a Postgres database in pieces; any number of sweepers share the work."""

from __future__ import annotations

from toolcrib.store.postgres.connection import Connection, ConnectionPool
from toolcrib.store.schema import queries

PIECE = 5000
"""Lines that are deleted at once."""


async def sweep(pool: ConnectionPool, before: float, now: float, sender: str) -> list[tuple[int, str]]:
    """Takes old sessions out, then deletes what was theirs, each piece in its own transaction; numbers and ids."""
    sql, gone = queries("postgres"), list[tuple[int, str]]()
    while idle := await pool.fetch(sql["idle"], before, now, 100):
        numbers = [n for n, _ in idle]
        taken = await pool.run(lambda db, numbers=numbers: _take_out(db, numbers, before, now, sender))  # type: ignore[misc]
        if not taken:
            break  # another sweeper has them
        gone += taken
    await delete_swept(pool)
    await pool.fetch(sql["forget_rates"], now)
    return gone


async def delete_swept(pool: ConnectionPool) -> None:
    """Deletes what sessions that are gone have left."""
    while await pool.run(_delete_some):
        pass


async def _take_out(
    db: Connection, numbers: list[int], before: float, now: float, sender: str
) -> list[tuple[int, str]]:
    """Ends sessions at one blow, so that whoever opens one finds all or nothing."""
    sql = queries("postgres")
    async with db.transaction():
        mine = [n for (n,) in await db.fetch(sql["lock_idle"], numbers)]
        # A statement of its own, which sees what was written before the locks were taken.
        return [(n, id) for n, id in await db.fetch(sql["take_out"], mine, before, now, sender)]


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
