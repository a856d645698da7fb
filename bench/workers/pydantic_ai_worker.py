"""pydantic-ai: ToolManager.handle_call over a FunctionToolset prepared for one run step."""

import asyncio

from order import Order
from protocol import Call, plain, serve
from pydantic_ai import RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RunUsage
from pydantic_core import to_json


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def take(order: Order) -> Order:
    """Take an order and give it back."""
    return order


def bound(manager: ToolManager, name: str) -> Call:
    async def call(text: bytes) -> bytes:
        return to_json(await manager.handle_call(ToolCallPart(name, text.decode(), tool_call_id="c1")))

    return call


async def prepared() -> ToolManager:
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    return await ToolManager(FunctionToolset([add, take])).for_run_step(context)


if __name__ == "__main__":
    manager = asyncio.run(prepared())
    serve({"add": plain(bound(manager, "add")), "order": plain(bound(manager, "take"))}, "pydantic-ai-slim")
