from typing import Any

from pydantic_ai import Agent

from toolcrib import Crib
from toolcrib.adapters.pydantic_ai import CribCapability, guarded_tools


async def answer(model: Any, tools: list[Any], prompt: str) -> Any:
    async with Crib(guarded_tools(tools), store="sqlite:///crib.db", policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        agent = Agent(model, tools=tools, capabilities=[CribCapability(session)])
        return await agent.run(prompt)
