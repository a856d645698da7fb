"""What roll-ups cost a call, and how soon the numbers of a store with very many calls are there.

    python -m bench.rollups --calls 1000000 [--postgres postgresql://...]

A store is filled with the log of a week, rolled up, and asked as the overview asks. `costs` measures only what a call
costs, `fill` and `ask` do one half of the rest each, with the store at `--folder` or `--postgres`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sqlite3
import statistics as middle
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from toolcrib._call import lifecycle
from toolcrib._session.statistics import SPANS, StatsFilter, statistics
from toolcrib.events import Accepted, CallerRecord, Done, Started
from toolcrib.store import Row, Store, draft, open_store

TOOLS, AGENTS, OWNERS, SESSIONS = 30, 6, 25, 2000
LOOKS = 20
CODES = ("failed", "timeout", "denied", "invalid_arguments")


def happened(calls: int, now: float) -> Iterator[tuple[int, int, float, str, str, str, str | None, float]]:
    """Calls of a week in order of time: session, place in it, time, id, tool, agent, code, milliseconds."""
    dice = random.Random(7)
    places = [0] * SESSIONS
    for number in range(calls):
        session = dice.randrange(SESSIONS)
        places[session] += 1
        at = now - SPANS["week"] * (1 - (number + 1) / calls) - 1
        tool = min(int(dice.expovariate(0.2)), TOOLS - 1)
        code = dice.choice(CODES) if dice.random() < 0.01 + tool / 200 else None
        agent = f"agent-{dice.randrange(AGENTS)}"
        yield session, places[session], at, f"c{number}", f"shop.tool{tool}", agent, code, dice.lognormvariate(4, 0.8)


def lines(of: tuple[int, int, float, str, str, str, str | None, float]) -> tuple[Any, Any, Any]:
    """The two lines of a call, and its row."""
    session, place, at, id, tool, agent, code, took = of
    by = f'"by":{{"kind":"agent","name":"{agent}"}},"agent":"{agent}"'
    accepted = f'{{"tool":"{tool}","label":"x","args":{{"order":1}},{by}}}'
    failure = f',"failure":{{"code":"{code}","message":"It went wrong"}}' if code else ""
    done = f'{{"ok":{"false" if code else "true"}{failure},"duration_ms":{took:.3f}}}'
    first = (session + 1, 2 * place - 1, at - took / 1000, id, "accepted", accepted)
    row = (id, session + 1, tool, "read", "done", 1, at - took / 1000, False, code, 0, 2 * place - 1, 2 * place)
    return first, (session + 1, 2 * place, at, id, "done", done), row


def fill_file(path: Path, calls: int, now: float) -> None:
    """Writes the log of a week into an SQLite file."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA synchronous = OFF")
        owners = [(f"s{n}", f"owner-{n % OWNERS}", now - SPANS["week"], now) for n in range(SESSIONS)]
        db.executemany("INSERT INTO sessions (id, owner, created_at, updated_at) VALUES (?, ?, ?, ?)", owners)
        events, rows = list[Any](), list[Any]()
        for one in happened(calls, now):
            *both, row = lines(one)
            events += [((n << 32) + seq, at, call, kind, data) for n, seq, at, call, kind, data in both]
            rows.append(row)
            if len(rows) == 50_000 or len(rows) == calls:
                _insert(db, events, rows)
        _insert(db, events, rows)
        db.commit()


def _insert(db: sqlite3.Connection, events: list[Any], rows: list[Any]) -> None:
    db.executemany("INSERT INTO events (key, at, call, kind, data) VALUES (?, ?, ?, ?, ?)", events)
    db.executemany(
        "INSERT INTO calls (id, session, tool, effect, state, attempt, accepted_at, background, code, crashes,"
        " accepted_seq, done_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    events.clear()
    rows.clear()


async def fill_database(url: str, calls: int, now: float) -> None:
    """Writes the same into a Postgres database."""
    import asyncpg

    db = await asyncpg.connect(url)
    owners = [(f"s{n}", f"owner-{n % OWNERS}", now - SPANS["week"], now) for n in range(SESSIONS)]
    await db.copy_records_to_table("sessions", records=owners, columns=["id", "owner", "created_at", "updated_at"])
    events, rows = list[Any](), list[Any]()
    names = "id session tool effect state attempt accepted_at background code crashes accepted_seq done_seq owner"

    async def copy() -> None:
        columns = ["session", "seq", "at", "call", "kind", "data"]
        await db.copy_records_to_table("events", records=events, columns=columns)
        await db.copy_records_to_table("calls", records=rows, columns=names.split())
        events.clear()
        rows.clear()

    for one in happened(calls, now):
        *both, row = lines(one)
        events += both
        rows.append((*row, f"owner-{one[0] % OWNERS}"))
        if len(rows) == 50_000:
            await copy()
    await copy()
    await db.execute("ANALYZE")
    await db.close()


ASKED: dict[str, dict[str, Any]] = {
    "hour, by tool": {"over": "hour", "by": "tool"},
    "day, by tool": {"over": "day", "by": "tool"},
    "week, by tool": {"over": "week", "by": "tool"},
    "week, by agent": {"over": "week", "by": "agent"},
    "week, by owner": {"over": "week", "by": "owner"},
    "week, by code": {"over": "week", "by": "code"},
    "week, of one owner": {"over": "week", "by": "tool", "owner": "owner-3"},
    "week, of one tool by agent": {"over": "week", "by": "agent", "tools": ("shop.tool2",)},
}


async def ask(store: Store, now: float, looks: int = LOOKS) -> None:
    """Prints how long each question takes."""
    for name, asked in ASKED.items():
        more = {key: value for key, value in asked.items() if key != "over"}
        where = StatsFilter(now - SPANS[asked["over"]], now, **more)
        times, busy = [], []
        for _ in range(looks):
            begun, cpu = time.perf_counter(), time.process_time()
            counted = await statistics(store, where, {})
            times.append((time.perf_counter() - begun) * 1000)
            busy.append((time.process_time() - cpu) * 1000)
        times.sort()
        p95 = times[int(0.95 * (len(times) - 1))]
        print(f"| {name} | {counted.total.calls:,} | {middle.median(times):.0f} | {p95:.0f} | {min(busy):.0f} |")


async def roll(store: Store, calls: int) -> None:
    """Rolls up all of it."""
    begun, cpu = time.perf_counter(), time.process_time()
    while await store.roll_up(1.0):
        pass
    took = (time.perf_counter() - begun) / calls * 1e6
    print(f"rolled up: {took:.1f} us a call, {(time.process_time() - cpu) / calls * 1e6:.1f} us of CPU here")


async def many(url: str, calls: int, *, fill: bool = True, asked: bool = True) -> None:
    """Fills a store and asks it."""
    now, store = time.time(), open_store(url)
    await store.start("bench-1")
    try:
        if fill and url.startswith("sqlite"):
            fill_file(Path(url.removeprefix("sqlite:///")), calls, now)
        elif fill:
            await fill_database(url, calls, now)
        if fill:
            await roll(store, calls)
        if asked:
            await ask(store, now)
    finally:
        await store.close()


# What a call costs


def one_call(id: str) -> Any:
    """All of a call in one write."""
    row = Row(id, "s", "shop.find", "read", "done", 1, accepted_at=1.0)
    events = [
        draft(1.0, id, Accepted("shop.find", "Find", {"order": 1}, CallerRecord("user"), "", "read")),
        draft(1.0, id, Started(1, {"order": 1}, "", 60.0)),
        draft(1.0, id, Done(ok=True, data={"ok": True}, duration_ms=1.5)),
    ]
    return lifecycle.accept(row, events)


async def costs(rounds: int, calls: int = 4000) -> None:
    """CPU of a durable call in SQLite with and without the list of what is to be counted, by turns."""
    least = {"with": float("inf"), "without": float("inf")}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for how in least:
                path = Path(folder, f"{how}-{number}.db")
                store = open_store(f"sqlite:///{path}")
                await store.start("bench-1")
                await store.open("s", "ada", 1.0)
                if how == "without":
                    with closing(sqlite3.connect(path)) as db:
                        db.execute("DROP TRIGGER events_counted")
                writes = [one_call(f"{how}{number}-{n}") for n in range(calls)]
                cpu = time.process_time()
                for write in writes:
                    store.put(write)
                await store.flush()
                least[how] = min(least[how], (time.process_time() - cpu) / calls * 1e6)
                await store.close()
    for how, took in least.items():
        print(f"{how} the list: {took:.2f} us of CPU a call")


async def main() -> None:
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", choices=["costs", "fill", "ask"], help="do that alone")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the file is, or is to be")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--postgres", help="an empty database")
    args = parser.parse_args()
    if args.only == "costs" or (args.only is None and args.postgres is None):
        await costs(args.rounds)
    if args.only == "costs":
        return
    with tempfile.TemporaryDirectory() as temporary:
        url = args.postgres or f"sqlite:///{args.folder or temporary}/log.db"
        await many(url, args.calls, fill=args.only != "ask", asked=args.only != "fill")


if __name__ == "__main__":
    asyncio.run(main())
