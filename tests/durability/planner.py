"""A process that schedules calls and makes them when they are due; told at which commit to stop and be killed.

Arguments: the store, the file of effects, the point at which to stop (or `none`): `before` or `after` a kind of event;
and the engine, if there is one.
"""

import asyncio
import sys
from typing import Any

from tests.durability.effects import append, heard, say
from toolcrib import Context, Crib, Result, Schedule, tool
from toolcrib.store import Conflict, Write

STORE, EFFECTS, POINT, *ENGINE = sys.argv[1:]


@tool(effect="once")
async def send(ctx: Context, n: str) -> str:
    """Send it."""
    append(EFFECTS, f"{n} {ctx.id}")
    return n


@tool(effect="once")
async def order(n: str) -> Result:
    """Order, and send something later."""
    append(EFFECTS, f"order {n}")
    return Result(n, schedules=[Schedule("send", {"n": n}, after=0.5)])


def stop_at(crib: Crib) -> None:
    """Stops for good before or after the first commit with that kind of event, so that it can be killed there."""
    commit: Any = crib.store.commit

    async def stopping(write: Write) -> Conflict | None:
        kinds = {event[2] for event in write.events}
        if POINT.startswith("before ") and POINT.removeprefix("before ") in kinds:
            say(POINT)
            await asyncio.Event().wait()
        conflict: Conflict | None = await commit(write)
        if POINT.startswith("after ") and POINT.removeprefix("after ") in kinds:
            say(POINT)
            await asyncio.Event().wait()
        return conflict

    setattr(crib.store, "commit", stopping)  # noqa: B010 - the store is real, and only made to wait


async def main() -> None:
    crib = Crib([send, order], store=STORE, engine=ENGINE[0] if ENGINE else None)
    stop_at(crib)
    await crib.start()
    session = await crib.open("s", owner="ada")
    say("ready")
    while True:
        match await heard():
            case ["once", n, after]:
                say((await session.schedule("send", {"n": n}, after=after, key=n)).id)
            case ["cron", n, expression]:
                say((await session.schedule("send", {"n": n}, cron=expression, missed="all", key=n)).id)
            case ["order", n]:
                say((await session.submit("order", {"n": n}, key=f"order {n}")).id)
            case ["cancel", id]:
                say(await session.cancel_schedule(id))
            case ["end", call]:
                result = await session.result(call)
                say("ok" if result.failure is None else result.failure.code)
            case ["scheduled", call]:
                result = await session.result(call)
                say(list(result.metadata.get("scheduled", ())))


asyncio.run(main())
