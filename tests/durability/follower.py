"""Follows a session that another process writes, and leaves and comes back at random. Arguments: store, seed, mode.

With mode `write` it also calls tools of its own, so that two processes number one log.
"""

import asyncio
import random
import sys

from tests.durability.effects import say
from toolcrib import Crib, Session, tool

STORE, SEED, MODE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
VISITS = 100


@tool
async def count(n: int) -> int:
    """Count."""
    return n


async def visits(session: Session, chance: random.Random) -> None:
    """Reads a few events, leaves, and comes back where it was; tells what it saw, and stops at the notice `end`."""
    after = 0
    for visit in range(VISITS + 1):
        most = chance.randint(1, 40) if visit < VISITS else 2**62
        async for event in session.events(after=after):
            say([event.seq, event.call, event.kind, event.fields])
            after = event.seq
            most -= 1
            if event.kind == "notice" and event.fields["text"] == "end":
                return
            if most == 0:
                break


async def main() -> None:
    async with Crib([count], store=STORE) as crib:
        session = await crib.open("s", owner="ada")
        say("ready")
        following = asyncio.ensure_future(visits(session, random.Random(SEED)))
        if MODE == "write":
            for n in range(200):
                await session.call("count", {"n": n})
            await session.notice("second is through")
        await following
    say("end")


asyncio.run(main())
