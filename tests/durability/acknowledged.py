"""A crib whose caller was told that so many calls are durable, and that uses its file until it is told to end.

Arguments: the store, how many calls.
"""

import asyncio
import sys

from tests.durability.effects import say
from toolcrib import Crib, tool


@tool(read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def main(store: str, count: int) -> None:
    async with Crib([echo], store=store) as crib:
        session = await crib.open("s", owner="ada")
        for number in range(count):
            await session.call("echo", {"text": str(number)})
        await crib.store.flush()
        say("acknowledged")
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
