"""After a crash: what was queued starts, what may be repeated runs again, what may happen once is asked about.

A call whose worker still lives is left alone, so that a second process on the same store harms nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from toolcrib._call import lifecycle
from toolcrib._call.answers import end_waiting, go_on, revive
from toolcrib._call.live_call import LiveCall
from toolcrib._call.outcome import to_result
from toolcrib.errors import StoreUnavailable
from toolcrib.store import Row
from toolcrib.types import Failure, Result

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort, SessionPort

log = logging.getLogger("toolcrib")

ASK_S = 1.0
"""How long a look waits for tools that are asked what became of their calls."""

INTERRUPTED = Failure("cancelled", "The call that made it was interrupted")


async def take_up_lost(crib: CribPort) -> None:
    """Takes up what is lost now, and from now on whatever another process leaves, as soon as its lease is over."""
    inherits, missing = True, set[str]()

    async def look() -> float | None:
        nonlocal inherits
        if crib.pipeline.stopping:
            return None
        lost = await crib.store.lost()
        asking: set[asyncio.Task[None]] = set()
        for row in lost.rows:
            starting = crib.registry.pending  # a source that may have the tool is not there yet
            taken = await _recover(crib, row, foreign=not inherits or starting, asking=asking)
            if not taken and not starting and row.tool not in missing:
                missing.add(row.tool)
                log.warning("calls of %s wait for a process that has it: this one does not", row.tool)
        if asking:
            await asyncio.wait(asking, timeout=ASK_S)
        await crib._look_for_expiry()
        inherits = inherits and not (
            lost.sure and not crib.registry.pending
        )  # what is found from then on was left while this process lived
        return lost.again

    crib.rescue.add(look, await look())


async def recover(crib: CribPort, rows: Iterable[Row]) -> None:
    """Takes up calls that nobody runs."""
    for row in rows:
        if not row.worker or not await crib.store.alive(row.worker):
            await _recover(crib, row, foreign=crib.registry.pending)


async def _recover(
    crib: CribPort, row: Row, *, foreign: bool = False, asking: set[asyncio.Task[None]] | None = None
) -> bool:
    """Takes up one call, unless it is being worked on here; False for a `foreign` one whose tool only others have.

    Where tools may have to ask elsewhere what became of a call, and `asking` is given, that goes on beside all else.
    """
    session = await crib._session_table.attached(row.session)
    if session is None or row.id in session.live or crib.recovering & {row.id, row.parent}:
        return True
    crib.recovering.add(row.id)
    aside = False
    try:
        live = await revive(session, row, await session._history(row))
        if foreign and live.tool is None:
            return False
        aside = asking is not None and row.parent is None and live.tool is not None and live.tool.reconcile is not None
        if asking is not None and aside:
            asking.add(crib.rescue.aside(_take_over_aside(crib, session, live)))
        else:
            await take_over(crib, session, live)
    except StoreUnavailable:
        raise
    except Exception:  # one that cannot be taken up keeps no other waiting
        log.exception("call %s could not be taken up", row.id)
    finally:
        if not aside:
            crib.recovering.discard(row.id)
    return True


async def _take_over_aside(crib: CribPort, session: SessionPort, live: LiveCall) -> None:
    try:
        await take_over(crib, session, live)
    except StoreUnavailable as error:
        log.warning("call %s could not be taken up yet: %s", live.id, error)
        crib.rescue.soon()
    except Exception:
        log.exception("call %s could not be taken up", live.id)
    finally:
        crib.recovering.discard(live.id)


async def take_over(crib: CribPort, session: SessionPort, live: LiveCall, *, left: bool = False) -> None:
    """Goes on with a call whose process is gone, or ends it; one that was `left` in good order did not kill it."""
    row = live.row
    assert row is not None
    once = row.state == "running" and row.effect == "once" and not (live.tool is not None and live.tool.resumes)
    if not once and await _orphan(crib, row):
        await _end_children(crib, session, row)
        await crib.pipeline.conclude(live, Result(failure=INTERRUPTED))
    elif row.state == "queued":
        await go_on(session, live)
    elif once:
        await _end_children(crib, session, row)
        await _once(crib, live)
    elif left or await _waits(crib, row):
        live.restart()
        await go_on(session, live)
    elif row.crashes + 1 >= crib.pipeline.limits.attempts:
        message = f"Given up: the process died {row.crashes + 1} times while it ran"
        await _end_children(crib, session, row)
        await crib.pipeline.conclude(live, Result(failure=live.failure("failed", message)))
    else:
        live.restart(lifecycle.recover(row))
        await go_on(session, live)


async def _orphan(crib: CribPort, row: Row) -> bool:
    """True if the call that made it has ended: nobody wants its result any more."""
    parent = None if row.parent is None else await crib.store.call(row.parent)
    return parent is not None and parent.state == "done"


async def _waits(crib: CribPort, row: Row) -> bool:
    """True if something that it called, however deep, waits for somebody: then no process died over it."""
    for child in await crib.store.calls(row.session, ("waiting", "running"), parent=row.id):
        if child.state == "waiting" or await _waits(crib, child):
            return True
    return False


async def _end_children(crib: CribPort, session: SessionPort, row: Row) -> None:
    """What a call had called and nobody runs ends before it; one that runs again finds it as it is."""
    for child in await crib.store.calls(row.session, ("waiting", "queued", "running"), parent=row.id):
        if child.state != "running":
            await end_waiting(session, child, INTERRUPTED)
        elif child.id not in session.live and not await crib.store.alive(child.worker or ""):
            await _end_children(crib, session, child)
            await _interrupt(crib, await revive(session, child, await session._history(child)))


async def _interrupt(crib: CribPort, live: LiveCall) -> None:
    """Ends a call whose process is gone; of one that may happen once it may be known what became of it."""
    if live.row is not None and live.row.effect == "once":
        await _once(crib, live)
    else:
        await crib.pipeline.conclude(live, Result(failure=INTERRUPTED))


async def _once(crib: CribPort, live: LiveCall) -> None:
    """A call that had started and may not happen twice: its tool may know what became of it."""
    await crib.pipeline.conclude(live, await _reconciled(crib, live) or Result(failure=_unknown(live)))


def _unknown(live: LiveCall) -> Any:
    return live.failure(
        "unknown",
        "The process died while the call ran: it may have run",
        hint="Find out whether it happened before calling it again.",
    )


async def _reconciled(crib: CribPort, live: LiveCall) -> Result | None:
    """What the tool's `reconcile` says happened; None where it cannot say."""
    tool = live.tool
    if tool is None or tool.reconcile is None or live.request.problem is not None:
        return None
    try:
        outcome = tool.reconcile(live.context(), **tool.parse(live.args).values)
        if inspect.isawaitable(outcome):
            outcome = await asyncio.wait_for(outcome, live.timeout_s)
    except BaseException as error:  # whatever it raises, the call still ends
        if isinstance(error, asyncio.CancelledError) and crib.pipeline.stopping:
            raise  # the next process asks again
        live.note(error)
        return None
    return None if outcome is None else to_result(live, outcome)
