"""Calls that wait for an answer: how they are let go, and how one is ended that nobody runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib._call import approvals, lifecycle, questions, suspension
from toolcrib._call.history import question
from toolcrib._call.live_call import LiveCall
from toolcrib._call.outcome import presentable
from toolcrib.store import Draft, Row, draft
from toolcrib.types import Result

WAITING = "have some of them answered or cancelled before you make more"


async def park(live: LiveCall, fields: Mapping[str, Any]) -> None:
    """Writes the question and lets the call go; nothing of it stays in memory."""
    pipeline = live.pipeline
    if live.halted:
        await pipeline.conclude(live, live.stopped())
        return
    if live.behind is not None:
        await suspension.pause(live, live.behind)
        return
    if pipeline.waiting is not None and await pipeline.waiting.is_full(live.session.owner):
        await _refuse_to_wait(live, pipeline.waiting.most)
        return
    live.flush()
    now = pipeline.clock.now()
    data = questions.waiting(live, fields, now)
    command = await suspension.command_of(live, fields)
    if command is not None and command.failure is not None:
        await pipeline.conclude(live, command)
        return
    live.conclude()
    asked_id, expires = data.question.id, data.question.expires_at
    if data.question.demands:
        expires = approvals.escalates_at(question(data.question)) or expires
    if live.row is not None:
        write = lifecycle.suspend(live.row, asked_id, expires, [draft(now, live.id, data)])
    else:
        row = lifecycle.new_row(live, "waiting", 1 if live.started_at else 0)
        row.question, row.expires_at = asked_id, expires
        begun = [lifecycle.started(live, 1, live.started_at)] if live.started_at else []
        write = live.accepted(row, [lifecycle.accepted(live), *begun, draft(now, live.id, data)])
    conflict = await (
        pipeline.durably(live, write) if command is None else suspension.commit_with(live, write, data, command)
    )
    if await pipeline.shut_out(live, conflict):
        return
    live.stand(write.row if conflict is None else lifecycle.standing(conflict))
    pipeline.expiry_changed(expires)
    pipeline.release(live)


async def _refuse_to_wait(live: LiveCall, most: int) -> None:
    """Ends a call that would have to wait for an answer, where too many calls of its owner do."""
    failure = live.failure("rate_limited", f"{most} calls of yours wait for answers already", hint=WAITING)
    await live.pipeline.conclude(live, Result(failure=failure))


async def end_parked(live: LiveCall, row: Row, result: Result, events: list[Draft]) -> bool:
    """Ends a call that nobody runs, in one write with the events that say why; False where it went on meanwhile."""
    pipeline = live.pipeline
    if result.failure is None:
        result = live.converted(result)
    if live.edited or live.secrets:
        result = presentable(live, result)
    now = pipeline.clock.now()
    code = None if result.failure is None else result.failure.code
    write = lifecycle.finish(row, code, [*events, draft(now, live.id, lifecycle.done(live, result, now))])
    for id, data in live.attached:
        await pipeline.store.keep(live.session_id, id, data)
    live.conclude()
    write.forgets = live.forgets

    def ended() -> None:
        pipeline.release(live, result)

    write.on_late = ended
    won = await pipeline.store.commit(write) is None
    ended()
    return won
