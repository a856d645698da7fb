from typing import Any

from agents import Agent, Runner

from toolcrib import Crib
from toolcrib.adapters.openai_agents import guard_tools, guarded_tools


async def answer(tools: list[Any], prompt: str) -> Any:
    async with Crib(guarded_tools(tools), store="sqlite:///crib.db", policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        agent = Agent("desk", tools=[*guard_tools(session, tools)])
        return await Runner.run(agent, prompt)
