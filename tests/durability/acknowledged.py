"""A crib whose caller was told that so many calls are durable, and that uses its file until it is told to end.

Arguments: the store, how many calls, and `hang` where one more is to run for ever.
"""

import asyncio
import sys

from tests.durability.effects import say
from toolcrib import Crib, tool


@tool(read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


async def main(store: str, count: int, hangs: bool) -> None:
    async with Crib([echo, hang], store=store) as crib:
        session = await crib.open("s", owner="ada")
        for number in range(count):
            await session.call("echo", {"text": str(number)})
        if hangs:
            call = await session.submit("hang")
            async for event in session.events(call=call.id):
                if event.kind == "started":
                    break
        await crib.store.flush()
        say("acknowledged")
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), "hang" in sys.argv))
