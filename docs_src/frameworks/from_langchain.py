import asyncio

from langchain_core.tools import tool as langchain_tool

from toolcrib import Crib, tool


def find(order: str, deep: bool = False) -> dict[str, str]:
    """Find an order."""
    return {"order": order}


async def main() -> None:
    before = langchain_tool(find)
    after = tool(read_only=True)(find)
    async with Crib([after]) as crib:
        session = await crib.open("chat-1", owner="ada")
        result = await session.call("find", {"order": "A-7"})
        assert result.data == await before.ainvoke({"order": "A-7"})
        assert list(after.input_schema["properties"]) == list(before.args)


asyncio.run(main())
