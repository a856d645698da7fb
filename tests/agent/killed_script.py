"""A program whose agent writes a script, and that may be told to die: as `tests.agent.killed`, with its own events.

What a call writes when it runs for the second time is named with its number, as `started:run_script:2`.
"""

import asyncio
import json
from typing import Any

from tests.agent.killed import FOLDER, WHAT, Deadly, did
from tests.agent.place import UNGUARDED
from tests.agent.stories import named
from toolcrib import Crib, Event, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.store import Write
from toolcrib.store.codec import event_json
from toolcrib.testing.index_check import check_index

CODE = """
import asyncio, random, time
before = [random.random(), time.time()]
first, second = await asyncio.gather(look(n=1), look(n=2))
print("looked", first + second)
try:
    paid = await pay(cents=first + second)
except RuntimeError as error:
    paid = str(error)
try:
    filed = await file(n=1)
except RuntimeError as error:
    filed = str(error)
{"paid": paid, "filed": filed, "chance": [before, random.random()]}
"""
SCRIPT: dict[str, Any] = {
    "clerk": [{"calls": [{"id": "r", "tool": "run_script", "args": {"code": CODE}}]}, {"text": "all done"}]
}


@tool(idempotent=True)
async def look(n: int) -> int:
    """Look."""
    did(f"look{n}")
    return n


@tool(requires_confirmation=True)
async def pay(cents: int) -> str:
    """Pay."""
    did("pay")
    return "paid"


@tool
async def file(n: int) -> str:
    """File it."""
    did("file")
    return "filed"


class Numbered(Deadly):
    """A store in which the process dies at one event, which may be that of a later attempt."""

    def _deadly(self, write: Write) -> bool:
        if super()._deadly(write):
            return True
        for at, call, kind, data in write.events:
            event = Event(0, at, call, kind, event_json(kind, data))
            if f"{named(event, self.known)}:{event.fields.get('attempt')}" == WHAT:
                return True
        return False


async def main() -> None:
    agents = Agents([Agent(name="clerk", instructions="C.", tools=["*", "run_script"])], model=ScriptedModel(SCRIPT))
    store = Numbered(f"sqlite:///{FOLDER}/log.db")
    async with Crib([look, pay, file], store=store, agents=agents, policy=UNGUARDED) as crib:
        session = await crib.open("s", owner="ada")
        outcome = await session.send("go", key="one")
        while outcome.status == "waiting":
            for question in await session.questions():
                await session.answer(question.id, "accept")
            outcome = await agents.settled(session)
        events = [event async for event in session.events(follow=False)]
        await check_index(crib.store, "s")
    told: dict[str, str] = {}
    log = [named(event, told) for event in events]
    (result,) = [e.fields for e in events if e.kind == "done" and told[e.call or ""] == "run_script"]
    print(json.dumps({"answer": outcome.answer, "log": log, "result": result}))


if __name__ == "__main__":
    asyncio.run(main())
