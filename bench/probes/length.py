"""Usage: length <memory|sqlite> <events>. CPU per call in a session that has so many events.

A process measures one length, since what a long log costs the garbage collector is part of the answer.
"""

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


async def _seq(crib: Crib, name: str) -> int:
    await crib.store.flush()
    row = await crib.store.session(name)
    assert row is not None
    return row.seq


async def _grow(crib: Crib, name: str, events: int) -> Session:
    session = await crib.open(name, owner="bench")
    while (left := events - await _seq(crib, name)) > 0:
        # A call writes at least two events; a few calls too many do no harm to a long session.
        await asyncio.gather(*(session.call("add", ARGUMENTS) for _ in range(min(256, left // 2 or 1))))
    return session


async def _slice(crib: Crib, session: Session) -> float:
    await crib.store.flush()
    start = time.process_time()
    for _ in range(CALLS):
        await session.call("add", ARGUMENTS)
    await crib.store.flush()
    return (time.process_time() - start) / CALLS


async def main(store: str, events: int) -> None:
    """A short session grows while it is measured, so each turn takes a new one; a long one does not mind."""
    with place(store) as url:
        async with Crib([add], store=url) as crib:
            await _slice(crib, await _grow(crib, "warm", 1))
            gc.collect()
            name = "long" if events > CALLS * TURNS else "short-{}"
            found = [await _slice(crib, await _grow(crib, name.format(turn), events)) for turn in range(TURNS)]
    print(json.dumps({"us": round(median(found) * 1e6, 3)}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
