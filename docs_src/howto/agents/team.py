import asyncio
from pathlib import Path
from typing import Any

from toolcrib import Crib, tool
from toolcrib.agent import Agents, ScriptedModel

FOLDER = Path(__file__).with_name("team")


@tool(namespace="shop", read_only=True)
def find_order(order: str) -> dict[str, object]:
    """Look an order up."""
    return {"order": order, "cents": 1200}


SCRIPT: dict[str, Any] = {
    "support": [{"calls": [{"tool": "transfer_to_agent", "args": {"agent_name": "billing", "reason": "an invoice"}}]}],
    "billing": [
        {"calls": [{"tool": "find_order", "args": {"order": "A-7"}}]},
        {"text": "A-7 was 12.00."},
        {"text": "You paid it in March."},
    ],
}


async def main() -> None:
    agents = Agents(FOLDER, model=ScriptedModel(SCRIPT), default="support")
    async with Crib([find_order], agents=agents) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["shop"])
        outcome = await session.send("What was order A-7?")
        print(outcome.status, outcome.reason, outcome.turns, outcome.answer)
        print(await agents.active(session), "-", (await session.send("Did I pay?")).answer)
        async for event in session.events(follow=False):
            if event.kind in ("run_started", "handover", "run_finished"):
                told = ("agent", "from", "to", "reason")
                print(event.kind, {name: event.fields[name] for name in told if name in event.fields})


asyncio.run(main())
