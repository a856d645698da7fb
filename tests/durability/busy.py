"""A crib under load, to be killed: every kind of call at once, each done one told as soon as its caller knows.

Arguments: the store, the file of effects, the number of this life, or `last` for one that only ends what is open.
"""

import asyncio
import sys

from tests.durability.effects import append, say
from toolcrib import Context, Crib, CribLimits, Session, tool

STORE, EFFECTS, LIFE = sys.argv[1:]
LONG_S = 0.01  # long enough to be met by a kill


@tool
async def once(n: str) -> str:
    """Happen once."""
    append(EFFECTS, f"once {n}")
    await asyncio.sleep(LONG_S)
    return f"once {n}"


async def look(ctx: Context, n: str) -> str | None:
    """Say what became of it: even ones are known to have happened."""
    return f"found {n}" if n.endswith("0") else None


@tool(reconcile=look)
async def traced(n: str) -> str:
    """Happen once, and be found again."""
    append(EFFECTS, f"traced {n}")
    await asyncio.sleep(LONG_S)
    return f"traced {n}"


@tool(idempotent=True)
async def again(n: str) -> str:
    """Happen as often as need be."""
    append(EFFECTS, f"again {n}")
    await asyncio.sleep(LONG_S)
    return f"again {n}"


@tool(read_only=True)
async def look_up(n: str) -> str:
    """Change nothing."""
    await asyncio.sleep(LONG_S)
    return f"look_up {n}"


@tool
async def stepped(ctx: Context, n: str) -> str:
    """Take a step once, and stream around it."""
    ctx.output(f"before {n}")
    await ctx.step("mail", lambda: append(EFFECTS, f"stepped {n}"))
    ctx.progress("after", 1.0)
    return f"stepped {n}"


TOOLS = (once, traced, again, look_up, stepped)


async def worker(session: Session, number: int) -> None:
    """Calls one after the other for ever; half are submitted, half called."""
    count, first = 0, number % len(TOOLS)
    while True:
        for made in (*TOOLS[first:], *TOOLS[:first]):
            n = f"{LIFE}-{number}-{count}"
            count += 1
            call = await session.submit(made.name, {"n": n})
            say(["accepted", call.id, made.name, n])
            result = await session.result(call.id)
            say(["done", call.id, result.data if result.failure is None else result.failure.code])
            direct = await session.call(made.name, {"n": f"{n}-direct"}, key=f"{n}-direct")
            say(["direct", made.name, f"{n}-direct", direct.data])


async def main() -> None:
    crib = Crib(TOOLS, store=STORE, limits=CribLimits(attempts=100))
    await crib.start()
    session = await crib.open("s", owner="ada")
    say("ready")
    if LIFE == "last":
        for row in await crib.store.calls(None, ("queued", "running")):
            await session.result(row.id)
        await crib.stop()
    else:
        await asyncio.gather(*(worker(session, number) for number in range(8)))


asyncio.run(main())
