"""A served crib with agents that follow a script, and clients of npm that talk to it line by line."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.agent.place import UNGUARDED
from tests.npm import node
from tests.serve.api.place import SOON_S, Desk, desk
from toolcrib import Context, Crib, Tool, tool
from toolcrib.agent import Agent, Agents, ScriptedModel

HERE = Path(__file__).parent


@tool(namespace="shop", read_only=True)
async def find(ctx: Context, order: str) -> dict[str, Any]:
    """Look an order up."""
    ctx.progress("looking", 0.5)
    ctx.output("found it")
    return {"order": order, "cents": 4200}


@tool(namespace="shop", destructive=True)
async def refund(order: str, cents: int) -> dict[str, Any]:
    """Refund part of an order."""
    return {"receipt": f"{order}/{cents}"}


TOOLS: tuple[Tool, ...] = (find, refund)


def crib(turns: Mapping[str, Sequence[Mapping[str, Any]]], *agents: Agent, tools: Sequence[Any] = TOOLS) -> Crib:
    """A crib whose agents say and call what stands in `turns`, by agent."""
    made = agents or (Agent(name="desk", instructions="Help.", tools=["shop.*", "client.*"]),)
    team = Agents(list(made), model=ScriptedModel(turns))
    return Crib(list(tools), agents=team, default_namespaces=["shop"], policy=UNGUARDED)


class Client:
    """A program that takes a step as a line of JSON and answers with one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def step(self, **step: Any) -> Any:
        """Does one thing, and tells what came of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(step).encode() + b"\n")
        async with asyncio.timeout(SOON_S):
            line = await self._process.stdout.readline()
        assert line, "the client ended"
        return json.loads(line)


@asynccontextmanager
async def client(script: str, *arguments: str) -> AsyncIterator[Client]:
    """One of the scripts beside this file, in Node."""
    process = await asyncio.create_subprocess_exec(
        node(),
        str(HERE / script),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        yield Client(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def served(given: Crib, **site: Any) -> AsyncIterator[tuple[Desk, str]]:
    """A server and its address."""
    async with desk(given, **site) as place:
        yield place, str(place.http.base_url).rstrip("/")
