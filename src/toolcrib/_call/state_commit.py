"""The end of a call that changes the state of its session: both are committed together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolcrib._call.failures import trace
from toolcrib._call.late_writes import RETRY_S
from toolcrib._call.live_call import LiveCall
from toolcrib._call.outcome import conflicting
from toolcrib.errors import StoreUnavailable
from toolcrib.types import Result, changes_of

if TYPE_CHECKING:
    from toolcrib._call.pipeline import Pipeline

CONFLICT_RETRIES = 3
STATE_RETRIES = 3
"""How often changes of the state are tried again although nobody else has changed it."""

VERIFY = "compare them with `toolcrib store verify`"


async def record_with_state(pipeline: Pipeline, live: LiveCall, result: Result) -> Result | None:
    """State changes are committed with the `done`, all or none; a conflict keeps the data and changes nothing.

    None where the tool wants to run again then, never one with effect `once`; and where the call ended elsewhere.
    """
    session, base = live.session, live.snapshot().revision
    known = session.state.revision
    stuck = 0
    while stuck < STATE_RETRIES and live.late_stop is None:
        problem = session.state.check(changes_of(result), base, live.run)
        if problem is not None:
            if problem.problem == "conflict" and _may_retry(live):
                await pipeline.run_again(live)
                return None
            return await pipeline.record(live, conflicting(live, result, problem, base))
        commit = session.state.record(changes_of(result), base, live.run)
        row = live.row
        write = pipeline.last_write(live, result, commit)
        write.revision = (commit.revision - 1, commit.revision)
        conflict = await pipeline.durably(live, write)
        if conflict is None:
            session._changed_state(commit, live.id)
            return result
        if conflict.row is not None:
            await pipeline.too_late(live, result, conflict)
            return None
        live.stand(row)
        await _reload_state(pipeline, live)
        stuck, known = stuck + 1 if session.state.revision == known else 0, session.state.revision
    return await pipeline.record(live, _unsaved(live, result))


async def _reload_state(pipeline: Pipeline, live: LiveCall) -> None:
    """Takes in what others changed as soon as the store can; a call that has run is not let go before its end."""
    while live.late_stop is None:
        try:
            await live.session._reload_state()
            return
        except StoreUnavailable as error:
            if pipeline.stopping:
                raise
            trace.error("call %s cannot be recorded yet: %s", live.id, error)
            await asyncio.sleep(RETRY_S)


def _unsaved(live: LiveCall, result: Result) -> Result:
    """The end of a call that was stopped before its changes could be committed, or whose state takes none."""
    failure = live.late_stop
    if failure is None:
        failure = live.failure("unavailable", "The store and the log disagree about the state", hint=VERIFY)
    live.give_in(failure)
    metadata: dict[str, Any] = {**result.metadata, "unsaved": result.data}
    if live.tool is not None and live.tool.does == "once":
        metadata["may_have_run"] = True
    return Result(failure=failure, metadata=metadata)


def _may_retry(live: LiveCall) -> bool:
    tool = live.tool
    assert tool is not None
    return tool.on_conflict == "retry" and tool.does != "once" and live.retries < CONFLICT_RETRIES
