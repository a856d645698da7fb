import asyncio

from toolcrib import Crib


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


async def main() -> None:
    async with Crib([greet]) as crib:
        session = await crib.open(owner="ada")
        print((await session.call("greet", {"name": "Bob"})).data)


asyncio.run(main())
