"""Usage: length <memory|sqlite> <short> <long>. CPU per call in sessions of so many events."""

import asyncio
import gc
import json
import sys
import time
from statistics import median

from bench.probes.place import place
from bench.probes.tools import add
from toolcrib import Crib, Session

TURNS = 15
CALLS = 100
ARGUMENTS = b'{"a":1,"b":2}'


async def _grow(crib: Crib, name: str, events: int) -> Session:
    session = await crib.open(name, owner="bench")
    while session.seq < events:
        await asyncio.gather(*(session.call("add", ARGUMENTS) for _ in range(min(64, events - session.seq))))
    return session


async def _slice(crib: Crib, session: Session) -> float:
    await crib.store.flush()
    start = time.process_time()
    for _ in range(CALLS):
        await session.call("add", ARGUMENTS)
    await crib.store.flush()
    return (time.process_time() - start) / CALLS


async def _turn(crib: Crib, long: Session, short: int, number: int) -> tuple[float, float]:
    """A short session grows while it is measured, so each turn takes a new one."""
    fresh = await _grow(crib, f"short-{number}", short)
    return await _slice(crib, fresh), await _slice(crib, long)


async def main(store: str, short: int, events: int) -> None:
    """Both kinds of session by turns; the ratio is the median of the turns."""
    with place(store) as url:
        async with Crib([add], store=url) as crib:
            long = await _grow(crib, "long", events)
            gc.collect()
            gc.freeze()
            found = [await _turn(crib, long, short, number) for number in range(TURNS + 1)][1:]
    print(
        json.dumps(
            {
                "short_us": round(median(one for one, _ in found) * 1e6, 2),
                "long_us": round(median(other for _, other in found) * 1e6, 2),
                "ratio": round(median(other / one for one, other in found), 3),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
