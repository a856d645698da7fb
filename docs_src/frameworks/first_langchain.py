from typing import Any

from langchain.agents import create_agent

from toolcrib import Crib
from toolcrib.adapters.langchain import CribMiddleware, guarded_tools


async def answer(model: Any, tools: list[Any], prompt: str) -> Any:
    async with Crib(guarded_tools(tools), store="sqlite:///crib.db", policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("thread-1", owner="ada")
        agent = create_agent(model, tools, middleware=[CribMiddleware(session)])
        return await agent.ainvoke({"messages": [("user", prompt)]})
