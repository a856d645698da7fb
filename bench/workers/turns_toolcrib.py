"""toolcrib: Session.send with a model that makes so many calls and then answers, a session a turn, all of it logged."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count as counting

from protocol import Lane, Opener, serve

from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, CompletionRequest
from toolcrib.agent.models import Delta, Finish, Model, ModelCall, Text


@tool(read_only=True)
async def look(n: int = 0) -> dict[str, int]:
    """Look."""
    return {"n": n}


class Calling(Model):
    """Calls first, answers second."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        if request.messages[-1].role == "tool":
            yield Text("done")
        else:
            for n in range(self.count):
                yield ModelCall(f"c{n}", "look", f'{{"n":{n}}}')
        yield Finish("stop")


def bound(count: int) -> Opener:
    @asynccontextmanager
    async def lane() -> AsyncIterator[Lane]:
        agents = Agents([Agent(name="main", instructions="x")], model=Calling(count))
        numbers = counting()
        async with Crib([look], agents=agents) as crib:

            async def call(text: bytes) -> bytes:
                session = await crib.open(f"s{next(numbers)}", owner="ada")
                return ((await session.send(text.decode())).answer or "").encode()

            yield Lane(call, crib.store.flush)

    return lane


if __name__ == "__main__":
    serve({f"turn{count}": bound(count) for count in (10, 60)}, "toolcrib")
