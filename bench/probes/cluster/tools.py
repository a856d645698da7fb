"""The tools that the worker runs. One machine has one clock, so that times of two processes can be compared."""

import asyncio
import time
from pathlib import Path

from toolcrib import Context, tool

EVERY_S = 0.02


@tool
async def echo(n: int) -> int:
    """Give the number back; nothing is said of its effects, so it happens once."""
    return n


@tool
async def when(n: int) -> float:
    """Give the time at which the body runs."""
    return time.time()


@tool(read_only=True, timeout=300)
async def ticks(ctx: Context, count: int) -> int:
    """Put out the time at a steady pace."""
    for _ in range(count):
        await asyncio.sleep(EVERY_S)
        ctx.output({"at": time.time()})
    return count


@tool(timeout=300)
async def hold(ctx: Context, note: str) -> None:
    """Run until cancelled, and note when that was."""
    ctx.output({"at": time.time()})
    try:
        await asyncio.sleep(300)
    except asyncio.CancelledError:
        Path(note).write_text(str(time.time()))  # noqa: ASYNC240 - a few bytes, after the time was taken
        raise


@tool
async def ask(ctx: Context, n: int) -> float:
    """Ask at once, and give the time at which the answer is there."""
    await ctx.ask("Go on?", kind="confirm")
    return time.time()


@tool(requires_confirmation=True)
async def approve(n: int) -> int:
    """Wait for somebody's approval, and do nothing then."""
    return n


TOOLS = (echo, when, ticks, hold, ask, approve)
