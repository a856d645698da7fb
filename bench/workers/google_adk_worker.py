"""google-adk: FunctionTool.run_async with one tool context."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, ToolContext
from order import Order
from protocol import Call, plain, serve
from pydantic_core import from_json, to_json


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def take(order: Order) -> Order:
    """Take an order and give it back."""
    return order


async def invocation() -> InvocationContext:
    service = InMemorySessionService()
    session = await service.create_session(app_name="bench", user_id="bench")
    agent = LlmAgent(name="bench")
    return InvocationContext(session_service=service, invocation_id="i1", agent=agent, session=session)


def bound(tool: FunctionTool, context: InvocationContext) -> Call:
    async def call(text: bytes) -> bytes:
        tool_context = ToolContext(context, function_call_id="c1")
        return to_json(await tool.run_async(args=from_json(text), tool_context=tool_context))

    return call


if __name__ == "__main__":
    context = asyncio.run(invocation())
    lanes = {"add": bound(FunctionTool(add), context), "order": bound(FunctionTool(take), context)}
    serve({name: plain(call) for name, call in lanes.items()}, "google-adk")
