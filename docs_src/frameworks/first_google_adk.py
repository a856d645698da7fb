from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner

from toolcrib import Crib
from toolcrib.adapters.google_adk import CribPlugin, guarded_tools


async def answer(model: Any, tools: list[Any], prompt: str) -> Any:
    async with Crib(guarded_tools(tools), store="sqlite:///crib.db", policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        agent = LlmAgent(name="desk", model=model, tools=tools)
        runner = InMemoryRunner(app=App(name="shop", root_agent=agent, plugins=[CribPlugin(session)]))
        return await runner.run_debug(prompt)
