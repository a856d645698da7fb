"""A store with very many waiting calls: `fill` writes them, `serve` starts and answers one.

Arguments: which of the two, the store, how many.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from tests.durability.effects import heard, say
from toolcrib import Context, Crib, tool
from toolcrib.store import Draft, Row, Write, open_store
from toolcrib.store.codec import Stored, encode

WHAT, STORE, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
PER_SESSION = 1000


@tool
async def greet(ctx: Context) -> str:
    """Greet somebody."""
    return f"hello {(await ctx.ask('Name?', key='name')).value}"


def waiting(session: str, id: str) -> Write:
    """A call that has asked, as the pipeline would have written it."""
    question: dict[str, Any] = {
        "id": f"{id}-1",
        "call": id,
        "session": session,
        "tool": "default.greet",
        "kind": "input",
        "prompt": "Name?",
        "key": "name",
        "arguments": {},
        "schema": None,
        "resume": "pass",
        "digest": "",
        "path": [],
        "asked_at": 0.0,
        "expires_at": time.time() + 3600,
    }
    accepted = {
        "tool": "default.greet",
        "label": "Greet",
        "args": {},
        "by": {"kind": "user", "name": ""},
        "digest": "",
        "effect": "once",
    }
    events: list[Draft] = [
        (0.0, id, "accepted", Stored(encode(accepted))),
        (0.0, id, "started", Stored(encode({"attempt": 1, "args": {}, "digest": "", "timeout_s": 60}))),
        (0.0, id, "waiting", Stored(encode({"question": question}))),
    ]
    row = Row(id, session, "default.greet", "once", "waiting", 1, "w-dead")
    row.question, row.expires_at = question["id"], question["expires_at"]
    return Write(session, events, row)


async def fill() -> None:
    store = open_store(STORE)
    await store.start("w-dead")
    for first in range(0, COUNT, PER_SESSION):
        session = f"s-{first}"
        await store.open(session, "ada", time.time())
        for n in range(first, min(COUNT, first + PER_SESSION)):
            store.put(waiting(session, f"c{n}"))
        await store.flush()
    await store.close()
    say("filled")


def resident() -> int:
    """The memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def serve() -> None:
    before = time.perf_counter()
    crib = Crib([greet], store=STORE)
    await crib.start()
    session = await crib.open("s-0", owner="ada")
    await session.answer("c7-1", "accept", "bob")
    result = await session.result("c7")
    say([result.data, time.perf_counter() - before, resident()])
    await heard()


asyncio.run(fill() if WHAT == "fill" else serve())
