"""An API node that starts over a store with very many waiting calls, and answers one of them.

Arguments: the store, the engine. It tells what it answered, how long that took from its start on, and its memory.
"""

import asyncio
import sys
import time
from pathlib import Path

from tests.cluster import cribs
from tests.durability.effects import say

STORE, ENGINE = sys.argv[1:]


def resident() -> int:
    """The memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def main() -> None:
    begun = time.perf_counter()
    crib = cribs.crib(store=STORE, engine=f"{ENGINE}&work=no")
    await crib.start()
    session = await crib.open("s-0", owner="ada")
    (call,) = (await crib.store.calls("s-0", ("waiting",), limit=1))[:1]
    await session.answer(str(call.question), "accept", "yes")
    answered = time.perf_counter() - begun
    result = await session.result(call.id)
    say(["ready", result.data, answered, time.perf_counter() - begun, resident()])
    await asyncio.Event().wait()


asyncio.run(main())
