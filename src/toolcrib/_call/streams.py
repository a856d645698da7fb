"""Generators as tools: every value is an `output` event, the last one is the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any

from toolcrib.context import Stopped

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall


async def drain_async(live: LiveCall, values: AsyncGenerator[Any, None]) -> Any:
    """Takes all values; asks for the next only while few are unwritten, and closes the generator whatever happens."""
    last: Any = None
    try:
        async for value in values:
            last = value
            live.output.chunk(value)
            if live.output.crowded:
                await live.output.room()
            if live.stopping is not None:
                raise Stopped
    finally:
        await values.aclose()
    return last


def drain_thread(live: LiveCall, context: Any) -> Any:
    """The same in a thread."""
    assert live.tool is not None and live.tool.run is not None and live.parsed is not None
    values: Generator[Any, None, None] = live.tool.run(context, live.parsed.values)
    loop = live.pipeline.loop
    last: Any = None
    try:
        for value in values:
            last = value
            asyncio.run_coroutine_threadsafe(_take(live, value), loop).result()
            if live.stopping is not None:
                raise Stopped
    finally:
        values.close()
    return last


async def _take(live: LiveCall, value: Any) -> None:
    live.output.chunk(value)
    await live.output.room()
