import asyncio

from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, BadAgent, ScriptedModel


@tool(read_only=True)
def look(page: int) -> str:
    """Look at a page."""
    return f"page {page} is empty"


reader = Agent(
    name="reader",
    instructions="You read.",
    stop=[{"type": "loop_detection", "window": 3}, {"type": "token_budget", "max_total": 50_000}],
    on_limit="answer",
)
SCRIPT = {"reader": [{"calls": [{"tool": "look", "args": {"page": 1}}]}] * 3 + [{"text": "I found nothing."}]}


async def main() -> None:
    async with Crib([look], agents=Agents([reader], model=ScriptedModel(SCRIPT))) as crib:
        session = await crib.open(owner="ada")
        outcome = await session.send("What is on page 1?")
        print(outcome.reason, outcome.code, "-", outcome.detail)
        print(outcome.turns, outcome.answer)
    try:
        Agent(name="reader", max_turns=0, stop=[{"type": "timeout", "second": 5}])
    except BadAgent as error:
        print(error)


asyncio.run(main())
