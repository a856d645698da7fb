"""Logout: a session waits for what runs, ends the rest at the timeout, and says what it found. Nothing is lost.

What waits for somebody is not ended: it costs nothing and can be answered after the next login.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.calls.live import LiveCall
from toolcrib.types import Closed, Failure

if TYPE_CHECKING:
    from toolcrib.session import Session

LOGOUT = "Timed out during logout"
ALL = 100_000


async def drain(session: Session, timeout: float) -> Closed:
    """Waits for all that is open, and tells what became of it."""
    store = session.crib.store
    row = await store.session(session.id)
    begun = 0 if row is None else row.seq
    await session.log("closing", {"timeout_s": timeout})
    late = await _wait(session, timeout)
    ended = await store.calls(session.id, done_after=begun, limit=ALL)
    finished = [row for row in ended if row.accepted_seq <= begun and row.id not in late]
    waiting = await store.calls(session.id, ("waiting",), limit=ALL)
    unread = await store.calls(session.id, done_after=await store.cursor(session.id, "model"), limit=ALL)
    found = Closed(len(finished), len(late), len(waiting), len(unread))
    await session.log("closed", found._asdict())
    return found


async def _wait(session: Session, timeout: float) -> set[str]:
    """Returns when nothing runs any more; the calls that were stopped for it."""
    clock, late, over = session.pipeline.clock, set[str](), False

    def stop(live: LiveCall) -> None:
        if live.stop(_logout(live)):
            late.add(live.id)

    def time_is_up() -> None:
        nonlocal over
        over = True
        for live in reversed(list(session.live.values())):  # children before the parents that would cancel them
            stop(live)

    timer = clock.call_at(clock.now() + timeout, time_is_up)
    try:
        while session.live:
            live = next(iter(session.live.values()))
            if over:
                stop(live)
            await live.ended()
    finally:
        timer.cancel()
    return late


def _logout(live: LiveCall) -> Failure:
    """A call that may have had its effect says so; any other may simply be tried again."""
    row = live.row
    if row is not None and row.attempt > 0 and row.effect == "once":
        return Failure("timeout", LOGOUT, False, "It may have run; check before calling it again.")
    return Failure("timeout", LOGOUT, True)
