"""A program of agents that may be told to die: `python -m tests.agent.killed FOLDER [before|after] EVENT`.

It dies by signal 9 right before or after the store has written that event. Without one it goes on with what there is,
says yes to every question, and prints what came of it.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.agent.place import UNGUARDED
from tests.agent.stories import named
from toolcrib import Crib, Event, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.store import Conflict, Write
from toolcrib.store.codec import event_json
from toolcrib.store.sqlite.store import SqliteStore

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
WHEN, WHAT = (*sys.argv[2:4], "", "")[:2]
SCRIPT: dict[str, Any] = {
    "support": [
        {
            "text": "Let me see.",
            "calls": [
                {"id": "l", "tool": "look", "args": {}},
                {"id": "p", "tool": "pay", "args": {}},
                {"id": "t", "tool": "transfer_to_agent", "args": {"agent_name": "billing"}},
            ],
        }
    ],
    "billing": [
        {"calls": [{"id": "d", "tool": "call_agent", "args": {"agent": "clerk", "prompt": "file it"}}]},
        {"text": "all done"},
    ],
    "clerk": [{"calls": [{"id": "f", "tool": "file", "args": {}}]}, {"text": "filed"}],
}


def did(what: str) -> None:
    with (FOLDER / "effects").open("a") as effects:
        effects.write(f"{what}\n")


@tool(read_only=True)
async def look() -> str:
    """Look."""
    return "seen"


@tool(requires_confirmation=True)
async def pay() -> str:
    """Pay."""
    did("pay")
    return "paid"


@tool
async def file() -> str:
    """File it."""
    did("file")
    return "filed"


class Deadly(SqliteStore):
    """A store in which the process dies at one event."""

    known: dict[str, str] = {}  # noqa: RUF012 - there is one

    def _deadly(self, write: Write) -> bool:
        found = False
        for at, call, kind, data in write.events:
            event = Event(0, at, call, kind, event_json(kind, data))
            found = named(event, self.known) == WHAT or found
        return found

    async def commit(self, write: Write) -> Conflict | None:
        deadly = bool(WHAT) and self._deadly(write)
        if deadly and WHEN == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        conflict = await super().commit(write)
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return conflict

    def put(self, write: Write) -> Conflict | None:
        if WHAT and self._deadly(write):
            if WHEN == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            conflict = super().put(write)
            asyncio.get_running_loop().create_task(self._dead())
            return conflict
        return super().put(write)

    async def _dead(self) -> None:
        await self.flush()
        os.kill(os.getpid(), signal.SIGKILL)


AGENTS = [
    Agent(name="support", instructions="S.", sub_agents=["billing"]),
    Agent(name="billing", instructions="B.", sub_agents=["clerk"]),
    Agent(name="clerk", instructions="C."),
]


async def main() -> None:
    agents = Agents(AGENTS, model=ScriptedModel(SCRIPT))
    store = Deadly(f"sqlite:///{FOLDER}/log.db")
    async with Crib([look, pay, file], store=store, agents=agents, policy=UNGUARDED) as crib:
        session = await crib.open("s", owner="ada")
        outcome = await session.send("go", key="one")
        while outcome.status == "waiting":
            for question in await session.questions():
                await session.answer(question.id, "accept")
            outcome = await agents.settled(session)
        events = [event async for event in session.events(follow=False)]
    told: dict[str, str] = {}
    print(json.dumps({"answer": outcome.answer, "reason": outcome.reason, "log": [named(e, told) for e in events]}))


if __name__ == "__main__":
    asyncio.run(main())
