"""Bodies of every mode: in the loop, in a thread, in a process, at once or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from toolcrib._call.isolation import run_isolated
from toolcrib._call.streams import drain_async, drain_thread
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall


async def run_body(live: LiveCall, tool: Tool, context: Any) -> Any:
    """Runs a body in the way of its mode, and gives what it returned."""
    assert tool.run is not None and live.parsed is not None
    run, values = tool.run, live.parsed.values
    if tool.limits.idle_timeout is not None:
        live.watch_silence(tool.limits.idle_timeout)
    if tool.mode == "async":
        return await run(context, values)
    if tool.mode == "stream":
        return await drain_async(live, run(context, values))
    if tool.mode == "process":
        return await run_isolated(live)
    work = drain_thread if tool.mode == "thread_stream" else _plain
    outcome = await _threaded(live, work, context)
    if isinstance(outcome, _Raised):
        raise outcome.error
    return outcome


async def _threaded(live: LiveCall, work: Callable[[LiveCall, Any], Any], context: Any) -> Any:
    """A thread cannot be stopped. A call that is cancelled gives it the time to notice; one whose time is up ends."""
    future = live.pipeline.loop.run_in_executor(live.pipeline.threads, _in_thread, work, live, context)
    if future.done():  # Python 3.14 tells of it without a trip through the loop, ahead of what the thread told
        await asyncio.sleep(0)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if live.stopping in (None, "timeout"):
            if not future.done():
                free = live.pipeline.scheduler.hold(live.session.owner)
                future.add_done_callback(lambda _: free())
            raise
        return await future


class _Raised:
    """What a body raised in its thread; a thread's future would not carry all of it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _in_thread(work: Callable[[LiveCall, Any], Any], live: LiveCall, context: Any) -> Any:
    try:
        return work(live, context)
    except BaseException as error:  # noqa: BLE001 - handed over to the pipeline, which knows what to do with it
        return _Raised(error)


def _plain(live: LiveCall, context: Any) -> Any:
    assert live.tool is not None and live.tool.run is not None and live.parsed is not None
    return live.tool.run(context, live.parsed.values)
