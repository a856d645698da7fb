"""A process of several over one store, which opens no session unless told to. Arguments: store, file of effects."""

import asyncio
import sys
from typing import Any

from tests.durability.effects import append, heard, say
from toolcrib import Context, Crib, CribLimits, Limits, Session, tool

STORE, EFFECTS = sys.argv[1:]
gate = asyncio.Event()


async def effect(what: str) -> None:
    """Happens, and waits to be let go on."""
    append(EFFECTS, what)
    say(what)
    await gate.wait()


@tool
async def pay(n: int) -> str:
    """Pay once."""
    await effect(f"pay {n}")
    return f"paid {n}"


@tool(idempotent=True)
async def put(n: int) -> str:
    """Put it there."""
    await effect(f"put {n}")
    return f"was put {n}"


@tool(read_only=True)
async def look(n: int) -> str:
    """Look."""
    await effect(f"look {n}")
    return f"saw {n}"


@tool(idempotent=True, limits=Limits(concurrency=1))
async def line(n: int) -> str:
    """One after the other."""
    await effect(f"line {n}")
    return f"stood {n}"


@tool(idempotent=True)
async def errand(ctx: Context, n: int) -> str:
    """Have something put there."""
    result = await ctx.call("put", {"n": n})
    return f"errand: {result.data}"


@tool(idempotent=True)
async def greet(ctx: Context) -> str:
    """Greet somebody."""
    return f"hello {(await ctx.ask('Name?')).value}"


@tool(idempotent=True)
async def introduce(ctx: Context) -> str:
    """Have somebody greeted."""
    result = await ctx.call("greet", {})
    return f"introduced: {result.data}"


async def ended(crib: Crib, call: str) -> str | None:
    """How a call ended, once it has; its session is not opened for that."""
    row = await crib.store.call(call)
    assert row is not None
    seen = 0
    while row.state != "done":
        await crib.store.wait(row.session, seen)
        session = await crib.store.session(row.session)
        assert session is not None
        seen = session.seq
        row = await crib.store.call(call)
        assert row is not None
    return row.code or "ok"


async def asked(session: Session) -> str:
    """The first question that is open."""
    async for event in session.events():
        if event.kind == "waiting":
            return str(event.fields["question"]["id"])
    raise AssertionError


async def do(crib: Crib, what: str, *given: Any) -> Any:
    """One command of the test."""
    if what == "ended":
        return await ended(crib, *given)
    session = await crib.open("s", owner="ada")
    if what == "asked":
        return await asked(session)
    if what == "answer":
        return (await session.answer(given[0], "accept", given[1])).value
    return (await session.submit(*given)).id


async def main() -> None:
    crib = Crib([pay, put, look, line, errand, greet, introduce], store=STORE, limits=CribLimits(attempts=5))
    await crib.start()
    say("ready")
    while command := await heard():
        if command == ["go on"]:
            gate.set()
        else:
            say({"told": await do(crib, *command)})


asyncio.run(main())
