import asyncio
import os
import subprocess
import sys
import uuid
from pathlib import Path

from toolcrib import Context, Crib, tool

JOURNAL = Path("journal.txt")


def runs(tool: str = "") -> int:
    return sum(tool in line for line in JOURNAL.read_text().splitlines())


def note(tool: str) -> None:
    with JOURNAL.open("a") as journal:
        journal.write(f"{tool}\n")


async def work(ctx: Context) -> str:
    note(ctx.tool)
    if ctx.attempt == 1:
        if runs() == 3:
            os._exit(1)  # all three are at work now, and the power goes out
        await asyncio.sleep(3600)
    return f"done in attempt {ctx.attempt}"


@tool(effect="read")
async def look_up(ctx: Context) -> str:
    """Only reads, so it may run again."""
    return await work(ctx)


@tool(effect="idempotent")
async def set_price(ctx: Context) -> str:
    """Twice is the same as once, so it may run again."""
    return await work(ctx)


@tool(effect="once")
async def pay(ctx: Context) -> str:
    """Twice would be wrong, so it never runs again by itself."""
    return await work(ctx)


async def first_life(id: str) -> None:
    async with Crib([look_up, set_price, pay], store="sqlite:///effects.db") as crib:
        session = await crib.open(id, owner="ada")
        for name in ("look_up", "set_price", "pay"):
            await session.submit(name)
        await asyncio.sleep(3600)


async def second_life(id: str) -> None:
    async with Crib([look_up, set_price, pay], store="sqlite:///effects.db") as crib:
        session = await crib.open(id, owner="ada")
        calls = [event async for event in session.events(follow=False) if event.kind == "accepted"]
        for event in calls:
            result = await session.result(event.call or "")
            name = event.data.tool
            print(f"{name}, {runs(name)} run(s): {result.text}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(first_life(sys.argv[1]))
    else:
        JOURNAL.unlink(missing_ok=True)  # what an earlier run of this example has noted
        session_id = str(uuid.uuid4())
        subprocess.run([sys.executable, __file__, session_id], check=False)
        asyncio.run(second_life(session_id))
