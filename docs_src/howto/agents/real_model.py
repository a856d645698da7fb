import asyncio
import os

from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, Providers

os.environ.pop("ANTHROPIC_API_KEY", None)  # so that this file prints the same wherever it runs


@tool(read_only=True)
async def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sun in {city}"


agents = Agents(
    [
        Agent(name="main", instructions="You help.", model="anthropic:claude-sonnet-5"),
        Agent(name="house", instructions="You help.", model="house:qwen3", model_settings={"retries": 0}),
    ],
    models=Providers({"house": {"provider": "openai-chat", "base_url": "http://127.0.0.1:9/v1"}}),
)


async def main() -> None:
    async with Crib([weather], agents=agents) as crib:
        session = await crib.open(owner="ada")
        for name in ("main", "house"):
            outcome = await session.send("Is it warm in Rome?", agent=name)
            print(outcome.reason, outcome.code, "-", outcome.detail)


asyncio.run(main())
