"""The tools and agents of the workload. Each body tells the witness, and takes a moment in which a fault may come."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.faults.witness import Witness
from toolcrib import Change, Context, Crib, CribLimits, Result, tool
from toolcrib.agent import Agent, Agents, CompletionRequest, Message, Model
from toolcrib.agent.models import Delta, Finish, ModelCall, Text

ATTEMPTS = 1000
"""No call is given up for the faults that it meets here."""

MOMENT_S = 0.15
STATE_KEYS: dict[str, Any] = {"total": "add", "items": "append"}
ONCE = ("charge", "mail", "settle", "greet", "note")
"""The tools whose bodies may run once."""

STEPS = ("pack", "label")
witness: Witness


async def moment() -> None:
    """Long enough to be met by a fault."""
    await asyncio.sleep(random.random() * MOMENT_S)


@tool(read_only=True)
async def peek(ctx: Context, n: str) -> str:
    """Change nothing."""
    await moment()
    return f"peek {n}"


@tool(idempotent=True)
async def index(ctx: Context, n: str) -> str:
    """Write something to where it belongs, as often as need be."""
    witness.saw("index", n, ctx)
    await moment()
    return f"index {n}"


@tool
async def charge(ctx: Context, n: str) -> str:
    """Charge somebody, once."""
    witness.saw("charge", n, ctx)
    await moment()
    return f"charge {n}"


async def sent(ctx: Context, n: str) -> str | None:
    """Look whether that mail went out."""
    return f"mail {n}" if any(one.kind == "mail" and one.n == n for one in witness.effects()) else None


@tool(reconcile=sent)
async def mail(ctx: Context, n: str) -> str:
    """Send a mail, once; whether it went out can be found out."""
    witness.saw("mail", n, ctx)
    await moment()
    return f"mail {n}"


@tool(idempotent=True)
async def reserve(ctx: Context, n: str) -> str:
    """Reserve the goods of an order."""
    witness.saw("reserve", n, ctx)
    await moment()
    return f"reserve {n}"


@tool
async def settle(ctx: Context, n: str) -> str:
    """Take the money for an order, once."""
    witness.saw("settle", n, ctx)
    await moment()
    return f"settle {n}"


@tool(idempotent=True)
async def order(ctx: Context, n: str) -> list[str]:
    """Reserve, then settle, each by a child."""
    witness.saw("order", n, ctx)
    results = [await ctx.call("reserve", {"n": n}), await ctx.call("settle", {"n": n})]
    return [str(one.data if one.failure is None else one.failure.code) for one in results]


@tool(idempotent=True)
async def ship(ctx: Context, n: str) -> list[Any]:
    """Take two steps, each with a value that tells which attempt took it."""

    def step(name: str) -> list[Any]:
        witness.saw(name, n, ctx)
        return [name, ctx.attempt, os.getpid()]

    ctx.output(f"packing {n}\n")
    packed = await ctx.step("pack", lambda: step("pack"))
    await moment()
    ctx.progress("packed", 0.5)
    labelled = await ctx.step("label", lambda: step("label"))
    await moment()
    return [packed, labelled]


@tool
async def greet(ctx: Context, n: str) -> str:
    """Ask somebody before doing something once."""
    answer = await ctx.ask("Really?", key="really")
    witness.saw("greet", n, ctx)
    await moment()
    return f"{answer.value} {n}"


@tool(idempotent=True, background=True, wake="silent")
async def chore(ctx: Context, n: str) -> str:
    """Do something that nobody waits for."""
    witness.saw("chore", n, ctx)
    await moment()
    return f"chore {n}"


@tool(idempotent=True, timeout=120)
async def linger(ctx: Context, n: str) -> str:
    """Take long enough to be stopped."""
    witness.saw("linger", n, ctx)
    await asyncio.sleep(3)
    return f"linger {n}"


@tool(idempotent=True)
async def tally(ctx: Context, n: str) -> Result:
    """Change keys of the state that many may change at once."""
    witness.saw("tally", n, ctx)
    await moment()
    return Result(f"tally {n}", changes=[Change("add", "total", 1), Change("append", "items", n)])


@tool(idempotent=True)
async def mark(ctx: Context, n: str) -> Result:
    """Change a key of the state that one may change at a time."""
    witness.saw("mark", n, ctx)
    await moment()
    return Result(f"mark {n}", changes=[Change("set", "last", n)])


@tool
async def note(ctx: Context, n: str) -> str:
    """Write down what was said, once."""
    witness.saw("note", n, ctx)
    await moment()
    return f"note {n}"


class Clerk(Model):
    """A model without memory: its reply follows from the messages alone.

    `write down X` makes a call of `note`; `pass on X` is handed to the desk first.
    """

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        """The reply to the last message of a person."""
        await asyncio.sleep(random.random() * 0.05)
        text, since = _last(request.messages)
        word = text.rpartition(" ")[2]
        if text.startswith("pass on") and request.agent == "front":
            yield ModelCall(
                f"m-{word}-t", "transfer_to_agent", f'{{"agent_name": "desk", "message": "write down {word}"}}'
            )
            yield Finish("calls")
        elif not word or any(call.name == "note" for one in since for call in one.calls):
            yield Text(f"It is written down: {word}")
            yield Finish("stop")
        else:
            yield ModelCall(f"m-{word}", "note", f'{{"n": "{word}"}}')
            yield Finish("calls")


def _last(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """The text of the last message of a person, and what came after it."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            return messages[place].text, messages[place + 1 :]
    return "", messages


TOOLS = (peek, index, charge, mail, reserve, settle, order, ship, greet, chore, linger, tally, mark, note)


def team() -> Agents:
    """Who answers messages."""
    desk = Agent(name="desk", tools=["note"])
    return Agents([Agent(name="front", tools=["note"], sub_agents=["desk"]), desk], model=Clerk())


def crib(folder: Path, store: str, engine: Any = None) -> Crib:
    """The crib of every node of a round."""
    global witness  # noqa: PLW0603 - bodies are functions, and a process has one round
    witness = Witness(folder)
    limits = CribLimits(attempts=ATTEMPTS, per_session=1000, per_crib=1000, cleanup_s=1.0)
    return Crib(
        TOOLS,
        store=store,
        engine=engine,
        limits=limits,
        state_keys=STATE_KEYS,
        agents=team(),
        policy={"preset": "developer"},  # nobody is there to be asked
    )


def plain() -> Crib:
    """The same tools and keys of the state, for the command line."""
    return Crib(TOOLS, state_keys=STATE_KEYS)
