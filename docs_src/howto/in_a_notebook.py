import asyncio

from toolcrib import Crib, tool


@tool(read_only=True)
async def find(order: str) -> dict[str, str]:
    """Find an order."""
    return {"order": order, "state": "paid"}


async def cell() -> None:
    crib = Crib([find], store="sqlite:///notebook.db")
    await crib.start()
    session = await crib.open("notebook", owner="ada")
    result = await session.call("find", {"order": "A-7"})
    print(result.data)
    await crib.stop()


asyncio.run(cell())  # in a notebook: await cell()
