import asyncio
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.models.test import TestModel

from toolcrib import Crib
from toolcrib.adapters.pydantic_ai import CribCapability, guarded_tools


def refund(order: str, cents: int) -> str:
    """Refund part of an order."""
    return f"refunded {cents} of {order}"


async def main() -> None:
    output: Any = [str, DeferredToolRequests]
    async with Crib(guarded_tools([refund]), policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        agent = Agent(TestModel(), output_type=output, tools=[refund], capabilities=[CribCapability(session)])
        first = await agent.run("Refund A-7.")
        [(call, question)] = first.output.metadata.items()
        print(question["tool"], question["arguments"])
        await session.answer(question["question"], "accept", actor="bob")  # in the console, or anywhere
        again = DeferredToolResults(approvals={call: True})
        last = await agent.run(message_history=first.all_messages(), deferred_tool_results=again)
        print(last.output)


asyncio.run(main())
