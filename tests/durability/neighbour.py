"""A process that shares its SQLite file with others. Arguments: the store, the file of effects."""

import asyncio
import sys

from tests.durability.effects import append, heard, say
from toolcrib import Context, Crib, CribLimits, Refused, tool

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


async def main() -> None:
    crib = Crib([pay, put, look, stare, greet], store=STORE, limits=CribLimits(attempts=5))
    await crib.start()
    session = await crib.open("s", owner="ada")
    say("ready")
    while True:
        match await heard():
            case ["submit", tool, args]:
                say((await session.submit(tool, args)).id)
            case ["call", tool, args]:
                say((await session.call(tool, args)).data)
            case ["open"]:
                await crib.open("s", owner="ada")
                say("opened")
            case ["go on"]:
                gate.set()
            case ["questions"]:
                async for event in session.events():
                    if event.kind == "waiting":
                        break
                say([question.id for question in await session.questions()])
            case ["answer", question, value]:
                try:
                    say((await session.answer(question, "accept", value)).value)
                except Refused as error:
                    say(error.code)
            case ["cancel", call]:
                try:
                    say(await session.cancel(call))
                except Refused as error:
                    say(error.code)
            case ["result", call]:
                result = await session.result(call)
                say(result.data if result.failure is None else result.failure.code)
            case ["calls"]:
                say([row.tool for row in await crib.store.calls("s")])


asyncio.run(main())
