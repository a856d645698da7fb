import asyncio

from claude_agent_sdk import ClaudeAgentOptions

from toolcrib import Crib
from toolcrib.adapters.claude import CribHooks, claude_server, guarded_tools

BASH = {"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}


def refund(order: str, cents: int) -> str:
    """Refund part of an order."""
    return f"refunded {cents} of {order}"


async def main() -> None:
    tools = [*guarded_tools([BASH]), refund]
    async with Crib(tools, policy={"rules": [{"ask": "Bash"}, {"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        options = ClaudeAgentOptions(
            tools=["Bash"], hooks=CribHooks(session).hooks, mcp_servers={"crib": claude_server(session)}
        )
        print(*options.tools)
        print(*options.hooks)  # and now: async for message in query(prompt="Refund A-7.", options=options)


asyncio.run(main())
