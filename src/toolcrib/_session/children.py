"""Calls made by calls: they go the same way, beside their parent, and stop with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from toolcrib._call.answers import child_before
from toolcrib._call.call_facts import Caller
from toolcrib._call.call_parts import WITH_PARENT
from toolcrib._call.cancellation import stop
from toolcrib._call.host import CallHost
from toolcrib._call.live_call import LiveCall
from toolcrib._call.remote import patiently
from toolcrib._call.request import CallRequest
from toolcrib.errors import Refused
from toolcrib.types import By, Failure, Result

if TYPE_CHECKING:
    from toolcrib._call.ports import SessionPort


async def call_child(session: SessionPort, host: CallHost, tool: str, args: Any) -> Result:
    """A call made by another call; one that an earlier pass of its parent made is not made again."""
    parent = host.live
    session.pipeline.begin_behind(parent)
    parent.output.flush_text()  # what it put out before stands before what it calls
    options = {"by": By("tool", parent.tool_id), "background": False, "run": parent.run, "agent": parent.agent}
    request = session._request(tool, args, options, origin=parent.origin())
    if parent.history is not None:
        before = await child_before(host, tool, request.arguments)
        if before is not None:
            return await _for(parent, _outcome(host, before))
    return await _for(parent, _outcome(host, request.id, request))


async def _for(parent: LiveCall, outcome: Awaitable[Result]) -> Result:
    """What came of a child, for a parent that is still this process's."""
    try:
        result = await outcome
    except Refused:  # the store has no such child where it was made for a parent that another process runs
        parent.heed()
        raise
    parent.heed()
    return result


async def keyed_child(
    session: SessionPort, parent: LiveCall, key: str, tool: str, args: Any
) -> tuple[str, Result | None]:
    """The one call of that key that a call makes, in whichever pass; its id, and its result if it ended just now."""
    await parent.meet()
    parent.output.flush_text()
    options = {"by": By("tool", parent.tool_id), "background": False, "run": parent.run, "agent": parent.agent}
    request = session._request(tool, args, {**options, "key": f"{parent.id}:{key}"}, origin=parent.origin())
    live = await session._accept(request, Caller(maker=parent, parent=parent))
    parent.heed()
    if live.row is not None and live.row.id != live.id:
        return live.row.id, None
    if live.result is None:
        await live.ended()
    return live.id, live.result


async def end_child(session: SessionPort, child: str) -> None:
    """Ends a call with the one that made it, wherever it is."""
    failure, live = Failure("cancelled", WITH_PARENT), session.live.get(child)
    if live is not None:
        live.stop(failure)
        await live.ended()
    row = await session.crib.store.call(child)
    if row is not None and (row.state == "waiting" or (row.state != "done" and session.pipeline.engine is not None)):
        await stop(session, row, failure)


async def _outcome(host: CallHost, child: str, request: CallRequest | None = None) -> Result:
    """Waits for a child; one that nobody runs here when its parent is stopped ends with it."""
    parent, session = host.live, host.live.session
    try:
        if request is not None:
            live = await session._accept(request, Caller(maker=parent, parent=parent))
            if live.result is None:
                await live.ended()
            if live.result is not None:
                return live.result
        host.excused = lambda: _waits(session, child)
        return await patiently(session.crib, lambda: session.result(child))
    except asyncio.CancelledError:
        if session.crib.ending or parent.fenced:
            raise  # the parent is left to others, who go on with the child that it has
        for made in [one for one in parent.children or () if one.id == child and one.concluding]:
            await made.ended()  # its question may still be on the way to the store
        row = await session.crib.store.call(child)
        if row is not None and (row.state == "waiting" or session.pipeline.engine is not None):
            await stop(session, row, Failure("cancelled", WITH_PARENT))
        raise
    finally:
        host.excused = None


async def _waits(session: SessionPort, child: str) -> bool:
    """True if a child waits for somebody: that time does not count for its parent."""
    row = await session.crib.store.call(child)
    return row is not None and row.state == "waiting"
