import asyncio
from collections.abc import AsyncIterator

from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, CompletionRequest, Model, ScriptedModel, record
from toolcrib.agent.models import Delta, Finish, ModelCall, Text, Usage


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Adder(Model):
    """A model that can do one thing. A real one sends the request to its provider."""

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        last = request.messages[-1]
        if last.role == "tool":
            yield Text(f"It is {last.text}.")
        else:
            yield ModelCall("c1", request.tools[0].name, '{"a": 2, "b": 3}')
        yield Usage(input=10, output=5)
        yield Finish("stop")


async def ask(model: Model) -> None:
    agents = Agents([Agent(name="main", instructions="You add.")], model=model)
    async with Crib([add], agents=agents) as crib:
        session = await crib.open(owner="ada")
        outcome = await session.send("2 and 3?")
        print(outcome.answer, outcome.usage)


async def main() -> None:
    await ask(record(Adder(), "script.json"))
    await ask(ScriptedModel.load("script.json"))


asyncio.run(main())
