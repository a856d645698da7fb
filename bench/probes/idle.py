"""Usage: idle <memory|sqlite> <sessions>. What the process grows by when it opens them."""

import asyncio
import gc
import json
import sys
import time

import psutil

from bench.probes.place import place
from bench.probes.tools import add
from toolcrib import Crib


def _rss() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss)


async def main(store: str, count: int) -> None:
    """Open them, hold them, weigh them."""
    with place(store) as url:
        async with Crib([add], store=url) as crib:
            first = await crib.open("first", owner="bench")
            await first.call("add", b'{"a":1,"b":2}')
            before, start = _rss(), time.process_time()
            held = [await crib.open(f"idle-{number}", owner="bench") for number in range(count)]
            us = (time.process_time() - start) / len(held) * 1e6
            print(json.dumps({"mb": round((_rss() - before) / 1e6, 2), "us": round(us, 1)}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
