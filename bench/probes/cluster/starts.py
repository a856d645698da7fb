"""Usage: starts <count> <load>. Milliseconds from just before a submit here to the body on the worker, one at a time.

`load` is how many other calls a second there are, made by this node too.
"""

import asyncio
import json
import sys
import time

from bench.probes.cluster.measures import lags, load
from bench.probes.cluster.node import node
from toolcrib import Session

WARM = 20
WIDTH = 64


async def _start(session: Session) -> float:
    before = time.time()
    call = await session.submit("when", {"n": 1})
    result = await session.result(call.id)
    assert result.ok, result
    return float(result.data) - before


async def main(count: int, rate: float) -> None:
    """One after the other, beside the load."""
    async with node() as crib:
        session = await crib.open("start", owner="bench")
        others = [await crib.open(f"load-{n}", owner=f"load-{n}") for n in range(WIDTH // 8)]
        async with load(others, rate, WIDTH):
            found = [await _start(session) for _ in range(WARM + count)]
    print(json.dumps(lags(found[WARM:])))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
