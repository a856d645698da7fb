"""Usage: waiting <calls> <answers> <seconds>. What so many waiting calls cost at rest, and how fast one is answered.

The milliseconds are from an answer here to the body on the worker that has it.
"""

import asyncio
import json
import sys
import time
from typing import Any

import asyncpg

from bench.probes.cluster.measures import Meter, lags
from bench.probes.cluster.node import node, store_url
from toolcrib import Crib, Session

A_SESSION = 100
AT_ONCE = 10
WIDTH = 50
WARM = 10
PATIENCE_S = 180.0
SETTLE_S = 5.0


async def _ask(session: Session, count: int) -> None:
    """The first call of a session asks in its body; the others wait for an approval, which needs no worker to ask."""
    await session.submit("ask", {"n": 0})
    for start in range(1, count, AT_ONCE):
        some = range(start, min(start + AT_ONCE, count))
        await asyncio.gather(*(session.submit("approve", {"n": n}) for n in some))


async def _fill(crib: Crib, calls: int) -> list[str]:
    """Sessions that have a hundred waiting calls each; returns when all of them wait."""
    names = [f"waiting-{n}" for n in range(max(1, calls // A_SESSION))]
    turns = iter(names)

    async def one_by_one() -> None:
        for name in turns:
            await _ask(await crib.open(name, owner=name), calls // len(names))

    await asyncio.gather(*(one_by_one() for _ in range(min(WIDTH, len(names)))))
    async with asyncio.timeout(PATIENCE_S):
        while await _waiting() < calls // len(names) * len(names):  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.5)
    return names


async def _waiting() -> int:
    return int(await _value("SELECT count(*) FROM calls WHERE state = 'waiting'"))


async def _value(query: str) -> Any:
    db = await asyncpg.connect(store_url())
    try:
        return await db.fetchval(query)
    finally:
        await db.close()


async def _rest(seconds: float) -> dict[str, Any]:
    """Shares of a core, after what the filling left to do is done."""
    for command in ("VACUUM ANALYZE", "CHECKPOINT"):
        await _value(command)
    await asyncio.sleep(SETTLE_S)
    meter = Meter()
    meter.start()
    start = time.perf_counter()
    await asyncio.sleep(seconds)
    cpu = {name: round(used / (time.perf_counter() - start) * 100, 3) for name, used in meter.cpu().items()}
    size = await _value(
        "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE relname IN ('calls', 'events')"
    )
    index = await _value("SELECT pg_total_relation_size('calls')")
    memory = {name: round(mb, 1) for name, mb in meter.memory().items()}
    return {
        "cpu_percent": cpu,
        "memory_mb": memory,
        "table_mb": round(size / 1e6, 1),
        "calls_mb": round(index / 1e6, 1),
    }


async def _answer(session: Session) -> float:
    (row, *_) = await session.crib.store.calls(session.id, ("waiting",), limit=1)
    assert row.question is not None
    before = time.time()
    await session.answer(row.question, "accept")
    result = await session.result(row.id)
    assert result.ok, result
    return float(result.data) - before


async def main(calls: int, answers: int, seconds: float) -> None:
    """Fill, rest, answer one at a time."""
    async with node() as crib:
        start = time.perf_counter()
        names = await _fill(crib, calls)
        filled = time.perf_counter() - start
        rest = await _rest(seconds)
        count = WARM + answers
        sessions = [
            await crib.open(names[n * len(names) // count], owner=names[n * len(names) // count]) for n in range(count)
        ]
        found = [await _answer(session) for session in sessions]
        left = await _waiting()
    print(json.dumps({"waiting": left + count, "fill_s": round(filled, 1), "rest": rest, "answer": lags(found[WARM:])}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
