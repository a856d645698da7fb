"""The tools that the probes call."""

import asyncio
import time
from collections.abc import AsyncIterator

from toolcrib import tool

EVERY_S = 0.02


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="once")
async def pay(cents: int) -> int:
    """Pay an amount, once."""
    return cents


@tool(read_only=True)
async def ticks(count: int) -> AsyncIterator[int]:
    """Yield the time, in nanoseconds, at a steady pace."""
    for _ in range(count):
        await asyncio.sleep(EVERY_S)
        yield time.perf_counter_ns()
