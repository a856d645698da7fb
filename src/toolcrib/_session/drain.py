"""Logout: a session waits for what runs, ends the rest at the timeout, and says what it found. Nothing is lost.

What waits for somebody is not ended: it costs nothing and can be answered after the next login.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolcrib._call.cancellation import stop
from toolcrib._call.live_call import LiveCall
from toolcrib.events import SessionClosed, SessionClosing
from toolcrib.store import Row
from toolcrib.types import Closed, Failure

if TYPE_CHECKING:
    from toolcrib._call.ports import SessionPort

LOGOUT = "Timed out during logout"
ALL = 100_000


async def drain(session: SessionPort, timeout: float) -> Closed:
    """Waits for all that is open, and tells what became of it."""
    store = session.crib.store
    row = await store.session(session.id)
    begun = 0 if row is None else row.seq
    await session._log(SessionClosing(timeout))
    until = session.pipeline.clock.now() + timeout
    await store.known_everywhere()  # from here on nobody begins anything, and what was begun is known
    late = await _wait(session, max(until - session.pipeline.clock.now(), 0.0))
    late |= await _wait_elsewhere(session, begun, until - session.pipeline.clock.now())
    ended = await store.calls(session.id, done_after=begun, limit=ALL)
    finished = [row for row in ended if row.accepted_seq <= begun and row.id not in late]
    waiting = await store.calls(session.id, ("waiting",), limit=ALL)
    unread = await store.calls(session.id, done_after=await store.cursor(session.id, "model"), limit=ALL)
    closed = Closed(len(finished), len(late), len(waiting), len(unread))
    await session._log(SessionClosed(*closed))
    return closed


def end_left(session: SessionPort) -> None:
    """A logout in another process is over: what was begun here before, and not written while it waited, is stopped."""
    for live in list(session.live.values()):
        if live.history is None:  # else an answer, which may come later, let it go on
            live.stop(_logout(live.row))


async def _wait(session: SessionPort, timeout: float) -> set[str]:
    """Returns when nothing runs any more; the calls that were stopped for it."""
    clock, late, over = session.pipeline.clock, set[str](), False
    unwritten: dict[str, tuple[LiveCall, Failure]] = {}  # their ends were being written when the time was up

    def end(live: LiveCall) -> None:
        failure = _logout(live.row)
        if live.stop(failure):
            late.add(live.id)
        else:
            unwritten.setdefault(live.id, (live, failure))

    def time_is_up() -> None:
        nonlocal over
        over = True
        for live in reversed(list(session.live.values())):  # children before the parents that would cancel them
            end(live)

    timer = clock.call_at(clock.now() + timeout, time_is_up)
    try:
        while session.live:
            live = next(iter(session.live.values()))
            if over:
                end(live)
            await live.ended()
    finally:
        timer.cancel()
    return late | {id for id, (live, failure) in unwritten.items() if live.stopped_for(failure)}


async def _wait_elsewhere(session: SessionPort, after: int, timeout: float) -> set[str]:
    """The same for calls that other nodes run; what comes to wait for somebody meanwhile is left alone."""
    try:
        async with asyncio.timeout(max(timeout, 0)):
            if await _busy(session):
                async for event in session.events(after=after):
                    if event.kind in ("done", "waiting") and not await _busy(session):
                        break
    except TimeoutError:
        pass
    late = await _busy(session)
    stopped = await asyncio.gather(*(stop(session, row, _logout(row)) for row in late))
    return {row.id for row, news in zip(late, stopped, strict=True) if news}


async def _busy(session: SessionPort) -> list[Row]:
    return [row for row in await session._elsewhere() if row.state != "waiting"]


def _logout(row: Row | None) -> Failure:
    """A call that may have had its effect says so; any other may simply be tried again."""
    if row is not None and row.attempt > 0 and row.effect == "once":
        return Failure("timeout", LOGOUT, False, "It may have run; check before calling it again.")
    return Failure("timeout", LOGOUT, True)
