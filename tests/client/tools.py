"""Tools for the tests of the client; each waits for what a test says, never for time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.agent.place import UNGUARDED
from toolcrib import Change, Context, Crib, Result, ToolFailure, tool
from toolcrib.agent import Agent, Agents, ScriptedModel

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SCRIPT: dict[str, Any] = {
    "support": [{"calls": [{"tool": "transfer_to_agent", "args": {"agent_name": "billing", "reason": "an invoice"}}]}],
    "billing": [
        {"calls": [{"tool": "add", "args": {"a": 7, "b": 5}}]},
        {"text": "It was 12."},
        {"calls": [{"tool": "refund", "args": {"order": "A-7", "cents": 500}}]},
        {"text": "Refunded."},
    ],
}


class Doors:
    """What a test waits for in a tool, and what a tool waits for in a test."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.left = asyncio.Event()
        self.go = asyncio.Event()
        self.ran: list[str] = []


@tool(namespace="shop", read_only=True)
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(namespace="shop", read_only=True, repeat=None)
async def broken(how: str) -> str:
    """Fail in one way or another."""
    if how == "bug":
        raise RuntimeError("a secret")
    raise ToolFailure("failed", "no paint left", hint="buy some")


@tool(namespace="shop", destructive=True)
async def refund(order: str, cents: int) -> dict[str, Any]:
    """Refund part of an order."""
    return {"order": order, "cents": cents}


@tool(namespace="shop", read_only=True)
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.ask("What is your name?", schema=NAME, key="name")
    return f"Hello, {answer.value['name']}!"


@tool(namespace="shop", read_only=True, background=True, deps=("doors",))
async def parcel(ctx: Context, doors: Doors, n: int) -> str:
    """Pack a parcel in the background."""
    ctx.progress("packing", 0.5)
    await doors.go.wait()
    return f"parcel {n}"


@tool(namespace="shop", deps=("doors",))
async def charge(doors: Doors, n: int) -> str:
    """Charge somebody, once."""
    doors.ran.append(f"charge {n}")
    return f"charged {n}"


@tool(namespace="shop", read_only=True, deps=("doors",))
async def hold(doors: Doors) -> str:
    """Wait until the test says so."""
    doors.entered.set()
    try:
        await doors.go.wait()
    finally:
        doors.left.set()
    return "held"


@tool(namespace="shop", read_only=True)
async def count(upto: int, text: str = "n") -> AsyncIterator[str]:
    """Count, one piece after the other."""
    for number in range(upto):
        yield f"{text}{number} "


@tool(namespace="shop")
async def remember(ctx: Context, thing: str) -> Result:
    """Keep something in the session."""
    return Result(dict(ctx.state), changes=[Change("set", "thing", thing)])


@tool(namespace="shop", read_only=True)
async def who(ctx: Context) -> Any:
    """Tell what the client said of its user."""
    return dict(ctx.user)


@tool(namespace="shop", read_only=True, output_bytes=100)
async def large() -> str:
    """Say more than fits."""
    return "all work and no play " * 100


@tool(namespace="shop", idempotent=True, timeout=120)
async def tally(ctx: Context, upto: int, gate: str) -> int:
    """Put out numbers, the second half behind a gate that is a file."""
    for number in range(upto):
        while 2 * number >= upto and not Path(gate).exists():  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(0.05)
        ctx.output({"number": number})
        await asyncio.sleep(0)
    return upto


@tool(namespace="shop", timeout=120)
async def pay(n: int) -> str:
    """Pay, once; nobody hears of the receipt."""
    await asyncio.Event().wait()
    return f"receipt {n}"


@tool(namespace="forge", read_only=True)
async def build() -> str:
    """Build something."""
    return "built"


TOOLS = (add, broken, refund, greet, parcel, charge, hold, count, remember, who, large, tally, pay, build)


def agents() -> Agents:
    """Support, which hands over to billing."""
    both = [
        Agent(name="support", description="Answers.", sub_agents=["billing"]),
        Agent(name="billing", description="Knows invoices.", tools=["add", "refund"]),
    ]
    return Agents(both, model=ScriptedModel(SCRIPT), default="support")


def crib(**more: Any) -> Crib:
    """All of them."""
    return Crib(TOOLS, deps={"doors": Doors()}, **{"policy": UNGUARDED, **more})
