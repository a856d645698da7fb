"""`python -m bench.hints`: commits a second of many writers over one Postgres server, and how soon readers know.

Each writer commits one line at a time. Beside Toolcrib stands asyncpg alone in the same run: without a notification,
with one in every transaction, and with one each 5 ms of all that was committed.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress
from statistics import quantiles
from typing import Any

import asyncpg
import nats

from toolcrib.events import Notice
from toolcrib.store import Write, draft
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.testing.services import NatsServer, PostgresServer

PROCESSES = 4
RAW = {"raw": "", "raw, NOTIFY in the transaction": ", pg_notify('bench', $1::text)"}
COALESCED = "raw, NOTIFY each 5 ms after the commit"
NODES = {"toolcrib, a node for each writer": 1, "toolcrib, 8 writers of a node": 8}
MODES = (*RAW, COALESCED, *NODES)
CHUNKS = 300


async def raw_writers(url: str, mode: str, count: int, seconds: float) -> int:
    """Commits of connections that insert a line each time."""
    more, done, fresh = RAW.get(mode, ""), 0, asyncio.Event()
    listener = await asyncpg.connect(url)
    await listener.add_listener("bench", lambda *_: None)
    connections = [await asyncpg.connect(url) for _ in range(count)]

    async def write(connection: Any) -> None:
        nonlocal done
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await connection.fetch(
                f"WITH line AS (INSERT INTO bench (data) VALUES ($1) RETURNING 1) SELECT 1{more} FROM line", "x" * 100
            )
            done += 1
            fresh.set()

    async def tell() -> None:
        teller = await asyncpg.connect(url, server_settings={"synchronous_commit": "off"})
        while True:
            await fresh.wait()
            fresh.clear()
            await teller.execute("SELECT pg_notify('bench', 'x')")
            await asyncio.sleep(0.005)

    teller = asyncio.ensure_future(tell()) if mode == COALESCED else None
    await asyncio.gather(*map(write, connections))
    if teller is not None:
        teller.cancel()
        with suppress(asyncio.CancelledError):
            await teller
    return done


async def stores(url: str, together: int, count: int, seconds: float, first: int) -> int:
    """Commits of writers that append an event each time, each to its own session, so many to a store."""
    done = 0
    async with AsyncExitStack() as stack:
        opened = [PostgresStore(url) for _ in range(count // together)] * together
        for number, store in enumerate(opened, first):
            if number - first < count // together:
                await store.start(f"w-{number}")
                stack.push_async_callback(store.close)
            await store.open(f"s-{number}", "ada", 1.0)

        async def write(store: PostgresStore, session: str) -> None:
            nonlocal done
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                await store.commit(Write(session, [draft(1.0, "c", Notice("x" * 100, {}))]))
                done += 1

        await asyncio.gather(*(write(store, f"s-{number}") for number, store in enumerate(opened, first)))
    return done


async def raw_latency(url: str) -> list[float]:
    """From just before a commit with a notification in it until a listener has it, in milliseconds."""
    listener, writer = await asyncpg.connect(url), await asyncpg.connect(url)
    heard, times = asyncio.Event(), list[float]()
    await listener.add_listener("bench", lambda *_: heard.set())
    for _ in range(CHUNKS):
        await asyncio.sleep(0.01)
        heard.clear()
        begun = time.perf_counter()
        await writer.fetch(
            "WITH line AS (INSERT INTO bench (data) VALUES ('x') RETURNING 1) SELECT pg_notify('bench', 'x') FROM line"
        )
        await heard.wait()
        times.append(1000 * (time.perf_counter() - begun))
    await listener.close()
    await writer.close()
    return times


async def latency(url: str, engine: str | None = None) -> list[float]:
    """From just before a commit until a reader of another store has the event, one at a time, in milliseconds."""
    times: list[float] = []
    async with AsyncExitStack() as stack:
        writer, reader = PostgresStore(url), PostgresStore(url)
        for store, name in ((writer, "writer"), (reader, "reader")):
            await store.start(name)
            stack.push_async_callback(store.close)
        if engine is not None:
            await carry(writer, reader, engine, stack)
        row, _ = await writer.open("latency", "ada", 1.0)
        for seq in range(row.seq, row.seq + CHUNKS):
            heard = asyncio.ensure_future(reader.wait("latency", seq))
            await asyncio.sleep(0.01)
            begun = time.perf_counter()
            await writer.commit(Write("latency", [draft(1.0, "c", Notice("x", {}))]))
            await heard
            assert await reader.read("latency", seq)
            times.append(1000 * (time.perf_counter() - begun))
    return times


async def carry(writer: PostgresStore, reader: PostgresStore, engine: str, stack: AsyncExitStack) -> None:
    """Has hints go by NATS, as they do between the nodes of a cluster."""
    there, here = await nats.connect(engine), await nats.connect(engine)
    tasks = set[asyncio.Task[None]]()

    async def take(msg: Any) -> None:
        reader.heard(msg.data.decode())

    def send(hints: list[str]) -> bool:
        tasks.update(asyncio.ensure_future(there.publish("bench.written", hint.encode())) for hint in hints)
        return True

    await here.subscribe("bench.written", cb=take)
    await here.flush()
    writer.carry = send
    for client in (there, here):
        stack.push_async_callback(client.close)


def summary(times: list[float]) -> dict[str, float]:
    """The middle and the end of what was measured, without its beginning."""
    cuts = quantiles(times[20:], n=100)
    return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2)}


def measured(url: str, mode: str, writers: int, seconds: float) -> float:
    """Commits a second of all processes together."""
    share = writers // PROCESSES
    words = [sys.executable, "-m", "bench.hints", "--url", url, "--mode", mode, "--writers", str(share)]
    started = [
        subprocess.Popen(
            [*words, "--seconds", str(seconds), "--first", str(number * share)], stdout=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    ]
    return sum(int(one.communicate()[0]) for one in started) / seconds


def main() -> None:
    """Measures all of it, or the part of one process."""
    parser = argparse.ArgumentParser(prog="python -m bench.hints", description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--mode", default="")
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    if options.url is not None:
        size = (options.writers, options.seconds)
        if options.mode in NODES:
            print(asyncio.run(stores(options.url, NODES[options.mode], *size, options.first)))
        else:
            print(asyncio.run(raw_writers(options.url, options.mode, *size)))
        return
    postgres, engine = PostgresServer(), NatsServer()
    postgres.start()
    try:
        engine.start()
        asyncio.run(prepare(postgres.url))
        rates = {mode: round(measured(postgres.url, mode, options.writers, options.seconds)) for mode in MODES}
        times = {
            "asyncpg, NOTIFY in the transaction": asyncio.run(raw_latency(postgres.url)),
            "by the database": asyncio.run(latency(postgres.url)),
            "by NATS": asyncio.run(latency(postgres.url, engine.url)),
        }
        heard = {way: summary(some) for way, some in times.items()}
        print(json.dumps({"writers": options.writers, "commits_s": rates, "to_a_reader": heard}, indent=2))
    finally:
        engine.stop()
        postgres.stop()


async def prepare(url: str) -> None:
    """The table of the raw writers, and the schema, so that no two processes wait for each other's steps."""
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE bench (data text)")
    await connection.close()
    store = PostgresStore(url)
    await store.start("first")
    await store.close()


if __name__ == "__main__":
    main()
