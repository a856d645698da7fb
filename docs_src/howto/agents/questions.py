import asyncio
from typing import Any

from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, ScriptedModel

STORE = "sqlite:///shop.db"


@tool(requires_confirmation=True)
def refund(order: str, cents: int) -> str:
    """Give money back."""
    return f"{order}: {cents} cents back"


CALL = {"tool": "refund", "args": {"order": "A-7", "cents": 500}}
SCRIPT: dict[str, Any] = {"clerk": [{"calls": [CALL]}, {"text": "It is on its way."}]}


def new_crib() -> tuple[Crib, Agents]:
    agents = Agents([Agent(name="clerk", instructions="You help.")], model=ScriptedModel(SCRIPT))
    return Crib([refund], store=STORE, agents=agents), agents


async def ask() -> str:
    crib, _ = new_crib()
    async with crib:
        session = await crib.open(owner="ada")
        outcome = await session.send("I want my money back", key="message-1")
        print(outcome.status, [question.prompt for question in outcome.questions])
        return session.id


async def answer(id: str) -> None:
    crib, agents = new_crib()
    async with crib:
        session = await crib.open(id, owner="ada")
        (question,) = await session.questions()
        print(question.path, dict(question.arguments))
        await session.answer(question.id, "accept", actor="bob")
        outcome = await agents.settled(session)
        print(outcome.answer if outcome else None)
        again = await session.send("I want my money back", key="message-1")
        print(again.answer)


asyncio.run(answer(asyncio.run(ask())))
