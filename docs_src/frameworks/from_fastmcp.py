import asyncio

from fastmcp import FastMCP

from toolcrib import Crib, tool

server = FastMCP("desk")


@server.tool
def find(order: str) -> dict[str, str]:
    """Find an order."""
    return {"order": order}


@tool(name="find", read_only=True)
def find_anew(order: str) -> dict[str, str]:
    """Find an order."""
    return {"order": order}


async def main() -> None:
    before = await server.call_tool("find", {"order": "A-7"})
    async with Crib([find_anew]) as crib:
        session = await crib.open("chat-1", owner="ada")
        after = await session.call("find", {"order": "A-7"})
        assert after.data == before.structured_content


asyncio.run(main())
