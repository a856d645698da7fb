import asyncio

from google.adk.agents import LlmAgent
from google.adk.apps import App

from toolcrib import Crib
from toolcrib.adapters.google_adk import CribPlugin, guarded_tools


def refund(order: str, cents: int) -> str:
    """Refund part of an order."""
    return f"refunded {cents} of {order}"


async def main() -> None:
    async with Crib(guarded_tools([refund]), policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")
        agent = LlmAgent(name="desk", model="gemini-3-flash", tools=[refund])
        app = App(name="shop", root_agent=agent, plugins=[CribPlugin(session)])
        print([plugin.name for plugin in app.plugins])  # and now: InMemoryRunner(app=app).run_async(...)


asyncio.run(main())
