"""A process that shares its SQLite file with others. Arguments: the store, the file of effects."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from tests.durability.effects import append, heard, say
from toolcrib import Context, Crib, CribLimits, Refused, Result, Session, tool

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


@tool(read_only=True)
async def gaze(n: str) -> str:
    """Look, and stand still with the whole process until a file is there; then wait to be let go on."""
    say(f"gaze {n}")
    while not Path(f"{EFFECTS}.go").exists():
        time.sleep(0.01)  # noqa: ASYNC251 - as a body does that blocks
    await gate.wait()
    return n


@tool(idempotent=True)
async def count(by: int) -> Result:
    """Count."""
    return Result(by, changes=[{"op": "add", "key": "n", "value": by}])


@tool(idempotent=True)
async def rename(name: str) -> Result:
    """Change what one call at a time may change."""
    return Result(name, changes=[{"op": "set", "key": "name", "value": name}])


@tool(read_only=True)
async def seen(ctx: Context) -> dict[str, Any]:
    """The state."""
    return dict(ctx.state)


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


def failed(result: Result) -> list[str | None]:
    """Code and message of a failure."""
    return [None, None] if result.failure is None else [result.failure.code, result.failure.message]


async def wait_for(crib: Crib, session: Session, kind: str) -> str:
    return await logged(session, kind)


async def log_out(crib: Crib, session: Session, timeout: float) -> list[int]:
    return list(await (await crib.open("s", owner="ada")).close(timeout=timeout))


async def interrupt(crib: Crib, session: Session) -> int:
    return await session.interrupt(background=True)


async def called(crib: Crib, session: Session, tool: str, args: Any) -> list[str | None]:
    return failed(await session.call(tool, args))


async def submitted(crib: Crib, session: Session, tool: str, args: Any) -> list[str | None]:
    return failed(await session.result((await session.submit(tool, args)).id))


async def ended(crib: Crib, session: Session, call: str) -> list[str | None]:
    return failed(await session.result(call))


async def narrow(crib: Crib, session: Session) -> str:
    await session.narrow(namespaces=[])
    return "narrowed"


async def state(crib: Crib, session: Session) -> list[Any]:
    return [dict(session.state.now), session.state.revision]


OTHERS: dict[str, Any] = {
    "logged": wait_for,
    "logout": log_out,
    "interrupt": interrupt,
    "code": called,
    "submitted": submitted,
    "ended": ended,
    "narrow": narrow,
    "state": state,
}


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
    if what in OTHERS:
        return await OTHERS[what](crib, session, *given)
    result = await session.result(*given)
    return result.data if result.failure is None else result.failure.code


async def main() -> None:
    tools = [pay, put, look, stare, gaze, greet, count, rename, seen]
    crib = Crib(tools, store=STORE, limits=CribLimits(attempts=5, cleanup_s=1.0), state_keys={"n": "add"})
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
