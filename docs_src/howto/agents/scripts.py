import asyncio
from typing import Any

from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, ScriptedModel

ORDERS = {"A-7": 1200, "A-8": 300, "A-9": 4500}


@tool(read_only=True)
def find_order(order: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order": order, "cents": ORDERS[order]}


@tool(requires_confirmation=True)
def refund(order: str, cents: int) -> str:
    """Give money back."""
    return f"{order}: {cents} cents back"


CODE = """
import asyncio
orders = await asyncio.gather(*[find_order(name) for name in ("A-7", "A-8", "A-9")])
dearest = max(orders, key=lambda order: order["cents"])
print("dearest:", dearest["order"])
try:
    said = await refund(dearest["order"], cents=dearest["cents"])
except RuntimeError as error:
    said = f"not refunded, {error}"
said
"""
SCRIPT: dict[str, Any] = {"clerk": [{"calls": [{"tool": "run_script", "args": {"code": CODE}}]}, {"text": "Done."}]}


def new_crib() -> tuple[Crib, Agents]:
    clerk = Agent(name="clerk", instructions="You help.", tools=["find_order", "refund", "builtin.run_script"])
    agents = Agents([clerk], model=ScriptedModel(SCRIPT))
    return Crib([find_order, refund], store="sqlite:///scripts.db", agents=agents), agents


async def ask() -> str:
    crib, agents = new_crib()
    async with crib:
        session = await crib.open(owner="ada")
        outcome = await session.send("Give back the dearest of A-7, A-8 and A-9")
        print(outcome.status, [dict(question.arguments) for question in outcome.questions])
        request = await agents.request(session, outcome.run or "", 1)
        (shown,) = [view for view in request.tools if view.name == "run_script"]
        print(shown.description.partition("Functions:\n")[2])
        return session.id


async def answer(id: str) -> None:
    crib, agents = new_crib()
    async with crib:
        session = await crib.open(id, owner="ada")
        (question,) = await session.questions()
        await session.answer(question.id, "accept", actor="bob")
        await agents.settled(session)
        async for event in session.events(follow=False):
            if event.kind == "accepted":
                print(event.data.tool, "by", event.data.by.name)
            if event.kind == "done" and "result" in (event.data.data or ()):
                print(event.data.data)


asyncio.run(answer(asyncio.run(ask())))
