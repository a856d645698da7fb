"""A process that is killed between a commit and the hint of it. Arguments: the store."""

import asyncio
import os
import signal
import sys

from tests.durability.effects import heard, say
from toolcrib.events import Notice
from toolcrib.store import Write, draft
from toolcrib.store.postgres.store import PostgresStore


async def die(hints: list[str]) -> None:
    """Ends the process where it would send hints."""
    os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    store = PostgresStore(sys.argv[1])
    await store.start("w-unsaid")
    say("ready")
    session = (await heard())[0]
    store._hints._send = die
    await store.commit(Write(session, [draft(1.0, None, Notice("committed", {}))]))
    await asyncio.Event().wait()


asyncio.run(main())
