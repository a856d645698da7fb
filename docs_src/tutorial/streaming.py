import asyncio
from collections.abc import AsyncIterator

from toolcrib import Crib, tool


@tool(read_only=True)
async def count_stock(shelves: int) -> AsyncIterator[dict[str, int]]:
    """Count the stock, shelf by shelf."""
    total = 0
    for shelf in range(1, shelves + 1):
        total += 10 * shelf
        yield {"shelf": shelf, "total": total}


async def main() -> None:
    async with Crib([count_stock]) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("count_stock", {"shelves": 3})
        async for event in session.events(call=call.id):
            if event.kind == "output":
                print("chunk ", event.data.value)
        result = await session.result(call.id)
        print("result", result.data)


asyncio.run(main())
