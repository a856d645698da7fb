"""Stopping a call wherever it is: waiting, queued, or running in another process."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from toolcrib._call.answers import end_waiting, revive
from toolcrib._call.call_parts import WITH_PARENT
from toolcrib._call.live_call import LiveCall
from toolcrib.errors import Refused, StoreError
from toolcrib.events import Done, Event, StopWanted
from toolcrib.store import Row
from toolcrib.types import Failure, Result

if TYPE_CHECKING:
    from toolcrib._call.ports import SessionPort

log = logging.getLogger("toolcrib")

OPEN = ("queued", "running", "waiting")
LOOK_S = 1.0
ASK_S = 0.5
"""How long the worker that runs a call has to hear of it before the store is asked whether it still lives."""

PATIENCE_S = 5.0
"""How long, beyond the time that a body has to clean up, a process that runs a call may take to end it when asked."""


async def stop(session: SessionPort, row: Row, failure: Failure) -> bool:
    """End a call that this process does not run, and wait for its `done`; return True if it was stopped.

    Whoever runs it is asked to stop it. A process that lives and yet does not, because it stands still or is cut off,
    loses the call: what it does later is not recorded.
    """
    requested, new = False, True
    clock = asyncio.get_running_loop().time
    until = clock() + session.pipeline.limits.cleanup_s + PATIENCE_S
    while row.state != "done":
        if row.state == "waiting":
            stopped = await end_waiting(session, row, failure)
        elif (live := session.live.get(row.id)) is not None:  # it has just been let go on
            live.stop(failure)
            await live.ended()
            stopped = False
        elif clock() > until or row.worker is None or not await session.crib.store.alive(row.worker):
            stopped = await _end(session, row, failure)
        elif session.pipeline.engine is not None:
            stopped = await _stop_elsewhere(session, row, failure)
        else:
            stopped, new = await _request(session, row, failure, new=new), False
        if stopped:
            return True
        requested, row = True, await session._row(row.id)
    return requested and row.code == failure.code


async def end_children(parent: LiveCall) -> None:
    """Returns when what a stopped call had called has ended, wherever it is: no `done` comes before that of a child."""
    session, failure = parent.session, Failure("cancelled", WITH_PARENT)
    while halted := [child for child in parent.children or () if child.halted]:
        await halted[0].ended()
    if parent.given_away:
        return
    try:
        for row in await session.crib.store.calls(session.id, OPEN, parent=parent.id):
            if row.id not in session.live and not row.background:
                with suppress(Refused):
                    await stop(session, row, failure)
    except StoreError as error:
        log.info("the children of call %s end later: %s", parent.id, error)


async def _stop_elsewhere(session: SessionPort, row: Row, failure: Failure) -> bool:
    """Once: False where it has moved on meanwhile, or nobody was there to hear it."""
    engine = session.pipeline.engine
    assert engine is not None
    if row.state == "queued":
        return await _end(session, row, failure)
    if await engine.stop_call(row, failure):
        try:  # it may come to wait for somebody instead, or its worker may die over it
            ended = await asyncio.wait_for(session._awaited.end_of(row.id), LOOK_S)
        except TimeoutError:
            return False
        return _ended_so(ended, failure)
    if row.worker is None or not await session.crib.store.alive(row.worker):
        return await _end(session, row, failure)
    await asyncio.sleep(ASK_S)  # it is cut off, and either comes back or is given up when its lease ends
    return False


async def _request(session: SessionPort, row: Row, failure: Failure, *, new: bool) -> bool:
    """Asks by the log of the session, which whoever runs a call of it follows; False where it has not ended yet."""
    if new:
        await session._log(StopWanted(row.id, failure))
    try:
        ended = await asyncio.wait_for(session._awaited.end_of(row.id), LOOK_S)
    except TimeoutError:
        return False
    return _ended_so(ended, failure)


async def _end(session: SessionPort, row: Row, failure: Failure) -> bool:
    """Ends a call that nobody runs."""
    live = await revive(session, row, await session._history(row))
    metadata = {"may_have_run": True} if row.state == "running" and row.effect == "once" else None
    return await session.pipeline.end_parked(live, row, Result(failure=failure, metadata=metadata or {}), [])


def _ended_so(ended: Event, failure: Failure) -> bool:
    """True if a call ended with a failure of that code."""
    done = ended.data
    return isinstance(done, Done) and done.failure is not None and done.failure.code == failure.code
