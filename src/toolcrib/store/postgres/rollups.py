"""Roll-ups in a Postgres database. Of several nodes one rolls up at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from toolcrib.store import OWNER
from toolcrib.store.postgres.connection import Connection
from toolcrib.store.rollups import (
    HOURS_KEPT_S,
    MINUTES_KEPT_S,
    CountedCall,
    Sum,
    Tallies,
    Tally,
    TallyFilter,
    TallyKey,
    Times,
    add,
    again,
    by_hours,
    cubes,
    lines_of,
    merged,
    tallied,
    unpacked,
)
from toolcrib.store.schema import queries

PIECE = 2000
"""Lines of the log that are rolled up at once."""


async def roll(db: Connection, limit: int = PIECE) -> int:
    """Rolls up what comes next; how many lines that was, and 0 while another node does it."""
    async with db.transaction():
        if not await db.fetchval(queries("postgres")["one_rolls"]):
            return 0
        return await _roll(db, limit, None)


async def _roll(db: Connection, limit: int, sessions: list[int] | None) -> int:
    sql = queries("postgres")
    rows = await db.fetch(sql["unrolled"], limit, sessions)
    if rows:
        await _add(db, cubes(await _tallies(db, rows)))
        await db.execute(sql["rolled"], [row[0] for row in rows])
    return len(rows)


async def _add(db: Connection, to: Iterable[tuple[Times, Tallies]]) -> None:
    """Adds to what was counted; whoever does holds the lock of all who roll up, so that nothing changes in between."""
    sql = queries("postgres")
    items = sorted(line for cube, tallies in to for line in lines_of(cube, tallies))
    if not items:
        return
    columns = [list(column) for column in zip(*items, strict=True)]
    stored = await db.fetch(sql["rolled_before"], *columns[:7])
    for place, slots in enumerate(stored):
        if slots[0] is not None:
            columns[9][place] = merged(slots[0], columns[9][place])
    await db.execute(sql["roll_up"], *columns)


async def _tallies(db: Connection, rows: Sequence[Any]) -> Tallies:
    tallies: Tallies = {}
    waits = await _waits(db, [row for row in rows if row[9] and row[4] in ("done", "answered")])
    for _, owner, seq, at, kind, data, _, _, accepted, _, session in rows:
        if owner is None or owner == OWNER or seq is None:
            continue
        facts = CountedCall() if accepted is None else CountedCall.read(accepted)
        facts = facts._replace(waits_since=waits.get((session, seq)))
        for tally in tallied(owner, at, kind, data, facts):
            add(tallies, *tally)
    return tallies


async def _waits(db: Connection, rows: Sequence[Any]) -> dict[tuple[int, int], float]:
    """Since when calls had waited that waited until one of these lines."""
    if not rows:
        return {}
    columns = [[row[place] for row in rows] for place in (10, 7, 2, 6)]
    lasts = await db.fetch(queries("postgres")["last_waits"], *columns)
    return {(row[10], row[2]): last[1] for row, last in zip(rows, lasts, strict=True) if last[0] == "waiting"}


async def counted(db: Connection, numbers: list[int]) -> dict[int, Tallies]:
    """Rolls up all of these sessions, which may be about to go in the same transaction; what each has counted."""
    await db.execute(queries("postgres")["wait_to_roll"])
    while await _roll(db, PIECE, numbers):
        pass
    lines: dict[int, list[Any]] = {n: [] for n in numbers}
    for row in await db.fetch(queries("postgres")["counted"], numbers):
        lines[row[10]].append(row)
    return {n: by_hours(await _tallies(db, rows)) for n, rows in lines.items()}


async def outlive(db: Connection, gone: Iterable[Tallies]) -> None:
    """Keeps what sessions that are gone have counted, together."""
    together: Tallies = {}
    for tallies in gone:
        for key, more in tallies.items():
            add(together, key, more)
    await _add(db, [("gone", together)])


async def read(db: Connection, where: TallyFilter) -> list[Tally]:
    """The tallies that are wanted."""
    sql, parts = queries("postgres"), where.narrowed
    more = " ".join(sql[f"tallies_of_{name}"].format(place=place) for place, name in enumerate(parts, 3))
    query = sql["tallies"].format(cube=where.cube, name=where.by, more=more)
    rows = await db.fetch(query, where.since, where.until, *(getattr(where, name) for name in parts))
    return [
        Tally(at, what, name, code, count, total, unpacked(slots)) for at, what, name, code, count, total, slots in rows
    ]


async def rows_of(db: Connection, cube: Times, since: int) -> Tallies:
    """All tallies of a cube."""
    rows = await db.fetch(queries("postgres")["rollups"], cube, float(since))
    return {TallyKey(*row[:6]): Sum(row[6], row[7], unpacked(row[8])) for row in map(tuple, rows)}


async def forget(db: Connection, now: float) -> None:
    """Deletes what is older than anybody looks."""
    await db.execute(queries("postgres")["forget_rollups"], now - MINUTES_KEPT_S, now - HOURS_KEPT_S)


async def begin_anew(db: Connection) -> None:
    """Puts all of the log on the list of what is to be rolled up; what sessions that are gone had counted stays."""
    sql = queries("postgres")
    async with db.transaction():
        await db.execute(sql["wait_to_roll"])
        await db.execute("LOCK TABLE unrolled IN EXCLUSIVE MODE")
        gone = await rows_of(db, "gone", 0)
        for name in ("clear_rollups", "clear_unrolled", "unroll"):
            await db.execute(sql[name])
        await _add(db, again(gone))
