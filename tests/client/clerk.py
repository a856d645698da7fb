"""The crib of servers that are killed while an agent works: its model and its tools wait at gates that are files.

Each request to the model and each run of a body is a line of a file that is synced before anything else happens.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from tests.agent.place import UNGUARDED
from toolcrib import Crib, tool
from toolcrib.agent import Agent, Agents
from toolcrib.agent.models import CompletionRequest, Delta, Model, ModelCall, Text

FOLDER = "TOOLCRIB_TEST_FOLDER"
LOOK_S = 0.02


def append(name: str, line: str) -> None:
    """A line that outlives a kill of this process."""
    handle = os.open(Path(os.environ[FOLDER], name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


async def opened(gate: str) -> None:
    """Waits until the test has opened a gate."""
    while not Path(os.environ[FOLDER], f"gate-{gate}").exists():  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(LOOK_S)


@tool(timeout=120)
async def charge() -> str:
    """Charge somebody, once."""
    append("charged", str(os.getpid()))
    await opened("body")
    return "charged"


class Clerk(Model):
    """A model that charges when it is told to, and then says that it has; each reply waits at its own gate."""

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        texts = [one.text for one in request.messages if one.role == "user" and not one.text.startswith("[[")]
        charged = request.messages[-1].role == "tool"
        step = f"{texts[-1]}-{'told' if charged else 'new'}"
        append("asked", f"{step} {os.getpid()}")
        yield Text("I ")
        await opened(step)
        if texts[-1] == "charge" and not charged:
            yield ModelCall("1", "charge", "{}")
        else:
            yield Text(f"did {texts[-1]}")


def crib() -> Crib:
    """One agent with one tool."""
    agents = Agents([Agent(name="main", tools=["charge"])], model=Clerk())
    return Crib([charge], agents=agents, policy=UNGUARDED)
