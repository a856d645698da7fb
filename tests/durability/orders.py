"""A process that has one order to fill, on a store that others use as well."""

import asyncio
import sys

from tests.cluster import cribs


async def fill(store: str, first: str) -> None:
    """Submits the order and says what came of it."""
    async with cribs.crib(store=store) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("order", {"n": 1, "first": first, "wait": "go"})
        print("ready", call.id, flush=True)
        result = await session.result(call.id)
        print("filled", result.data, flush=True)


if __name__ == "__main__":
    asyncio.run(fill(*sys.argv[1:]))
