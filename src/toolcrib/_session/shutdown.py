"""The end of the calls of a process that stops: a while for what runs, and the rest is left to recovery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from toolcrib._call.abandoned_tasks import forsake
from toolcrib._session.session_table import SessionTable


async def wait_for_calls(table: SessionTable[Any], seconds: float) -> None:
    """Returns when nothing runs any more, or after so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            while running := table.calls():
                await asyncio.wait([asyncio.ensure_future(live.ended()) for live in running])
    except TimeoutError:
        pass


async def leave_to_recovery(table: SessionTable[Any], adrift: Iterable[asyncio.Task[Any]], cleanup: float) -> None:
    """What still runs is cancelled without a word in the log, and has a while to clean up; what is `adrift` is left."""
    tasks = []
    for session in table.all():
        for live in list(session.live.values()):
            if live.task is not None:
                live.task.cancel()
                tasks.append(live.task)
            live.end()
        session.live.clear()
    if tasks:
        await asyncio.wait(tasks, timeout=cleanup)
    forsake([*tasks, *adrift])
    table.clear()
