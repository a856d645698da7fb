"""`python -m bench.partitions`: what a durable call costs over PostgreSQL, by how many partitions its store has.

Stores of 1 and of more partitions stand in one server and are used by turns. CPU of the server is that of all of its
processes; a call is one of a `once` tool, committed before it starts and when it is done.
"""

import argparse
import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from statistics import median

import psutil

from bench.probes.tools import pay
from toolcrib import Crib, Session
from toolcrib.testing.services import PostgresServer

ARGUMENTS = b'{"cents":500}'
SESSIONS, TOGETHER = 8, 8
WARM = 1_600


async def calls(sessions: list[Session], count: int) -> None:
    """So many calls, some at once in each session."""

    async def some(session: Session) -> None:
        for _ in range(count // (SESSIONS * TOGETHER)):
            result = await session.call("pay", ARGUMENTS)
            assert result.ok, result

    await asyncio.gather(*(some(session) for session in sessions for _ in range(TOGETHER)))


async def measured(server: PostgresServer, numbers: list[int], turns: int, count: int) -> dict[int, dict[str, float]]:
    """Microseconds a call of the server's processor and by the clock: the median of the turns."""
    found: dict[int, list[tuple[float, float]]] = {}
    async with AsyncExitStack() as stack:
        stores: dict[int, list[Session]] = {}
        for number in numbers:
            url = server.create_database(f"p{number}") + ("" if number == 1 else f"?partitions={number}")
            crib = await stack.enter_async_context(Crib([pay], store=url))
            stores[number] = [await crib.open(f"s-{one}", owner="bench") for one in range(SESSIONS)]
            await calls(stores[number], WARM)
        for _ in range(turns):
            for number, sessions in stores.items():
                used, began = cpu_s(), time.perf_counter()
                await calls(sessions, count)
                cost = (cpu_s() - used) / count * 1e6, (time.perf_counter() - began) / count * 1e6
                found.setdefault(number, []).append(cost)
    return {
        number: {
            "server_cpu_us": round(median(cpu for cpu, _ in costs), 1),
            "least_cpu_us": round(min(cpu for cpu, _ in costs), 1),
            "clock_us": round(median(clock for _, clock in costs), 1),
        }
        for number, costs in found.items()
    }


def cpu_s() -> float:
    """What the processes of the server have used so far."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        if process.name() == "postgres":
            used = process.cpu_times()
            total += used.user + used.system
    return total


def main() -> int:
    """Measure and tell."""
    options = argparse.ArgumentParser(prog="python -m bench.partitions", description=__doc__)
    options.add_argument("--partitions", type=int, nargs="+", default=[1, 64])
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--calls", type=int, default=3_200, help="of each turn")
    given = options.parse_args()
    with PostgresServer(settings={"max_locks_per_transaction": "512"}) as server:
        print(json.dumps(asyncio.run(measured(server, given.partitions, given.turns, given.calls)), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
