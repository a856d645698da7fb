"""What is written with a suspension, and calls whose children wait for people.

Such a call is let go like one that waits itself, and goes on when a child ends.

The body has recorded what it needs to go on, or finds its children by their keys; either way it runs from its start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib._call import lifecycle
from toolcrib._call.answers import revive, take_on
from toolcrib._call.lifecycle import waits_for_children
from toolcrib._call.outcome import conflicting, plain, presentable
from toolcrib._call.schedules import add, expect, with_planned
from toolcrib.events import EffectReported, Paused, Waiting
from toolcrib.store import Conflict, Row, Write, draft
from toolcrib.types import Result, Schedule, changes_of, effects_of

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.ports import SessionPort

LOOK_S = 30.0
"""A process may die between the end of a child and what follows, so it is looked at again, each time later."""


async def command_of(live: LiveCall, question: Mapping[str, Any]) -> Result | None:
    """What a tool wants to be written with its question, or None; a failure where it cannot be."""
    beside = {name: question[name] for name in ("changes", "effects", "schedules") if question.get(name)}
    if not beside:
        return None
    if "schedules" in beside:
        beside["schedules"] = [msgspec.convert(one, Schedule, from_attributes=True) for one in beside["schedules"]]
    command = presentable(live, plain(Result(**beside)))
    problem = live.session.state.check(changes_of(command), live.snapshot().revision, live.run)
    if problem is not None:
        return conflicting(live, command, problem, live.snapshot().revision)
    return await with_planned(live, command) if command.schedules else command


async def commit_with(live: LiveCall, write: Write, data: Waiting, command: Result) -> Conflict | None:
    """Commits a suspension with all that goes with it; what stands in its way, if anything does."""
    session, pipeline = live.session, live.pipeline
    *before, (at, call, kind, _) = write.events
    effects = [draft(at, live.id, EffectReported(effect.type, effect.data)) for effect in effects_of(command)]
    while True:
        state = None
        if command.changes:
            state = session.state.record(changes_of(command), live.snapshot().revision, live.run)
            write.revision = (state.revision - 1, state.revision)
        committed = msgspec.structs.replace(data, state=state)
        write.events = [*before, *effects, (at, call, kind, committed)]
        if command.planned:
            add(write, command.planned)
        conflict = await pipeline.durably(live, write)
        if conflict is None:
            if state is not None:
                session._changed_state(state, live.id)
            expect(session, command.planned)
            return None
        if conflict.row is not None or conflict.closed or live.late_stop is not None:
            return conflict
        await session._reload_state()  # others changed the state meanwhile
        problem = session.state.check(changes_of(command), live.snapshot().revision, live.run)
        if problem is not None:
            live.reopen()
            await pipeline.conclude(live, conflicting(live, command, problem, live.snapshot().revision))
            return Conflict(live.row)


async def pause(live: LiveCall, children: Sequence[str]) -> None:
    """Writes that a call waits for its children, and lets it go; nothing of it stays in memory."""
    pipeline, now = live.pipeline, live.pipeline.clock.now()
    assert live.row is not None
    live.flush()
    live.conclude()
    write = lifecycle.pause(live.row, now + LOOK_S, [draft(now, live.id, Paused(list(children)))])
    conflict = await pipeline.durably(live, write)
    row = write.row if conflict is None else conflict.row
    live.stand(row)
    pipeline.expiry_changed(now + LOOK_S)
    pipeline.release(live)
    if conflict is None and row is not None:  # a child that ended while this was written found nobody to tell
        await look_after(live.session, row)


async def child_ended(session: SessionPort, parent: str) -> None:
    """Lets the call that waits for a child go on."""
    row = await session.crib.store.call(parent)
    if row is not None and waits_for_children(row):
        await _wake(session, row)


async def look_after(session: SessionPort, row: Row) -> None:
    """Lets a paused call go on if one of its children has ended; else it is looked at later."""
    store, now = session.crib.store, session.pipeline.clock.now()
    history = await session._history(row)
    for id in history.paused or ():
        child = await store.call(id)
        if child is None or child.state == "done":
            await _wake(session, row)
            return
    if row.expires_at is not None and row.expires_at <= now:
        await store.commit(lifecycle.postpone(row, now + max(LOOK_S, now - (history.started_at or now))))


async def look_after_all(session: SessionPort) -> None:
    """The same for all of a session that is opened."""
    for row in await session.crib.store.calls(session.id, ("waiting",), limit=100_000):
        if waits_for_children(row):
            await look_after(session, row)


async def _wake(session: SessionPort, row: Row) -> None:
    """Of several who try, one does it. Where its tool is not, as that of an agent without agents, others do."""
    pipeline = session.pipeline
    live = await revive(session, row, await session._history(row))
    engine = pipeline.engine if live.tool is None else None
    if live.tool is None and engine is None:
        return
    write = lifecycle.resume(row, pipeline.worker if engine is None else None)
    if await session.crib.store.commit(write) is not None:
        return
    await take_on(session, live, write)
