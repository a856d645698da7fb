"""Usage: rawpg <in flight> <seconds> <commits>. What plain asyncpg reaches with the rows of our calls.

A call is three commits, as ours is: its row and its first event, then its start and its end, each an event and an
update of the row. Two connections, as an API node and a worker have; each takes half of what is in flight at one blow.
Then one call alone, a commit at a time, and one commit that tells a listener.
"""

import asyncio
import itertools
import json
import sys
import time
from typing import Any, NamedTuple

import asyncpg

from bench.probes.cluster.measures import lags
from bench.probes.cluster.node import node, store_url

WRITERS = 2
WARM = 20
CHANGED = ("state", "attempt", "worker", "done_seq")


class Sample(NamedTuple):
    """A call of ours as it stands in the database."""

    call: dict[str, Any]
    events: list[dict[str, Any]]
    types: dict[str, dict[str, str]]


async def _sample() -> Sample:
    """Makes one call, and reads what it left."""
    async with node(work=True) as crib:
        session = await crib.open("sample", owner="bench")
        result = await session.call("echo", {"n": 1})
        assert result.ok, result
    db = await asyncpg.connect(store_url())
    try:
        call = await db.fetchrow("SELECT * FROM calls LIMIT 1")
        events = await db.fetch("SELECT * FROM events WHERE call = $1 ORDER BY seq", call["id"])
        types = {table: await _types(db, table) for table in ("calls", "events")}
        await db.execute("TRUNCATE calls, events")
    finally:
        await db.close()
    return Sample(dict(call), [dict(event) for event in events], types)


async def _types(db: Any, table: str) -> dict[str, str]:
    found = await db.fetch(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        table,
    )
    return dict(found)


class Writer:
    """One connection, and the three statements of a batch, each a transaction of its own."""

    def __init__(self, db: Any, sample: Sample, number: int) -> None:
        self.done = 0
        self._db = db
        self._sample = sample
        self._number = number
        self._ids = itertools.count()
        self._seqs = itertools.count(1)
        events = self._insert("events", 1)
        after = len(sample.types["events"]) + 1
        self._first = f"WITH e AS ({events}) {self._insert('calls', after)}"
        changed = {"id": "text"} | {name: sample.types["calls"][name] for name in CHANGED}
        self._next = (
            f"WITH e AS ({events}) UPDATE calls c SET {', '.join(f'{name} = u.{name}' for name in CHANGED)} "
            f"FROM unnest({_arrays(changed, after)}) u({', '.join(changed)}) WHERE c.id = u.id"
        )

    def _insert(self, table: str, first: int) -> str:
        types = self._sample.types[table]
        return f"INSERT INTO {table} ({', '.join(types)}) SELECT * FROM unnest({_arrays(types, first)})"

    async def batch(self, count: int) -> None:
        """So many calls, from their acceptance to their end."""
        ids = [f"raw-{self._number}-{next(self._ids)}" for _ in range(count)]
        call = self._sample.call
        rows = [{**call, "id": id, "session": self._number, "state": "queued", "done_seq": None} for id in ids]
        await self._db.execute(self._first, *self._events(0, ids), *_columns(rows))
        for place, state in ((1, "running"), (2, "done")):
            changes = [ids, [state] * count, [1] * count, ["w-raw"] * count, [None if place == 1 else 3] * count]
            await self._db.execute(self._next, *self._events(place, ids), *changes)
        self.done += count

    async def first(self) -> None:
        """One call's acceptance alone."""
        id = f"raw-{self._number}-{next(self._ids)}"
        row = {**self._sample.call, "id": id, "session": self._number, "state": "queued", "done_seq": None}
        await self._db.execute(self._first, *self._events(0, [id]), *_columns([row]))

    def _events(self, place: int, ids: list[str]) -> list[list[Any]]:
        event = self._sample.events[place]
        return _columns([{**event, "call": id, "session": self._number, "seq": next(self._seqs)} for id in ids])


def _arrays(types: dict[str, str], first: int) -> str:
    return ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(types.values(), first))


def _columns(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [[row[name] for row in rows] for name in rows[0]]


async def _for(seconds: float, writer: Writer, count: int) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        await writer.batch(count)


async def _timed(do: Any, times: int) -> dict[str, float]:
    found = []
    for _ in range(WARM + times):
        start = time.perf_counter()
        await do()
        found.append(time.perf_counter() - start)
    return lags(found[WARM:])


async def _heard(times: int, writer: Writer, db: Any) -> dict[str, float]:
    """From a commit that also notifies to whoever listens in another connection."""
    listener = await asyncpg.connect(store_url())
    heard = asyncio.Event()
    await listener.add_listener("raw", lambda *_: heard.set())

    async def once() -> None:
        heard.clear()
        async with db.transaction():
            await writer.first()
            await db.execute("SELECT pg_notify('raw', 'x')")
        await heard.wait()

    try:
        return await _timed(once, times)
    finally:
        await listener.close()


async def main(width: int, seconds: float, commits: int) -> None:
    """Many in flight first, then one at a time."""
    sample = await _sample()
    databases = [await asyncpg.connect(store_url()) for _ in range(WRITERS)]
    writers = [Writer(db, sample, -number) for number, db in enumerate(databases, 1)]
    await asyncio.gather(*(_for(seconds / 3, writer, width // WRITERS) for writer in writers))
    before, start = sum(writer.done for writer in writers), time.perf_counter()
    await asyncio.gather(*(_for(seconds, writer, width // WRITERS) for writer in writers))
    found: dict[str, Any] = {
        "calls_s": round((sum(writer.done for writer in writers) - before) / (time.perf_counter() - start))
    }
    if commits:
        found["commit_ms"] = await _timed(writers[0].first, commits)
        found["notify_ms"] = await _heard(commits, writers[0], databases[0])
    for db in databases:
        await db.close()
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
