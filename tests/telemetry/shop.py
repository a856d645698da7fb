"""A crib that does a little of everything that is traced: calls, children, questions, agents below agents, MCP."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

from pydantic import Field

from toolcrib import Context, Crib, ToolFailure, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.sources.mcp import Mcp

SECRET = "hunter2-hunter2"
CONTENT = "a very private remark"


@tool(read_only=True)
async def add(a: int, note: str = "") -> dict[str, Any]:
    """Add one."""
    return {"sum": a + 1, "note": note}


@tool(read_only=True)
async def login(password: Annotated[str, Field(json_schema_extra={"format": "password"})]) -> str:
    """Log in."""
    return f"welcome {password}"


@tool(read_only=True)
async def stumble(note: str) -> None:
    """Break, with what it was given in the text of the error."""
    raise ValueError(f"{SECRET} {note}")


@tool(read_only=True)
async def refuse(note: str) -> None:
    """Fail on purpose."""
    raise ToolFailure("unavailable", f"No: {note}")


@tool
async def outer(ctx: Context) -> Any:
    """Call another tool."""
    return (await ctx.call("default.add", {"a": 1})).data


@tool
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    return f"hello {(await ctx.ask('Who are you?')).value}"


SCRIPT: dict[str, list[dict[str, Any]]] = {
    "clerk": [
        {
            "calls": [{"tool": "call_agent", "args": {"agent": "scout", "prompt": CONTENT}}],
            "usage": {"input": 7, "output": 3},
        },
        {"text": f"The scout says it: {CONTENT}", "usage": {"input": 9, "output": 5}},
    ],
    "scout": [
        {"calls": [{"tool": "add", "args": {"a": 4, "note": CONTENT}}], "usage": {"input": 2, "output": 1}},
        {"text": CONTENT, "usage": {"input": 3, "output": 1}},
    ],
}

TOOLS = [add, login, stumble, refuse, outer, greet]


def crib() -> Crib:
    """The crib."""
    agents = Agents(
        [
            Agent(name="clerk", instructions=f"You help. {CONTENT}", sub_agents=["scout"], model="openai:gpt-5"),
            Agent(
                name="scout", instructions="You look.", description="Looks.", tools=["add"], model="openai:gpt-5-mini"
            ),
        ],
        models=lambda name: ScriptedModel(SCRIPT),
    )
    return Crib(TOOLS, agents=agents)


def peer() -> Crib:
    """What the gateway calls."""
    return Crib(TOOLS)


def gateway() -> Crib:
    """A crib in front of another, by MCP."""
    env = {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}
    words = (sys.executable, "-m", "toolcrib", "mcp", "--crib", "tests.telemetry.shop:peer")
    return Crib([Mcp(*words, name="peer", env=env)], policy={"default": "allow"})
