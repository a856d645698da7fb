"""Usage: stream <streams> <chunks>. Milliseconds from the yield in the tool to the event at its reader, on SQLite."""

import asyncio
import json
import sys
import time
from statistics import quantiles

from bench.probes.place import place
from bench.probes.tools import EVERY_S, ticks
from toolcrib import Crib


async def _follow(crib: Crib, number: int, chunks: int, delay: float) -> list[float]:
    """A session a stream, as a page of its own would have; they start apart, so that they do not tick in step."""
    await asyncio.sleep(delay)
    session = await crib.open(f"stream-{number}", owner="bench")
    call = await session.submit("ticks", {"count": chunks})
    events = session.events(call=call.id)
    return [(time.perf_counter_ns() - event.fields["value"]) / 1e6 async for event in events if event.kind == "output"]


async def main(streams: int, chunks: int) -> None:
    """All streams at once, one reader each."""
    with place("sqlite") as url:
        async with Crib([ticks], store=url) as crib:
            apart = EVERY_S / streams
            found = await asyncio.gather(*(_follow(crib, n, chunks, n * apart) for n in range(streams)))
    late = [delay for one in found for delay in one]
    cuts = quantiles(late, n=100)
    shown = {"p50": cuts[49], "p95": cuts[94], "max": max(late)}
    print(json.dumps({key: round(value, 3) for key, value in shown.items()} | {"chunks": len(late)}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
