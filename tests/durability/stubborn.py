"""A program that ends while its tools do not. Arguments: the store, the tool."""

import asyncio
import sys
import time

from tests.durability.effects import say
from toolcrib import Crib, tool

STORE, NAME = sys.argv[1:]
began = asyncio.Event()
loops: list[asyncio.AbstractEventLoop] = []


@tool(idempotent=True)
async def again() -> None:
    """Goes on when it is cancelled."""
    while True:
        began.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            continue


@tool(idempotent=True)
async def swallow() -> None:
    """Goes on whatever is raised."""
    while True:
        began.set()
        try:
            await asyncio.sleep(1000)
        except BaseException:  # noqa: BLE001 - which is the point
            continue


@tool(idempotent=True)
def thread() -> None:
    """Keeps a thread busy."""
    loops[0].call_soon_threadsafe(began.set)
    time.sleep(1000)


async def main() -> None:
    loops.append(asyncio.get_running_loop())
    async with Crib([again, swallow, thread], store=STORE) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit(NAME)
        await began.wait()
        say(call.id)
    say("stopped")


asyncio.run(main())
