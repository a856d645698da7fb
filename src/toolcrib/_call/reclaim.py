"""Claims of calls that the store knows already: they go on after an answer, a pause or the end of a process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolcrib._call import lifecycle
from toolcrib._call.failures import trace
from toolcrib._call.late_writes import RETRY_S
from toolcrib.errors import StoreUnavailable
from toolcrib.store import Row

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.pipeline import Pipeline


async def claim_again(pipeline: Pipeline, live: LiveCall, old: Row) -> bool:
    """Makes this process the one that runs it; durably, unless it may run again and nobody was told of it."""
    if pipeline.look is not None:
        await catch_up(pipeline, live)
        if live.stop_request is not None:  # by another process, while it was queued
            await pipeline.conclude(live, live.stopped())
            return False
    now = pipeline.clock.now()
    live.start(now)
    events = [lifecycle.started(live, old.attempt + 1, now)] if live.announce else []
    write = lifecycle.claim(old, pipeline.worker, events)
    if old.effect != "once" and live.history is None and not live.durable:
        pipeline.store.put(write)
        live.stand(write.row)
        return True
    write.first = old.effect == "once" or live.history is not None
    # One that a call made has its parent's place: both would wait for each other.
    write.bounded = live.taken and live.parent_id is None
    write.serial = live.taken and live.bound is not None and live.bound.serial
    live.stand(write.row)
    return await pipeline.durably(live, write) is None and await _refresh_history(pipeline, live, old)


async def _refresh_history(pipeline: Pipeline, live: LiveCall, old: Row) -> bool:
    """Reads a call again that was taken over: its last process may have recorded steps until then. Returns True."""
    if old.state != "running" or live.history is None:
        return True
    assert live.row is not None
    while not live.halted:
        try:
            live.recall(await live.session._history(live.row))
            break
        except StoreUnavailable as error:
            if pipeline.stopping:
                raise
            trace.error("call %s cannot be read yet: %s", live.id, error)
            await asyncio.sleep(RETRY_S)
    return True


async def catch_up(pipeline: Pipeline, live: LiveCall) -> None:
    """Before a body runs: what others did to its session is read first.

    For one that can see the state that is as of the moment of the call; for any other a look of just now will do.
    """
    tool, session = live.tool, live.session
    if live.taken:
        return  # whoever took it has looked
    assert tool is not None
    moved = session.crib.moved
    looked = moved is not None and session.moved == moved() and session.news == session.known
    if tool.context or tool.does != "read":
        looked = live.row is None and session.looked_for == live.id
    try:
        if not looked:
            await session.crib._session_table.renew(session)
    except StoreUnavailable:
        if live.row is None:
            raise  # nothing of it was accepted
