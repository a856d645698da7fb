"""A process that logs out and is killed in the middle of it: `python logout_program.py <store url>`."""

import asyncio
import sys

from toolcrib import Crib, tool


@tool(idempotent=True)
async def short() -> str:
    """Take a moment."""
    await asyncio.sleep(0.3)
    return "short is done"


@tool(idempotent=True)
async def again() -> str:
    """Take long in the first process, and no time in the next."""
    if "--first" in sys.argv:
        await asyncio.sleep(60)
    return "ran again"


@tool
async def pay() -> str:
    """Take long, and have an effect."""
    await asyncio.sleep(60)
    return "paid"


@tool(requires_confirmation=True)
async def approve() -> str:
    """Wait for somebody."""
    return "approved"


TOOLS = (short, again, pay, approve)


async def main(url: str) -> None:
    async with Crib(TOOLS, store=url) as crib:
        session = await crib.open("s-1", owner="ada")
        for tool in TOOLS:
            await session.submit(tool.id)
        closing = asyncio.create_task(session.close(timeout=60))
        async for event in session.events():
            if event.kind == "done":
                print("in the middle", flush=True)
        await closing


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
