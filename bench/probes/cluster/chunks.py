"""Usage: chunks <streams> <chunks>. Milliseconds from an output on the worker to its event at a reader on this node."""

import asyncio
import json
import sys
import time

from bench.probes.cluster.measures import lags
from bench.probes.cluster.node import node
from bench.probes.cluster.tools import EVERY_S
from toolcrib import Crib

WARM = 5


async def _follow(crib: Crib, number: int, chunks: int, delay: float) -> list[float]:
    """A session a stream; they start apart, so that they do not tick in step."""
    await asyncio.sleep(delay)
    session = await crib.open(f"stream-{number}", owner=f"stream-{number}")
    call = await session.submit("ticks", {"count": WARM + chunks})
    events = session.events(call=call.id)
    found = [time.time() - event.fields["value"]["at"] async for event in events if event.kind == "output"]
    assert len(found) == WARM + chunks, f"{len(found)} of {WARM + chunks} chunks came"
    return found[WARM:]


async def main(streams: int, chunks: int) -> None:
    """All streams at once, a reader each."""
    async with node() as crib:
        apart = EVERY_S / streams
        found = await asyncio.gather(*(_follow(crib, n, chunks, n * apart) for n in range(streams)))
    print(json.dumps(lags([lag for one in found for lag in one])))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
