"""Usage: durable <full|normal> <in flight> <calls> <turns>. Calls a second of a `once` tool, and plain sqlite3's."""

import asyncio
import json
import sqlite3
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.probes.place import place
from bench.probes.tools import pay
from toolcrib import Crib, Session

ARGUMENTS = b'{"cents":500}'
# A durable call is committed twice: before its body runs, and when it is done.
COMMITS = 2


class Written(NamedTuple):
    """What our run left in its file."""

    schema: list[str]
    events: list[Any]
    calls: list[Any]


async def _calls(session: Session, count: int) -> None:
    for _ in range(count):
        result = await session.call("pay", ARGUMENTS)
        assert result.ok, result


async def _ours(url: str, width: int, calls: int) -> float:
    async with Crib([pay], store=url) as crib:
        # Four sessions of 16, which is what a session runs at once unless told otherwise.
        sessions = [await crib.open(f"s-{number}", owner="bench") for number in range(max(1, width // 16))]
        start = time.perf_counter()
        await asyncio.gather(*(_calls(sessions[n % len(sessions)], calls // width) for n in range(width)))
        return calls / (time.perf_counter() - start)


def _path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def _written(url: str) -> Written:
    db = sqlite3.connect(_path(url))
    try:
        found = db.execute(
            "SELECT sql FROM sqlite_master WHERE tbl_name IN ('events', 'calls') AND type IN ('table', 'index')"
            " AND sql IS NOT NULL"
        )
        schema = [sql for (sql,) in found]
        events = db.execute("SELECT key, at, call, kind, data, large, crc FROM events ORDER BY key").fetchall()
        return Written(schema, events, db.execute("SELECT * FROM calls ORDER BY accepted_seq").fetchall())
    finally:
        db.close()


def _raw(path: Path, sync: str, rows: Written, width: int) -> float:
    """The same rows, inserted with executemany, as many commits a call and as many calls a commit as ours at best."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    for sql in rows.schema:
        db.execute(sql)
    a_commit = width * len(rows.events) // len(rows.calls) // COMMITS
    start = time.perf_counter()
    for number in range(len(rows.events) // a_commit + 1):
        waits = sync == "full" or number % COMMITS == 0
        db.execute(f"PRAGMA synchronous = {'full' if waits else 'normal'}")
        db.execute("BEGIN IMMEDIATE")
        _insert(db, "events", rows.events[number * a_commit : (number + 1) * a_commit])
        if number % COMMITS == 0:
            first = number // COMMITS * width
            _insert(db, "calls", rows.calls[first : first + width])
        db.execute("COMMIT")
    seconds = time.perf_counter() - start
    assert db.execute("SELECT count(*) FROM events").fetchone()[0] == len(rows.events)
    db.close()
    return len(rows.calls) / seconds


def _insert(db: sqlite3.Connection, table: str, rows: list[Any]) -> None:
    if rows:
        db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _turn(sync: str, width: int, calls: int) -> tuple[float, float, float]:
    with place("sqlite") as url:
        ours = asyncio.run(_ours(f"{url}?sync={sync}", width, calls))
        rows = _written(url)
        raw = _raw(_path(url).with_name("raw.db"), sync, rows, width)
    return ours, raw, len(rows.events) / len(rows.calls)


def main(sync: str, width: int, calls: int, turns: int) -> None:
    """Ours and the plain driver by turns."""
    found = [_turn(sync, width, calls) for _ in range(turns)]
    ours, raw, events = (median(values) for values in zip(*found, strict=True))
    print(json.dumps({"calls_s": round(ours), "raw_s": round(raw), "events_a_call": round(events, 2), "calls": calls}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
