"""The cribs of this folder's nodes. What a tool did is counted by its effect: a line in a file that nobody takes back.

The folder of that file, and of the gates that bodies wait for, stands in the environment of each process.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.agent.place import UNGUARDED
from tests.durability.effects import append
from toolcrib import Context, Crib, CribLimits, tool
from toolcrib.agent import Agent, Agents
from toolcrib.agent.models import CompletionRequest, Delta, Model, ModelCall, Text
from toolcrib.tool import Tool

FOLDER = "TOOLCRIB_TEST_FOLDER"
GATE_S = 0.1


def effect(what: str, n: int) -> None:
    """Happens, and says in which process."""
    append(f"{os.environ[FOLDER]}/effects", f"{what} {n} {os.getpid()}")


async def gate(name: str, pause: float = 0.0) -> None:
    """Waits until the test has opened it, which it does by a file of that name; or for as long as told."""
    if pause:
        await asyncio.sleep(pause)
    path = Path(os.environ[FOLDER], f"gate-{name}")
    while name and not path.exists():  # noqa: ASYNC110 - another process opens it
        await asyncio.sleep(GATE_S)


@tool(timeout=120)
async def charge(n: int, wait: str = "", pause: float = 0.0) -> str:
    """Charge somebody, once."""
    effect("charge", n)
    await gate(wait, pause)
    return f"charged {n}"


def sent(ctx: Context, n: int, wait: str = "", pause: float = 0.0) -> str | None:
    """Look whether that mail went out."""
    mails = [line.split()[:2] for line in Path(os.environ[FOLDER], "effects").read_text().splitlines()]
    return f"found {n}" if ["mail", str(n)] in mails else None


@tool(timeout=120, reconcile=sent)
async def mail(n: int, wait: str = "", pause: float = 0.0) -> str:
    """Send a mail, once; whether it went out can be found out."""
    effect("mail", n)
    await gate(wait, pause)
    return f"mailed {n}"


@tool(timeout=120, idempotent=True)
async def index(n: int, wait: str = "", pause: float = 0.0) -> str:
    """Write something to where it belongs, as often as need be."""
    effect("index", n)
    await gate(wait, pause)
    effect("indexed", n)
    return f"indexed {n}"


@tool(timeout=120, read_only=True)
async def peek(n: int, wait: str = "", pause: float = 0.0) -> str:
    """Change nothing."""
    effect("peek", n)
    await gate(wait, pause)
    return f"peeked {n}"


@tool(timeout=120, read_only=True)
async def stream(ctx: Context, upto: int, n: int = 0, wait: str = "") -> int:
    """Put out numbers, the second half of them behind a gate."""
    effect("stream", n)
    for number in range(upto):
        if 2 * number == upto:
            await gate(wait)
        ctx.output({"number": number})
        await asyncio.sleep(0)
    return upto


@tool(timeout=120)
async def ask(ctx: Context, n: int) -> str:
    """Ask before doing."""
    answer = await ctx.ask("Really?", key="really")
    effect("ask", n)
    return f"{answer.value} {n}"


@tool(timeout=120, idempotent=True)
async def errand(ctx: Context, n: int, wait: str = "") -> str:
    """Take a step and have others do the rest, all of which may happen only once."""
    effect("errand", n)
    await ctx.step("step", lambda: effect("step", n))
    done = await ctx.call("charge", {"n": n, "wait": wait})
    return str(done.data if done.failure is None else done.failure.code)


@tool(idempotent=True)
async def poison(n: int) -> str:
    """Kill whoever runs it, whenever it is run."""
    effect("poison", n)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool
async def poison_once(n: int) -> str:
    """Kill whoever runs it."""
    effect("poison_once", n)
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(idempotent=True, timeout=120)
async def block(n: int, seconds: float) -> str:
    """Let nothing else happen in its process."""
    effect("block", n)
    time.sleep(seconds)  # noqa: ASYNC251 - a tool that does what it should not
    return f"blocked {n}"


@tool(timeout=120, idempotent=True)
async def order(ctx: Context, n: int, first: str, then: str = "charge", wait: str = "") -> str:
    """Reserve, then charge: what is made for it is made once."""
    effect("order", n)
    try:
        await ctx.call(first, {"n": n, "wait": wait})
        effect("reserved", n)
        done = await ctx.call(then, {"n": n})
    except BaseException:
        effect("stopped", n)
        raise
    return str(done.data if done.failure is None else done.failure.code)


@tool(timeout=120, idempotent=True)
async def stubborn(ctx: Context, n: int, wait: str = "") -> str:
    """Catch whatever would stop it, and try to go on in every way there is."""
    effect("stubborn", n)
    await gate(wait)
    tries = (
        lambda: ctx.call("charge", {"n": n}),
        lambda: ctx.step("charge", lambda: effect("charge", n)),
        lambda: ctx.call("peek", {"n": n}),
        lambda: ctx.ask("Really?"),
    )
    for again in (*tries, *tries):
        try:
            await again()
        except BaseException:  # noqa: BLE001 - a tool that does what it should not
            effect("stopped", n)
    effect("ended", n)
    return "stubborn"


@tool(timeout=120, idempotent=True)
def loud(ctx: Context, n: int, wait: str = "") -> str:
    """Talk in a thread until somebody stops it."""
    effect("loud", n)
    path = Path(os.environ[FOLDER], f"gate-{wait}")
    try:
        while not path.exists():
            ctx.progress("talking")
            time.sleep(GATE_S)
    except BaseException:
        effect("stopped", n)
        raise
    effect("ended", n)
    return "loud"


def _paint(description: str) -> Tool:
    async def paint(n: int) -> str:
        effect("paint", n)
        return description

    return tool(description=description, idempotent=True)(paint)


TOOLS: tuple[Tool, ...] = (charge, mail, index, peek, stream, ask, errand, poison, poison_once, block)
TOOLS += (order, stubborn, loud)
LIMITS = CribLimits(per_session=1000, per_crib=1000, cleanup_s=1.0)


def crib(**more: Any) -> Crib:
    """All tools, and the older version of one that changed."""
    return Crib([*TOOLS, _paint("Paint it red.")], limits=LIMITS, **more)


@tool(timeout=120, idempotent=True)
async def jot(ctx: Context, n: int, wait: str = "") -> str:
    """Leave a note for the model behind a gate."""
    effect("jot", n)
    await gate(wait)
    effect("jotted", n)
    assert ctx.run is not None
    ctx.run.note(f"noted by {os.getpid()}")
    await ctx.step("after", lambda: None)
    effect("left", n)
    return "jotted"


class Boss(Model):
    """A model that has something noted, and is done."""

    async def respond(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        if all(one.role != "tool" for one in request.messages):
            yield ModelCall("1", "jot", '{"n": 1, "wait": "go"}')
        else:
            yield Text("done")


def agency(**more: Any) -> Crib:
    """An agent that has things noted."""
    agents = Agents([Agent(name="boss", tools=["jot"])], model=Boss())
    return Crib([jot], limits=LIMITS, agents=agents, policy=UNGUARDED, **more)


def newer() -> Crib:
    """The newer version of that one alone."""
    return Crib([_paint("Paint it blue.")], limits=LIMITS)


def bare() -> Crib:
    """Little more than nothing."""
    return Crib([peek], limits=LIMITS)
