"""A process whose tool takes it down, each time that it is started anew."""

import asyncio
import os
import sys

from tests.durability.effects import append
from toolcrib import Context, Crib, CribLimits, tool
from toolcrib.tool import Tool
from toolcrib.types import Effect


def killer(path: str, effect: Effect) -> Tool:
    """A tool that ends its process as soon as it runs, and says before in which attempt."""

    @tool(effect=effect, name="kill")
    async def kill(ctx: Context) -> str:
        """Take the process down."""
        append(path, str(ctx.attempt))
        os._exit(3)

    return kill


async def live(store: str, path: str, effect: Effect, attempts: str) -> None:
    """Submits the call in its first life, and waits for its end in all others."""
    async with Crib([killer(path, effect)], store=store, limits=CribLimits(attempts=int(attempts))) as crib:
        session = await crib.open("s", owner="ada")
        rows = await crib.store.calls("s")
        call = rows[0].id if rows else (await session.submit("kill", key="one")).id
        result = await session.result(call)
        assert result.failure is not None
        print(result.failure.code, result.failure.message, flush=True)


if __name__ == "__main__":
    asyncio.run(live(*sys.argv[1:]))  # type: ignore[arg-type]
