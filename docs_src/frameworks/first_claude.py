from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query

from toolcrib import Crib
from toolcrib.adapters.claude import CribHooks, guarded_tools


async def answer(tools: list[Any], prompt: str) -> list[Any]:
    async with Crib(guarded_tools(tools), store="sqlite:///crib.db", policy={"rules": [{"ask": "refund"}]}) as crib:
        hooks = CribHooks(await crib.open("chat-1", owner="ada"))
        desk = create_sdk_mcp_server("desk", tools=hooks.guard(tools))
        options = ClaudeAgentOptions(mcp_servers={"desk": desk}, hooks=hooks.hooks)
        return [message async for message in query(prompt=prompt, options=options)]
