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
    if pipeline.revision is not None:
        await catch_up(pipeline, live)
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
            live.recall(await live.session.history(live.row))
            break
        except StoreUnavailable as error:
            if pipeline.stopping:
                raise
            trace.error("call %s cannot be read yet: %s", live.id, error)
            await asyncio.sleep(RETRY_S)
    return True


async def catch_up(pipeline: Pipeline, live: LiveCall) -> None:
    """Before a body sees the state: what other nodes changed is read first, as of the moment of the call."""
    tool, session = live.tool, live.session
    assert tool is not None and pipeline.revision is not None
    if live.taken or not (tool.context or tool.does != "read"):
        return
    try:
        if await pipeline.revision(live.session_id) > session.state.revision:
            await session._reload_state()
    except StoreUnavailable:
        if live.row is None:
            raise  # nothing of it was accepted
