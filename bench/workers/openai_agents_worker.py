"""openai-agents: FunctionTool.on_invoke_tool with a fresh ToolContext a call, as the runner makes one."""

from agents import FunctionTool, function_tool
from agents.tool_context import ToolContext
from agents.usage import Usage
from order import Order
from protocol import Call, plain, serve
from pydantic_core import to_json


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@function_tool
async def take(order: Order) -> Order:
    """Take an order and give it back."""
    return order


def bound(tool: FunctionTool) -> Call:
    usage = Usage()

    async def call(text: bytes) -> bytes:
        arguments = text.decode()
        context = ToolContext(None, usage, tool_name=tool.name, tool_call_id="c1", tool_arguments=arguments)
        return to_json(await tool.on_invoke_tool(context, arguments))

    return call


if __name__ == "__main__":
    serve({"add": plain(bound(add)), "order": plain(bound(take))}, "openai-agents")
