"""Stopping a call wherever it is: waiting, queued, or running in another process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolcrib.calls.answering import end_waiting, revive
from toolcrib.errors import Refused
from toolcrib.store import Row
from toolcrib.types import Failure, Result

if TYPE_CHECKING:
    from toolcrib.session import Session

LOOK_S = 1.0
ASK_S = 0.5
"""How long the worker that runs a call has to hear of it before the store is asked whether it still lives."""


async def stop(session: Session, row: Row, failure: Failure) -> bool:
    """Ends a call that this process does not run, and returns when it has its `done`; whether it was stopped.

    Raises:
        Refused: `unavailable`, another process runs it and there is no engine to reach it.
    """
    asked = False
    while row.state != "done":
        if row.state == "waiting":
            stopped = await end_waiting(session, row, failure)
        elif (live := session.live.get(row.id)) is not None:  # it has just been let go on
            live.stop(failure)
            await live.ended()
            stopped = False
        elif session.pipeline.engine is None:
            raise Refused("unavailable", f"Call {row.id} runs in another process", "cancel it there")
        else:
            stopped = await _stop_elsewhere(session, row, failure)
        if stopped:
            return True
        asked, row = True, await session.row(row.id)
    return asked and row.code == failure.code


async def _stop_elsewhere(session: Session, row: Row, failure: Failure) -> bool:
    """Once: False where it has moved on meanwhile, or nobody was there to hear it."""
    engine = session.pipeline.engine
    assert engine is not None
    if row.state == "queued":
        return await _end(session, row, failure)
    if await engine.stop_call(row, failure):
        try:  # it may come to wait for somebody instead, or its worker may die over it
            ended = await asyncio.wait_for(session.awaited.end_of(row.id), LOOK_S)
        except TimeoutError:
            return False
        return str((ended.data.get("failure") or {}).get("code")) == failure.code
    if row.worker is None or not await session.crib.store.alive(row.worker):
        return await _end(session, row, failure)
    await asyncio.sleep(ASK_S)  # it is cut off, and either comes back or is given up when its lease ends
    return False


async def _end(session: Session, row: Row, failure: Failure) -> bool:
    """Ends a call that nobody runs."""
    live = await revive(session, row, await session.history(row))
    metadata = {"may_have_run": True} if row.state == "running" and row.effect == "once" else None
    return await session.pipeline.end_parked(live, row, Result(failure=failure, metadata=metadata), [])
