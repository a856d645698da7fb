"""A process that shares its SQLite file with others. Arguments: the store, the file of effects."""

import asyncio
import sys
from typing import Any

from tests.durability.effects import append, heard, say
from toolcrib import Context, Crib, CribLimits, Refused, Session, tool

STORE, EFFECTS = sys.argv[1:]
gate = asyncio.Event()


@tool
async def pay(n: str) -> str:
    """Pay once, and wait to be let go on."""
    append(EFFECTS, f"pay {n}")
    say(f"pay {n}")
    await gate.wait()
    return f"paid {n}"


@tool(idempotent=True)
async def put(n: str) -> str:
    """Put it there, and wait to be let go on."""
    append(EFFECTS, f"put {n}")
    say(f"put {n}")
    await gate.wait()
    return f"was put {n}"


@tool(read_only=True)
async def look(n: str) -> str:
    """Look at once."""
    append(EFFECTS, f"look {n}")
    return f"saw {n}"


@tool(read_only=True)
async def stare(n: str) -> str:
    """Look, and say that it has begun before anything is written."""
    append(EFFECTS, f"stare {n}")
    say(f"stare {n}")
    sys.stdin.read()  # the whole process stands still until it is killed
    return n


@tool
async def greet(ctx: Context) -> str:
    """Greet somebody."""
    name = (await ctx.ask("Name?")).value
    append(EFFECTS, f"greet {name}")
    return f"hello {name}"


async def logged(session: Session, kind: str) -> str:
    """Waits until such an event is in the log."""
    async for event in session.events():
        if event.kind == kind:
            break
    return kind


async def asked(session: Session) -> list[str]:
    """The open questions, once there is one."""
    await logged(session, "waiting")
    return [question.id for question in await session.questions()]


async def do(crib: Crib, session: Session, what: str, *given: Any) -> Any:
    """One command of the test."""
    if what == "submit":
        return (await session.submit(*given)).id
    if what == "call":
        return (await session.call(*given)).data
    if what == "open":
        await crib.open("s", owner="ada")
        return "opened"
    if what == "close":
        asyncio.ensure_future(session.close(timeout=60)).add_done_callback(lambda _: say("closed"))
        return await logged(session, "closing")
    if what == "questions":
        return await asked(session)
    if what == "answer":
        return (await session.answer(given[0], "accept", given[1])).value
    if what == "cancel":
        return await session.cancel(*given)
    if what == "calls":
        return [row.tool for row in await crib.store.calls("s")]
    result = await session.result(*given)
    return result.data if result.failure is None else result.failure.code


async def main() -> None:
    crib = Crib([pay, put, look, stare, greet], store=STORE, limits=CribLimits(attempts=5))
    await crib.start()
    session = await crib.open("s", owner="ada")
    say("ready")
    while command := await heard():
        if command == ["go on"]:
            gate.set()
            continue
        try:
            say(await do(crib, session, *command))
        except Refused as error:
            say(error.code)


asyncio.run(main())
