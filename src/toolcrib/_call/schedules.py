"""Calls that wait for their time: a scheduled call is accepted when it is scheduled, and waits as one that asks does.

When its time comes it goes on as after an answer: what it needs is looked at again, by the policy and the session of
that moment. Of all processes that try, the store lets one. A cron expression makes the next call in the same commit, so
that none is lost and none is made twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from toolcrib._call import lifecycle
from toolcrib._call.answers import end_waiting, revive, take_on
from toolcrib._call.call_facts import NOBODY
from toolcrib._call.history import History
from toolcrib._call.lifecycle import DUE, waits_for_time
from toolcrib._call.live_call import LiveCall
from toolcrib._call.recurrence import BadTime, after_run, next_run
from toolcrib._call.request import CallOptions, Rejected
from toolcrib.errors import Refused, StoreError
from toolcrib.events import Fired, Scheduled
from toolcrib.store import Draft, Row, Store, Write, draft
from toolcrib.store.codec import digest
from toolcrib.store.vault import secret_id
from toolcrib.types import By, Failure, Result, Schedule, ScheduleEntry, schedules_of

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort, SessionPort

ALL = 100_000
LOOK_S = 30.0
"""Who waits for the end of another call is told of it; a process may die before, so it is looked at again."""

FULL = "have some of them cancelled, or wait until they were made"
SHUT = "Session is closed"


class DeferredCall(NamedTuple):
    """A scheduled call that may be written: its row, its first events, and what is kept of its secrets."""

    row: Row
    events: Sequence[Draft]
    keeps: tuple[tuple[str, bytes], ...]

    @property
    def look_at(self) -> float:
        """When it is to be looked at."""
        assert self.row.expires_at is not None
        return self.row.expires_at


async def schedule(session: SessionPort, wanted: Schedule, options: CallOptions, maker: LiveCall | None = None) -> Row:
    """Accepts a scheduled call durably; its row, or that of the first one with the same key.

    Raises:
        Refused: it may not be made, there is no such time or call, or the session is closed.
    """
    if maker is None and (session.closing or session.shut):
        raise Refused("unavailable", SHUT, "open it again first")
    planned = await plan(session, wanted, options, maker)
    write = Write(session.id, list(planned.events), planned.row)
    write.keeps = planned.keeps
    if maker is not None:
        maker.guard(write, lambda conflict: maker.fence(conflict.row) if conflict.fenced else None)
    conflict = await session.crib.store.commit(write)
    if conflict is None:
        expect(session, [planned])
        return planned.row
    if maker is not None:
        maker.heed()
    if conflict.row is None or conflict.closed:
        raise Refused("unavailable", SHUT, "open it again first")
    return conflict.row


async def made(session: SessionPort, wanted: Schedule, options: CallOptions) -> ScheduleEntry:
    """The same as lists show it.

    Raises:
        Refused: as for `schedule`; `conflict`, the key is that of a call which was not scheduled.
    """
    row = await schedule(session, wanted, options)
    entry = listed(await session._history(row))
    if entry is None:
        raise Refused("conflict", f"The key '{options.key}' is that of call {row.id}, which was not scheduled")
    return entry


async def plan(
    session: SessionPort, wanted: Schedule, options: CallOptions, maker: LiveCall | None = None
) -> DeferredCall:
    """Takes a scheduled call through the stages of every call, so that what could never run is refused at once.

    Raises:
        Refused: it may not be made, or there is no such time or call.
    """
    pipeline = session.pipeline
    if pipeline.waiting is not None and await pipeline.waiting.is_full(session.owner):
        raise Refused("rate_limited", f"{pipeline.waiting.most} calls of yours wait already", FULL)
    request = judged = session._request(wanted.tool, wanted.args, options)
    if maker is not None and maker.run is not None:  # what an agent may not call, its tools do not schedule
        judged = msgspec.structs.replace(request, options=msgspec.structs.replace(options, run=maker.run))
    admission = await pipeline.admission.admit(judged, pipeline.check_context, new=True)
    if isinstance(admission, Rejected):
        raise Refused(admission.failure.code, admission.failure.message, admission.failure.hint)
    live = LiveCall(msgspec.structs.replace(admission, request=request), NOBODY)
    scheduled = await _times(session, live.id, wanted, maker)
    row = lifecycle.new_row(live, "waiting")
    row.question, row.expires_at = f"{DUE}{live.id}", scheduled.due or pipeline.clock.now() + LOOK_S
    at = pipeline.clock.now()
    keeps = () if live.shown is None else (pipeline.vault.sealed(session.id, secret_id(live.id), live.args),)
    return DeferredCall(row, [lifecycle.accepted(live), draft(at, live.id, scheduled)], keeps)


async def _times(session: SessionPort, id: str, wanted: Schedule, maker: LiveCall | None) -> Scheduled:
    """What the log says of when a call is to be made."""
    now, due = session.pipeline.clock.now(), None
    try:
        if wanted.cron is not None:
            due = next_run(wanted.cron, wanted.timezone, now)
        elif wanted.at is not None:
            due = wanted.at.timestamp() if isinstance(wanted.at, datetime) else float(wanted.at)
        elif wanted.when is None:
            due = now + wanted.delay_s
    except BadTime as error:
        raise Refused("invalid_arguments", str(error)) from None
    if wanted.when is not None and (maker is None or wanted.when != maker.id):
        await session._row(wanted.when)
    return Scheduled(
        schedule=id,
        due=due,
        when=wanted.when,
        cron=wanted.cron,
        timezone=None if wanted.cron is None else wanted.timezone,
        missed=wanted.missed,
        limit=wanted.limit,
        parent=None if maker is None else maker.id,
    )


def options_of(maker: LiveCall, wanted: Schedule, key: str | None = None) -> CallOptions:
    """What a call that another one schedules is made with."""
    assert maker.tool is not None
    name = None if key is None else f"{maker.id}:schedule:{key}"
    return CallOptions(by=By("tool", maker.tool_id), label=wanted.label, key=name, background=True, agent=maker.agent)


async def with_planned(live: LiveCall, result: Result) -> Result:
    """The result with the calls that are written with it; a failure where one of those may not be made."""
    planned = []
    for wanted in schedules_of(result):
        try:
            planned.append(await plan(live.session, wanted, options_of(live, wanted), live))
        except Refused as refused:
            text = f"The tool ran, but {wanted.tool} could not be scheduled: [{refused.code}] {refused.message}"
            failure = live.failure("failed", text, hint=refused.hint)
            return Result(failure=result.failure or failure, metadata={**result.metadata, "unsaved": result.data})
    ids = [one.row.id for one in planned]
    return result.but(metadata={**result.metadata, "scheduled": ids}, planned=tuple(planned))


def announced(live: LiveCall, result: Result) -> Result:
    """The result as the log has it, where effects and scheduled calls stand for themselves."""
    expect(live.session, result.planned)
    return result.but(effects=(), schedules=(), planned=())


def add(write: Write, planned: Sequence[DeferredCall]) -> None:
    """Writes scheduled calls with the last or next write of the call that wants them."""
    *before, last = write.events
    write.events = [*before, *(event for one in planned for event in one.events), last]
    write.adds = tuple(one.row for one in planned)
    write.keeps = (*write.keeps, *(kept for one in planned for kept in one.keeps))


def expect(session: SessionPort, planned: Iterable[DeferredCall]) -> None:
    """Has scheduled calls that are written looked at when their time comes."""
    for one in planned:
        session.pipeline.expiry_changed(one.look_at)
        data = one.events[-1][3]
        if isinstance(data, Scheduled) and data.when is not None:
            _watch(session, one.row.id, data.when)


# When the time has come


def _watch(session: SessionPort, id: str, awaited: str) -> None:
    """Looks at a scheduled call as soon as the call that it waits for has ended."""
    if id in session.crib.watched:
        return
    session.crib.watched.add(id)

    async def ended() -> None:
        try:
            await session._awaited.end_of(awaited)
            row = await session.crib.store.call(id)
            if row is not None and waits_for_time(row):
                await fire(session, row)
        except (Refused, StoreError):
            return  # the crib ends, or the store is away: it is looked at again
        finally:
            session.crib.watched.discard(id)

    session.pipeline.aside(ended())


async def fire(session: SessionPort, row: Row) -> None:
    """Lets a scheduled call go on whose time has come; of several who try, one does it."""
    crib, pipeline = session.crib, session.pipeline
    if pipeline.stopping:
        return
    history = await session._history(row)
    plan, now = history.scheduled, pipeline.clock.now()
    if plan is None or not history.awaits_time:
        return
    if plan.when is not None and not await _is_over(crib, plan.when):
        await crib.store.commit(lifecycle.postpone(row, now + max(LOOK_S, now - history.accepted_at)))
        _watch(session, row.id, plan.when)
        return
    due = now if plan.due is None else plan.due
    run = after_run(plan, due, now)
    if run.runs:
        await _go(session, row, history, run.next)
    elif run.next is None:
        await end_waiting(session, row, Failure("timeout", f"Missed: it was due {round(now - due)} s ago"))
    else:
        skipped_plan = msgspec.structs.replace(plan, due=run.next, skipped=due)
        await crib.store.commit(lifecycle.postpone(row, run.next, [draft(now, row.id, skipped_plan)]))
        pipeline.expiry_changed(run.next)


async def _is_over(crib: CribPort, call: str) -> bool:
    row = await crib.store.call(call)
    return row is None or row.state == "done"


async def _go(session: SessionPort, row: Row, history: History, following: float | None) -> None:
    """Queues it, with the call that follows it, in one commit; then it goes the way of a call that was answered."""
    pipeline, plan = session.pipeline, history.scheduled
    assert plan is not None
    await session.crib._session_table.renew(session)  # what was narrowed or closed elsewhere holds for it
    live = await revive(session, row, history)
    now = pipeline.clock.now()
    successor = None if following is None else _successor(live, history, following, now)
    fired = Fired(plan.schedule, plan.due, None if successor is None else successor.row.id)
    write = lifecycle.resume(row, pipeline.worker if pipeline.engine is None else None, [draft(now, row.id, fired)])
    if successor is not None:
        write.events = [*write.events, *successor.events]
        write.adds, write.keeps = (successor.row,), successor.keeps
    if await session.crib.store.commit(write) is not None:
        return
    if successor is not None:
        pipeline.expiry_changed(successor.look_at)
    live.restart(write.row)
    refusal = await _refusal(live, first=row.id == plan.schedule)
    if refusal is not None:
        await pipeline.conclude(live, refusal)
        return
    history.fired = True
    await take_on(session, live, write)


async def _refusal(live: LiveCall, *, first: bool) -> Result | None:
    """Why it may not run now: its session is closed, or its rate is used up. The first was charged when accepted."""
    session = live.session
    if session.closing or session.shut:
        return Result(failure=live.failure("unavailable", SHUT, retryable=False, hint="open it again first"))
    if first or live.tool is None:
        return None
    rejected = await session.pipeline.admission.charge(live.request, live.tool)
    return None if rejected is None else Result(failure=rejected.failure, metadata=rejected.metadata or {})


def _successor(live: LiveCall, history: History, due: float, now: float) -> DeferredCall:
    """The next call of a cron expression. Its id says of which schedule it is, and when it is due: there is one."""
    plan, session, pipeline = history.scheduled, live.session, live.pipeline
    assert plan is not None and live.row is not None
    id = f"{plan.schedule}_{round(due)}"  # which the subjects of an engine can hold
    made = digest(session.id, id, "" if live.tool is None else live.tool.fingerprint, live.args)
    secret = live.shown is not None
    accepted = msgspec.structs.replace(
        history.accepted, key=None, digest=pipeline.vault.digest(made) if secret else made
    )
    next_plan = msgspec.structs.replace(plan, due=due, skipped=None)
    row = Row(id, session.id, live.row.tool, live.row.effect, "waiting", 0, pipeline.worker, now, background=True)
    row.question, row.expires_at = live.row.question, due
    keeps = (pipeline.vault.sealed(session.id, secret_id(id), live.args),) if secret else ()
    return DeferredCall(row, [draft(now, id, accepted), draft(now, id, next_plan)], keeps)


# Looking at them, and cancelling


async def pending(store: Store, session: str | None = None, owner: str | None = None) -> list[ScheduleEntry]:
    """The calls that wait for their time, of a session, of an owner or of all, the first due first."""
    if session is None and owner is not None:
        rows = await store.calls_of_owner(owner, ("waiting",), limit=ALL)
    else:
        rows = await store.calls(session, ("waiting",), limit=ALL)
    rows = [row for row in rows if waits_for_time(row)]
    entries: list[ScheduleEntry] = []
    while rows:
        stories = await store.stories(rows)
        histories = [History(row.session, story) for row, story in zip(rows, stories, strict=False)]
        entries += [one for history in histories if (one := listed(history)) is not None]
        rows = rows[len(stories) :]
    return sorted(entries, key=lambda one: (one.due is None, one.due or 0.0, one.id))


def listed(history: History) -> ScheduleEntry | None:
    """A call of the log as lists of scheduled ones show it."""
    plan, accepted = history.scheduled, history.accepted
    if plan is None:
        return None
    return ScheduleEntry(
        id=plan.schedule,
        call=history.id,
        session=history.session,
        tool=accepted.tool,
        args=accepted.args,
        due=plan.due,
        when=plan.when,
        cron=plan.cron,
        timezone=plan.timezone or "UTC",
        missed=plan.missed,
        limit=plan.limit,
        label=accepted.label,
    )


async def cancel(session: SessionPort, id: str) -> bool:
    """Ends a schedule: no more calls are made, and what it has made goes on. False where it was over.

    Raises:
        Refused: `not_found`, this session has no such schedule.
    """
    first = await session._row(id)
    if (await session._history(first)).scheduled is None:
        raise Refused("not_found", f"Call {id} was not scheduled")
    failure = Failure("cancelled", "The schedule was cancelled")
    while True:
        rows = await session.crib.store.calls(session.id, ("waiting",), limit=ALL)
        waiting = [row for row in rows if waits_for_time(row) and row.question == f"{DUE}{id}"]
        if not waiting:
            return False
        if await end_waiting(session, waiting[0], failure):
            return True  # else its time came meanwhile, and the next one is to be ended
