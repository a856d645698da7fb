"""An API node that makes calls of all kinds until the gate `stop` opens, and writes down what it was told.

Arguments: the store, the engine, its label, the number of its first call, calls a second. Its file holds JSON lines:
`submitted` before it asks, `acknowledged` when it was told that a call is accepted, `told` when it knows the outcome.
"""

import asyncio
import itertools
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from tests.cluster import cribs
from tests.cluster.place import again
from tests.durability.effects import append
from toolcrib import Refused, Result, Session

STORE, ENGINE, LABEL = sys.argv[1:4]
FIRST, RATE = int(sys.argv[4]), float(sys.argv[5])
FOLDER = Path(os.environ[cribs.FOLDER])
SESSIONS = 6
MOST = 300
"""Calls that it waits for at once; while there are more it makes none."""

KINDS = {"charge": 35, "mail": 15, "index": 25, "peek": 15, "stream": 5, "ask": 5}


def note(*words: Any) -> None:
    append(str(FOLDER / f"{LABEL}.told"), json.dumps(words))


def arguments(chance: random.Random, tool: str, n: int) -> dict[str, Any]:
    """Most bodies take a moment, in which they can be met by a kill."""
    if tool == "stream":
        return {"n": n, "upto": 20}
    return {"n": n} if tool == "ask" else {"n": n, "pause": round(chance.uniform(0, 0.4), 3)}


async def one(session: Session, tool: str, n: int, args: dict[str, Any]) -> None:
    """A call, from the first word to the last; its key makes sure that asking again asks for the same."""
    note("submitted", n, tool)
    call = await again(lambda: session.submit(tool, args, key=f"{tool}-{n}"))
    note("acknowledged", n, tool, call.id, session.id)
    result: Result = await again(lambda: session.result(call.id))
    note("told", n, call.id, "ok" if result.failure is None else result.failure.code)


async def answers(sessions: list[Session]) -> None:
    """Answers whatever is asked, whoever made the call."""
    while True:
        for session in sessions:
            for question in await again(session.questions):
                try:
                    await again(lambda id=question.id: session.answer(id, "accept", "yes"))  # type: ignore[misc]  # noqa: B023
                except Refused:
                    pass  # the other node was quicker
        await asyncio.sleep(0.5)


async def main() -> None:
    chance = random.Random(FIRST)
    crib = cribs.crib(store=STORE, engine=f"{ENGINE}&work=no")
    await crib.start()
    sessions = [await again(lambda s=s: crib.open(f"s{s}", owner=f"o{s % 3}")) for s in range(SESSIONS)]  # type: ignore[misc]
    print("ready", flush=True)
    answering = asyncio.ensure_future(answers(sessions))
    making: set[asyncio.Task[None]] = set()
    for n in itertools.count(FIRST):
        if (FOLDER / "gate-stop").exists():
            break
        if len(making) < MOST:
            (tool,) = chance.choices(list(KINDS), list(KINDS.values()))
            task = asyncio.ensure_future(one(chance.choice(sessions), tool, n, arguments(chance, tool, n)))
            making.add(task)
            task.add_done_callback(making.discard)
        await asyncio.sleep(chance.expovariate(RATE))
    await asyncio.gather(*making)
    answering.cancel()
    await asyncio.wait([answering])
    await crib.stop()


asyncio.run(main())
