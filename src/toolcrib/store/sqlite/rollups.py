"""Roll-ups in an SQLite file. What writes runs in the writer's thread, inside its transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from toolcrib.store import OWNER
from toolcrib.store.codec import encode
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

PIECE = 1000
"""Lines of the log that are rolled up at once: other writers wait for some milliseconds."""


def roll(db: sqlite3.Connection, limit: int = PIECE) -> int:
    """Rolls up what comes next; how many lines that was."""
    sql = queries()
    rows = db.execute(sql["unrolled"], {"limit": limit}).fetchall()
    if rows:
        _add(db, cubes(_tallies(db, rows)))
        db.execute(sql["rolled"], {"id": rows[-1][0]})
    return len(rows)


def _add(db: sqlite3.Connection, to: Iterable[tuple[Times, Tallies]]) -> None:
    db.create_function("merged", 2, merged, deterministic=True)
    for cube, tallies in to:
        db.executemany(queries()["roll_up"], lines_of(cube, tallies))


def _tallies(db: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> Tallies:
    tallies: Tallies = {}
    for _, owner, key, at, kind, data, call, first, accepted, has_asked in rows:
        if owner is None or owner == OWNER or key is None:
            continue
        facts = CountedCall() if accepted is None else CountedCall.read(accepted)
        if has_asked and kind in ("done", "answered"):
            values = {"from": first, "to": key, "call": call}
            last = db.execute(queries()["last_wait"], values).fetchone()
            facts = facts._replace(waits_since=last[1]) if last and last[0] == "waiting" else facts
        for tally in tallied(owner, at, kind, data, facts):
            add(tallies, *tally)
    return tallies


def outlive(
    db: sqlite3.Connection, sessions: Iterable[tuple[int, str]], change: Callable[[Tallies], Tallies] = dict
) -> None:
    """Keeps what sessions have counted, all of which is rolled up: their lines are about to go."""
    together: Tallies = {}
    for n, owner in sessions:
        rows = db.execute(queries()["counted"], {"n": n, "owner": owner}).fetchall()
        for key, more in by_hours(_tallies(db, rows)).items():
            add(together, key, more)
    _add(db, [("gone", change(together))])


def roll_all(db: sqlite3.Connection) -> None:
    """Rolls up all that there is."""
    while roll(db):
        pass


def read(db: sqlite3.Connection, where: TallyFilter) -> list[Tally]:
    """The tallies that are wanted."""
    tools = None if where.tools is None else encode(list(where.tools)).decode()
    values = {"since": where.since, "until": where.until, "owner": where.owner, "agent": where.agent, "tools": tools}
    more = " ".join(queries()[f"tallies_of_{name}"] for name in where.narrowed)
    query = queries()["tallies"].format(cube=where.cube, name=where.by, more=more)
    return [
        Tally(at, what, name, code, count, total, unpacked(slots))
        for at, what, name, code, count, total, slots in db.execute(query, values)
    ]


def left(db: sqlite3.Connection) -> int:
    """How many lines are not rolled up."""
    return int(db.execute(queries()["unrolled_count"]).fetchone()[0])


def rows_of(db: sqlite3.Connection, cube: Times, since: int) -> Tallies:
    """All tallies of a cube."""
    rows = db.execute(queries()["rollups"], {"cube": cube, "since": since})
    return {TallyKey(*row[:6]): Sum(row[6], row[7], unpacked(row[8])) for row in rows}


def forget(db: sqlite3.Connection, now: float) -> None:
    """Deletes what is older than anybody looks."""
    db.execute(queries()["forget_rollups"], {"minutes": now - MINUTES_KEPT_S, "hours": now - HOURS_KEPT_S})


def begin_anew(db: sqlite3.Connection) -> None:
    """Puts all of the log on the list of what is to be rolled up; what sessions that are gone had counted stays."""
    sql, gone = queries(), rows_of(db, "gone", 0)
    for statement in (sql["clear_rollups"], "DELETE FROM unrolled", sql["unroll"]):
        db.execute(statement)
    _add(db, again(gone))
