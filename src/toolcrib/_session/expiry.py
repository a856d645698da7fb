"""Calls that waited: those whose time has come are made. Where nobody answered, others are asked, or the call ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from toolcrib._call import answers, schedules, suspension
from toolcrib._call.lifecycle import waits_for_children, waits_for_time
from toolcrib.errors import StoreUnavailable
from toolcrib.store import Row
from toolcrib.types import Failure

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.session import Session

AT_ONCE = 100

log = logging.getLogger("toolcrib")


async def end_overdue(crib: Crib, now: float) -> None:
    """Ends or makes all whose time is up; one of which neither can be done keeps no other waiting.

    Raises:
        StoreUnavailable: the store is away.
    """
    before: list[Row] = []
    while rows := await crib.store.expiring(now, AT_ONCE):
        for row in rows:
            try:
                session = await crib._attached(row.session)
                if session is not None and waits_for_time(row):
                    await schedules.fire(session, row)
                elif session is not None and waits_for_children(row):
                    await suspension.look_after(session, row)
                elif session is not None and not await answers.escalate(session, row):
                    await answers.end_waiting(session, row, await _nobody(session, row))
            except StoreUnavailable:
                raise
            except Exception:
                log.exception("call %s could not be ended", row.id)
        if len(rows) < AT_ONCE or rows == before:
            break
        before = rows


async def _nobody(session: Session, row: Row) -> Failure:
    question = (await session.history(row)).question
    seconds = 0.0 if question is None else round(question.expires_at - question.asked_at, 3)
    return Failure("timeout", f"Nobody answered within {_span(seconds)}", row.effect != "once")


def _span(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
