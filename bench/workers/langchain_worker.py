"""langchain-core: StructuredTool.ainvoke of the parsed arguments."""

from langchain_core.tools import StructuredTool
from order import Order
from protocol import Call, plain, serve
from pydantic_core import from_json, to_json


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def take(order: Order) -> Order:
    """Take an order and give it back."""
    return order


def bound(tool: StructuredTool) -> Call:
    async def call(text: bytes) -> bytes:
        return to_json(await tool.ainvoke(from_json(text)))

    return call


if __name__ == "__main__":
    lanes = {"add": StructuredTool.from_function(coroutine=add), "order": StructuredTool.from_function(coroutine=take)}
    serve({name: plain(bound(tool)) for name, tool in lanes.items()}, "langchain-core")
