"""fastmcp: FastMCP.call_tool (middleware, lookup, run) without a transport; the result as its wire JSON."""

from fastmcp import FastMCP
from mcp_types import CallToolResult
from order import Order
from protocol import Call, plain, serve
from pydantic_core import from_json

server = FastMCP("bench")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def take(order: Order) -> Order:
    """Take an order and give it back."""
    return order


def bound(name: str) -> Call:
    async def call(text: bytes) -> bytes:
        result = await server.call_tool(name, from_json(text))
        wire = CallToolResult(content=result.content, structured_content=result.structured_content)
        return wire.__pydantic_serializer__.to_json(wire, by_alias=True, exclude_none=True)

    return call


if __name__ == "__main__":
    serve({"add": plain(bound("add")), "order": plain(bound("take"))}, "fastmcp")
