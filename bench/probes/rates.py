"""How often something is done in a second, by many at once."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

AT_ONCE = 16


async def rate(one: Callable[[], Coroutine[Any, Any, float]], runs: int) -> float:
    """So many runs, by sixteen who each do one after another."""

    async def turn() -> None:
        for _ in range(runs // AT_ONCE):
            await one()

    start = time.perf_counter()
    await asyncio.gather(*(turn() for _ in range(AT_ONCE)))
    return runs // AT_ONCE * AT_ONCE / (time.perf_counter() - start)
