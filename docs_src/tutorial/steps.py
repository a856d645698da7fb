import asyncio
import os
import subprocess
import sys

from toolcrib import Context, Crib, tool


@tool(idempotent=True)
async def ship(ctx: Context, order: str) -> dict[str, str]:
    """Reserve the goods of an order and print its label."""
    place = await ctx.step("reserve", lambda: reserve(order))
    if ctx.attempt == 1:
        os._exit(1)  # the power goes out between two steps
    label = await ctx.step("label", lambda: f"label for {order}")
    return {"place": place, "label": label}


def reserve(order: str) -> str:
    print("reserving", order, flush=True)
    return "shelf 4"


async def first_life() -> None:
    async with Crib([ship], store="sqlite:///steps.db") as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("ship", {"order": "A-7"})


async def second_life() -> None:
    async with Crib([ship], store="sqlite:///steps.db") as crib:
        session = await crib.open("s-1", owner="ada")
        async for event in session.events():
            if event.kind == "done":
                print(event.data["data"])
                break


if __name__ == "__main__":
    if "crash" in sys.argv:
        asyncio.run(first_life())
    else:
        subprocess.run([sys.executable, __file__, "crash"], check=False)
        asyncio.run(second_life())
