"""Whether sweeping keeps up: sessions end at a steady rate and are swept soon after, while somebody else writes.

`python -m bench.retention --store sqlite --rate 100 --seconds 60` prints one line for each slice of the time: sessions
made and swept a second, rows and dead rows of the tables, the size of the database, and how long the writes of others
took. What is to be seen is that no column but the time grows.
"""

import argparse
import asyncio
import math
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.events import Event, Opened
from toolcrib.store import Archive, Row, SessionRow, Store, Write, draft, open_store

TABLES = ("sessions", "swept", "events", "calls", "unrolled")
AGE_S = 2.0
"""How long a session stays after its end."""

OPENED = b'{"owner":"ada","namespaces":["shop"],"tools":["shop.look"],"restored":false}'
ACCEPTED = b'{"tool":"shop.look","label":"Look","args":{"order":"A-7"},"digest":"%s","effect":"read"}' % (b"0" * 64)
DONE = b'{"ok":true,"data":{"state":"sent","note":"%s"},"duration_ms":3.0}' % (b"x" * 200)

OTHERS_S = 0.02
"""How often somebody else writes."""


class Slice(NamedTuple):
    """What was seen in one piece of the time."""

    at: float
    made: float
    swept: float
    rows: int
    dead: int
    mb: float
    cpu: float
    p50_ms: float
    p99_ms: float


class Load:
    """Sessions that end, a sweeper, and somebody else who writes, over one store."""

    def __init__(self, store: Store, rate: float) -> None:
        self.store = store
        self.rate = rate
        self.made = 0
        self.swept = 0
        self.waits: list[float] = []

    async def make(self) -> None:
        """Sessions with a call each, at the rate or as fast as it goes."""
        began = time.time()
        while True:
            due = math.ceil((time.time() - began) * self.rate)
            if self.made < due:
                await self.store.adopt(ended(self.made, time.time()))
                self.made += 1
            else:
                await asyncio.sleep(1 / self.rate)

    async def sweep(self) -> None:
        """What ended long enough ago, once a second."""
        while True:
            now = time.time()
            self.swept += await self.store.sweep(now - AGE_S, now)
            await asyncio.sleep(1.0)

    async def write(self) -> None:
        """What others notice of it."""
        await self.store.open("toolcrib.others", "toolcrib", time.time())
        while True:
            began = time.perf_counter()
            await self.store.commit(Write("toolcrib.others", [draft(time.time(), None, Opened("bob", (), [], True))]))
            self.waits.append(time.perf_counter() - began)
            await asyncio.sleep(OTHERS_S)


def ended(number: int, at: float) -> Archive:
    """A session with one call that ended now."""
    id = f"s-{number:09}-{at:.0f}"
    call = f"c-{id}"
    events = [
        Event(1, at, None, "opened", OPENED),
        Event(2, at, call, "accepted", ACCEPTED),
        Event(3, at, call, "done", DONE),
    ]
    row = Row(call, id, "shop.look", "read", "done", 1, accepted_at=at, accepted_seq=2, done_seq=3)
    return Archive(SessionRow(id, "ada", 3, 0, at, at), events, [row], {"ui": 3}, {})


def percentile(values: list[float], part: float) -> float:
    """The value below which that part of them is, in milliseconds; 0 of none."""
    ordered = sorted(values)
    return 1000 * ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0


Sizes = Callable[[], Awaitable[tuple[int, int, float]]]
"""Rows, dead rows and megabytes of a database."""


@asynccontextmanager
async def sqlite() -> AsyncIterator[tuple[str, Sizes]]:
    """A file, of which the pages that nothing uses count as dead."""
    import sqlite3
    from contextlib import closing

    with tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as folder:
        path = Path(folder) / "log.db"

        async def sizes() -> tuple[int, int, float]:
            with closing(sqlite3.connect(path)) as db:
                rows = sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)
                free = db.execute("PRAGMA freelist_count").fetchone()[0]
            return rows, free, path.stat().st_size / 1e6

        yield f"sqlite:///{path}", sizes


@asynccontextmanager
async def postgres() -> AsyncIterator[tuple[str, Sizes]]:
    """A server of its own, as autovacuum leaves it."""
    import asyncpg

    from bench.servers import servers

    with servers() as running, running.database("retention") as url:
        db: Any = await asyncpg.connect(url)

        async def sizes() -> tuple[int, int, float]:
            counts = [await db.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES]
            dead = await db.fetchval("SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables")
            return sum(counts), dead, await db.fetchval("SELECT pg_database_size(current_database())") / 1e6

        try:
            yield url, sizes
        finally:
            await db.close()


async def measure(kind: str, rate: float, seconds: float, slices: int) -> list[Slice]:
    """Run the load and look at it in slices."""
    found: list[Slice] = []
    async with (sqlite if kind == "sqlite" else postgres)() as (url, sizes):
        store = open_store(url)
        await store.start("w-bench")
        load = Load(store, rate)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(do()) for do in (load.make, load.sweep, load.write)]
            began = time.monotonic()
            for number in range(slices):
                made, swept, at, cpu = load.made, load.swept, time.monotonic(), time.process_time()
                load.waits.clear()
                await asyncio.sleep(max(began + (number + 1) * seconds / slices - time.monotonic(), 0.0))
                span, waits = time.monotonic() - at, list(load.waits)
                rows, dead, mb = await sizes()
                rates = (load.made - made) / span, (load.swept - swept) / span
                spent = 1e6 * (time.process_time() - cpu) / max(load.made - made, 1)
                spread = percentile(waits, 0.5), percentile(waits, 0.99)
                found.append(Slice(time.monotonic() - began, *rates, rows, dead, mb, spent, *spread))
            for task in running:
                task.cancel()
        await store.close()
    return found


def main() -> None:
    """Print the slices as a table of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--rate", type=float, default=100.0, help="sessions that end a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--slices", type=int, default=6)
    options = parser.parse_args()
    found = asyncio.run(measure(options.store, options.rate, options.seconds, options.slices))
    print("| after s | made a s | swept a s | rows | dead | MB | CPU us a session | others p50 ms | p99 ms |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for one in found:
        cells = (
            f"{one.at:.0f}",
            f"{one.made:.0f}",
            f"{one.swept:.0f}",
            f"{one.rows:,}",
            f"{one.dead:,}",
            f"{one.mb:.1f}",
        )
        print(f"| {' | '.join(cells)} | {one.cpu:,.0f} | {one.p50_ms:.1f} | {one.p99_ms:.1f} |")


if __name__ == "__main__":
    main()
