import asyncio

from agents import Agent, function_tool

from toolcrib import Crib
from toolcrib.adapters.openai_agents import guard_tools, guarded_tools


@function_tool
def refund(order: str, cents: int) -> str:
    """Refund part of an order."""
    return f"refunded {cents} of {order}"


async def main() -> None:
    async with Crib(guarded_tools([refund]), policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        agent = Agent("desk", tools=[*guard_tools(session, [refund])])
        print([tool.name for tool in agent.tools])  # and now: await Runner.run(agent, "Refund A-7.")


asyncio.run(main())
