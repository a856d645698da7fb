import asyncio

from toolcrib import Crib


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    async with Crib([add]) as crib:
        session = await crib.open(owner="ada")
        print((await session.call("add", {"a": 2, "b": 3})).data)


asyncio.run(main())
