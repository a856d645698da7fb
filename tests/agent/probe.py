"""What the loop costs: `python -m tests.agent.probe` prints one turn with ten calls, and what one call more adds."""

import asyncio
import time
from collections.abc import AsyncIterator

from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents, Request
from toolcrib.agent.models import Delta, Finish, ModelCall, Text


@tool(read_only=True)
async def look(n: int = 0) -> dict[str, int]:
    """Look."""
    return {"n": n}


class Calling:
    """A model that makes so many calls, and then answers."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def respond(self, request: Request) -> AsyncIterator[Delta]:
        if request.messages[-1].role == "tool":
            yield Text("done")
        else:
            for number in range(self.count):
                yield ModelCall(f"c{number}", "look", f'{{"n":{number}}}')
        yield Finish("stop")


async def best(count: int, rounds: int = 60) -> float:
    """The seconds of the quickest of some runs, each in a session of its own."""
    times = []
    agents = Agents([Agent(name="main", instructions="x")], model=Calling(count))
    async with Crib([look], agents=agents) as crib:
        for number in range(rounds):
            session = await crib.open(f"s{number}", owner="ada")
            begun = time.perf_counter()
            assert (await session.send("go")).answer == "done"
            times.append(time.perf_counter() - begun)
    return min(times)


async def main() -> None:
    ten, sixty = await best(10), await best(60)
    print(f"ten calls: {ten * 1e3:.2f} ms; one more: {(sixty - ten) / 50 * 1e6:.1f} us")


if __name__ == "__main__":
    asyncio.run(main())
