import asyncio
from typing import Any

from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, ScriptedModel

desk = Agent(name="desk", instructions="You plan trips.", sub_agents=[{"agent": "scout", "via": "call"}])
scout = Agent(name="scout", description="Knows the weather.", instructions="You look at the sky.", tools=["weather"])
morning = asyncio.Event()


@tool(read_only=True)
async def weather(city: str) -> str:
    """Tell the weather; that of Oslo is not known before the morning."""
    if city == "Oslo":
        await morning.wait()
    return f"sun in {city}"


def asked(city: str, mode: str) -> dict[str, Any]:
    args = {"agent": "scout", "prompt": f"Weather in {city}?", "mode": mode}
    return {"calls": [{"tool": "call_agent", "args": args}]}


def looked(city: str) -> dict[str, Any]:
    return {"calls": [{"tool": "weather", "args": {"city": city}}]}


SCRIPT = {
    "desk": [
        *(asked("Rome", "wait"), {"text": "Go to Rome."}),
        *(asked("Oslo", "background"), {"text": "I will hear about Oslo."}),
        {"text": "Oslo is fine too."},
    ],
    "scout": [looked("Rome"), {"text": "Sun."}, looked("Oslo"), {"text": "Sun there too."}],
}


async def main() -> None:
    async with Crib([weather], agents=Agents([desk, scout], model=ScriptedModel(SCRIPT))) as crib:
        session = await crib.open(owner="ada")
        print((await session.send("Where to?")).answer)
        print((await session.send("And Oslo?")).answer)
        morning.set()
        async for event in session.events():
            if event.kind == "run_started":
                print(event.data.agent, event.data.origin)
            if event.kind == "run_finished" and event.data.answer == "Oslo is fine too.":
                print(event.data.answer)
                break


asyncio.run(main())
