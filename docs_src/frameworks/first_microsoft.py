from typing import Any

from agent_framework import Agent

from toolcrib import Crib
from toolcrib.adapters.microsoft import CribFunctionMiddleware, guarded_tools


async def answer(client: Any, tools: list[Any], prompt: str) -> Any:
    async with Crib(guarded_tools(tools), store="sqlite:///crib.db", policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        agent = Agent(client, tools=tools, middleware=[CribFunctionMiddleware(session)])
        return await agent.run(prompt)
