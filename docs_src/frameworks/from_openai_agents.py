import asyncio

from agents import function_tool

from toolcrib import Crib, tool


def find(order: str, deep: bool = False) -> dict[str, str]:
    """Find an order.

    Args:
        order: The number of the order.
    """
    return {"order": order}


async def main() -> None:
    before = function_tool(find)
    after = tool(read_only=True)(find)
    async with Crib([after]) as crib:
        session = await crib.open("chat-1", owner="ada")
        result = await session.call("find", {"order": "A-7"})
        assert result.data == {"order": "A-7"}
        for schema in (before.params_json_schema, after.input_schema):
            assert schema["properties"]["order"]["description"] == "The number of the order."


asyncio.run(main())
