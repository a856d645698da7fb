"""Usage: calls <in flight> <seconds> <apart|together>. Durable calls a second, made here and run by the worker.

`together` runs them in this process too, which is then the only node.
"""

import asyncio
import json
import sys
import time
from typing import Any

import asyncpg

from bench.probes.cluster.measures import Meter, lags
from bench.probes.cluster.node import node, store_url
from toolcrib import Session

SESSIONS = 32
ARGUMENTS = b'{"n":1}'


class Window:
    """The calls that ended while it was open, and the CPU that went into them."""

    def __init__(self, seconds: float) -> None:
        self.open = self.over = False
        self.times: list[float] = []
        self.cpu: dict[str, float] = {}
        self._seconds = seconds

    async def pass_by(self) -> None:
        """A while to warm up, then the time that counts."""
        meter = Meter()
        await asyncio.sleep(self._seconds / 3)
        meter.start()
        self.open, start = True, time.perf_counter()
        await asyncio.sleep(self._seconds)
        self.open, self.over = False, True
        self._seconds = time.perf_counter() - start
        self.cpu = meter.cpu()

    def report(self) -> dict[str, Any]:
        """What was measured."""
        done = len(self.times)
        cpu = {name: round(seconds / done * 1e6) for name, seconds in self.cpu.items()}
        return {"calls_s": round(done / self._seconds), "cpu_us": cpu, "call_ms": lags(self.times)}


async def _calls(session: Session, window: Window) -> int:
    made = 0
    while not window.over:
        start = time.perf_counter()
        result = await session.call("echo", ARGUMENTS)
        assert result.ok, result
        made += 1
        if window.open:
            window.times.append(time.perf_counter() - start)
    return made


async def _check(made: int) -> float:
    """Every call is done, and nothing happened twice to any; how many events a call left."""
    db = await asyncpg.connect(store_url())
    try:
        states = dict(await db.fetch("SELECT state, count(*) FROM calls GROUP BY state"))
        assert states == {"done": made}, f"{made} calls were made: {states}"
        kinds = await db.fetch(
            "SELECT kind, count(*), count(DISTINCT call) FROM events WHERE call IS NOT NULL GROUP BY kind"
        )
        wrong = [tuple(kind) for kind in kinds if kind[1] != made or kind[2] != made]
        assert not wrong, f"{made} calls were made, each done once: {wrong}"
        return float(len(kinds))
    finally:
        await db.close()


async def main(width: int, seconds: float, where: str) -> None:
    """As many tasks as calls in flight, over several sessions."""
    window = Window(seconds)
    async with node(work=where == "together") as crib:
        sessions = [await crib.open(f"s-{n}", owner=f"o-{n}") for n in range(SESSIONS)]
        clock = asyncio.create_task(window.pass_by())
        made = await asyncio.gather(*(_calls(sessions[n % SESSIONS], window) for n in range(width)))
        await clock
    events = await _check(sum(made))
    print(json.dumps(window.report() | {"calls": sum(made), "events_a_call": events}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
