"""A result that wakes its agent, in a program that may be told to die: `python -m tests.agent.killed_late FOLDER
[before|after] EVENT`. Without an event it goes on with what there is, and prints what the model has read.
"""

import asyncio
import json

from tests.agent.killed import FOLDER, Deadly
from tests.agent.place import UNGUARDED
from toolcrib import Crib, Event, tool
from toolcrib.agent import Agent, Agents, CompletionRequest, ScriptedModel


@tool(background=True, wake="wake", read_only=True)
async def job() -> str:
    """Take long."""
    return "done"


async def main() -> None:
    model = ScriptedModel({"main": [{"text": "woken"}]})
    agents = Agents([Agent(name="main")], model=model)
    async with Crib([job], store=Deadly(f"sqlite:///{FOLDER}/log.db"), agents=agents, policy=UNGUARDED) as crib:
        session = await crib.open("s", owner="ada")
        if not [event async for event in session.events(follow=False) if event.kind == "accepted"]:
            await session.submit("job", {})
        events: list[Event] = []
        async with asyncio.timeout(50):
            async for event in session.events():
                events.append(event)
                if event.kind == "run_finished":
                    break
        results = [call for event in events for call in event.fields.get("results", ())]
        turn = [event for event in events if event.kind == "turn_started"][-1]
        asked: CompletionRequest = await agents.request(session, turn.fields["run"], turn.fields["turn"])
        read = sum("Tool result for default.job" in one.text for one in asked.messages)
        unread = len(await session.completed(consumer="model"))
    said = {"answer": events[-1].fields["answer"], "results": len(results), "unread": unread, "read": read}
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main())
