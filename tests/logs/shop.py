"""The crib that wrote the recorded logs: tools and agents that make every kind of event happen.

The recorded calls name these tools by their fingerprints, so what stands here must stay as it is.
"""

import asyncio
import os
from typing import Any

from toolcrib import Context, Crib, ToolFailure, tool
from toolcrib.agent import Agent, Agents, ScriptedModel
from toolcrib.state import Key
from toolcrib.types import Change, CribLimits, Result

YEARS = 100 * 365 * 86400.0
"""The waiting calls of the recorded logs must not expire."""


@tool(read_only=True)
async def look_up(order: str) -> dict[str, Any]:
    """Look up an order."""
    return {"order": order, "cents": 500}


@tool(effect="once")
async def refund(order: str, cents: int = 100) -> str:
    """Refund an order."""
    return f"refunded {cents} of {order}"


@tool(effect="once")
async def pay(cents: int) -> str:
    """Pay somebody."""
    return f"paid {cents}"


@tool(effect="once")
async def ship(order: str) -> str:
    """Ship an order."""
    return f"shipped {order}"


@tool(idempotent=True)
async def choose(ctx: Context, things: list[str]) -> Any:
    """Ask a person to choose."""
    answer = await ctx.ask("Which one?", schema={"type": "string", "enum": things}, data={"things": things})
    return answer.value


@tool(idempotent=True)
async def report(ctx: Context, rows: int) -> Result:
    """Tell all that a call can tell while it runs."""
    ctx.progress("half of it", loaded=1, total=2)
    ctx.output("some text")
    ctx.output({"row": 1})
    ctx.activity("plan", {"steps": ["one"]})
    ctx.activity_delta("plan", [{"op": "add", "path": "/steps/-", "value": "two"}])
    price = await ctx.step("price", _price)
    try:
        await ctx.step("broken", _broken)
    except ToolFailure:
        pass
    changes = [Change("set", "price", price), Change("append", "seen", rows)]
    return Result({"rows": rows}, [{"type": "text", "text": "done"}], changes=changes, metadata={"pages": 1})


async def _price() -> int:
    return 7


async def _broken() -> int:
    raise ToolFailure("failed", "no price", hint="ask again")


@tool(read_only=True)
async def large() -> str:
    """Return more than stands in a line of the log."""
    return "x" * 70_000


@tool(read_only=True)
async def fail(code: str) -> None:
    """Fail."""
    raise ValueError(code)


@tool(background=True, wake="next_turn")
async def export(ctx: Context) -> str:
    """Work in the background."""
    ctx.output("exported")
    return "exported all"


@tool(effect="once")
async def hang(how: str) -> str:
    """Die in the middle, or run until somebody stops it."""
    if how == "die":
        os._exit(9)
    await asyncio.Event().wait()
    return "never"


TOOLS = (look_up, refund, pay, ship, choose, report, large, fail, export, hang)

POLICY = {
    "groups": {"finance": ["ann", "bob"]},
    "rules": [
        {"deny": "look_up(secret)", "reason": "not this one"},
        {"ask": "refund", "approvers": "finance", "quorum": 2, "escalate": {"after_s": 0.1, "to": ["cleo"]}},
        {"ask": "pay"},
        {"ask": "ship"},
        {"allow": "*"},
    ],
}

AGENTS = [
    Agent(
        name="clerk",
        instructions="Help.",
        tools=["look_up", "pay", "export", "builtin.run_script"],
        sub_agents=["billing"],
        topics=False,
    ),
    Agent(name="billing", instructions="Bill.", tools=["look_up", "pay"], model_settings={"window": 100}, topics=False),
]


def calls(*given: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A turn that calls tools."""
    return {"calls": [{"tool": tool, "args": args} for tool, args in given], **more}


SCRIPT = {
    "clerk": [
        {"text": "Hello there.", "reasoning": "They greet me.", "chunks": 2, "usage": {"input": 10, "output": 4}},
        calls(("look_up", {"order": "A-7"}), ("export", {}), text="I look."),
        calls(("run_script", {"code": "await pay(cents=3)"})),
        {"text": "Paid."},
        calls(("call_agent", {"agent": "billing", "prompt": "How much is A-7?"})),
        calls(("transfer_to_agent", {"agent_name": "billing", "reason": "money"})),
        {"text": "Back with me.", "kept": {"signature": "abc"}},
        calls(("pay", {"cents": 9})),
        {"text": "Paid 9."},
        {"text": "Now I have time."},
    ],
    "billing": [
        calls(("look_up", {"order": "A-7"})),
        {"text": "It is 500. " + "x" * 400},
        {"text": "A long talk about A-7."},
        {"text": "I take over."},
    ],
}


def agents() -> Agents:
    """The agents of the shop."""
    return Agents(AGENTS, model=ScriptedModel(SCRIPT))


def crib(url: str, **options: Any) -> Crib:
    """A crib with all of it over a store."""
    limits = CribLimits(confirm_s=YEARS, client_s=YEARS)
    keys: dict[str, Any] = {"price": "exclusive", "seen": "append", "draft": Key("exclusive", "run")}
    return Crib(
        TOOLS, store=url, policy=POLICY, limits=limits, retention=None, agents=agents(), state_keys=keys, **options
    )
