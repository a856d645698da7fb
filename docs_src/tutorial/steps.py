import asyncio
import os
import subprocess
import sys
import uuid

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


async def first_life(id: str) -> None:
    async with Crib([ship], store="sqlite:///steps.db") as crib:
        session = await crib.open(id, owner="ada")
        await session.call("ship", {"order": "A-7"})


async def second_life(id: str) -> None:
    async with Crib([ship], store="sqlite:///steps.db") as crib:
        session = await crib.open(id, owner="ada")
        async for event in session.events():
            if event.kind == "done":
                print(event.data.data)
                break


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(first_life(sys.argv[1]))
    else:
        session_id = str(uuid.uuid4())
        subprocess.run([sys.executable, __file__, session_id], check=False)
        asyncio.run(second_life(session_id))
