"""A process that sends messages to an agent. Arguments: the store, a folder, its name, the engine where there is one.

Its model writes down that it was asked, says so, and answers when the gate of the message is open.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.agent.place import UNGUARDED
from tests.durability.effects import append, heard, say
from toolcrib import Crib, CribLimits, Refused, Session, tool
from toolcrib.agent import Agent, Agents, AgentSource
from toolcrib.agent.models import CompletionRequest, Delta, Model, ModelCall, Text

STORE, FOLDER, NAME, *ENGINE = sys.argv[1:]
LOOK_S = 0.02


async def opened(gate: str) -> None:
    """Waits until the test has opened a gate."""
    while not (Path(FOLDER) / gate).exists():  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(LOOK_S)


class Gated(Model):
    """A model that echoes the last message of its user; `call` has it call a tool first, `delegate` an agent."""

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        text = [one.text for one in request.messages if one.role == "user" and not one.text.startswith("[[")][-1]
        called = any(one.role == "tool" for one in request.messages)
        append(f"{FOLDER}/asked", f"{request.session} {text}")
        append(f"{FOLDER}/asked_by", f"{NAME} {text}")
        say(["asked", NAME, text])
        yield Text(f"{NAME} ")
        await opened(f"gate-{text}")
        say(["replies", NAME, text])
        if text == "delegate" and not called:
            yield ModelCall("1", "call_agent", '{"agent": "helper", "prompt": "call-help"}')
            return
        if text == "pay" and not called:
            yield ModelCall("1", "pay", "{}")
            return
        if text.startswith("call") and not called:
            yield ModelCall("1", "work", "{}")
            return
        yield Text(f"says {text}")


@tool(idempotent=True)
async def work() -> str:
    """Work until the gate is open."""
    append(f"{FOLDER}/worked", NAME)
    say(["works", NAME])
    await opened("gate-work")
    return "worked"


@tool
async def pay() -> str:
    """Pay."""
    append(f"{FOLDER}/paid", NAME)
    return "paid"


async def send(session: Session, text: str, options: dict[str, Any]) -> None:
    try:
        outcome = await session.send(text, **options)
    except Refused as error:
        say(["sent", NAME, text, error.code, error.message])
    else:
        say(["sent", NAME, text, outcome.run, outcome.status, outcome.reason])


def stop_at(write: Any) -> None:
    """Stops this process before it writes an event of a kind, or one of an agent, if the test wants that; once."""
    kinds = {name for event in write.events for name in (event[2], f"{event[2]}-{getattr(event[3], 'agent', '')}")}
    for kind in kinds:
        wanted = Path(FOLDER) / f"stop-{NAME}-{kind}"
        if wanted.exists():
            wanted.unlink()
            say(["stops", NAME, kind])
            os.kill(os.getpid(), signal.SIGSTOP)


def stopping(store: Any) -> None:
    """Has all writes of a store ask first whether the process is to stop."""
    commit, put = store.commit, store.put

    async def commit_or_stop(write: Any) -> Any:
        stop_at(write)
        return await commit(write)

    def put_or_stop(write: Any) -> Any:
        stop_at(write)
        return put(write)

    store.commit, store.put = commit_or_stop, put_or_stop


async def main() -> None:
    both = [Agent(name="main", tools=["work", "pay"], sub_agents=["helper"]), Agent(name="helper", tools=["work"])]
    agents = Agents(both, model=Gated())
    given_up_at_once = (Path(FOLDER) / "one-attempt").exists()
    async with Crib(
        [work, pay, AgentSource(agents, "default")],
        store=STORE,
        engine=ENGINE[0] if ENGINE else None,
        agents=agents,
        policy=UNGUARDED,
        limits=CribLimits(attempts=1) if given_up_at_once else None,
    ) as crib:
        stopping(crib.store)
        say("ready")
        sent: set[asyncio.Task[None]] = set()
        while True:
            said: Any = await heard()
            if said[0] == "open":
                await crib.open(said[1], owner="ada")
                say("opened")
            elif said[0] == "submit":
                session = await crib.open(said[1], owner="ada")
                say(["submitted", (await session.submit(*said[2:])).id])
            elif said[0] == "interrupt":
                await (await crib.open(said[1], owner="ada")).interrupt()
                say("interrupted")
            elif said[0] == "send":
                _, at, id, text, options = said
                session = await crib.open(id, owner="ada")
                await asyncio.sleep(max(0.0, at - time.time()))  # all who send begin at the same moment
                sent.add(asyncio.create_task(send(session, text, options)))


if __name__ == "__main__":
    asyncio.run(main())
