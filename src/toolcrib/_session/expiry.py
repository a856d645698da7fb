"""Calls that waited: those whose time has come are made. Where nobody answered, others are asked, or the call ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from toolcrib._call import answers, schedules, suspension
from toolcrib._call.lifecycle import waits_for_children, waits_for_time
from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.store import Row
from toolcrib.types import Failure

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort, SessionPort

AT_ONCE = 100

OTHERS_S = 10.0
"""How often it is looked for calls that other processes let wait, and that come due."""

log = logging.getLogger("toolcrib")


class ExpiryTimer:
    """The one timer for all calls of a crib that wait, at the earliest end."""

    def __init__(self, crib: CribPort) -> None:
        self._crib = crib
        self._timer: tuple[float, Any] | None = None

    def set(self, when: float) -> None:
        """Something expires then; the timer stays where it rings before that."""
        if self._timer is not None:
            if self._timer[0] <= when:
                return
            self._timer[1].cancel()

        def ring() -> None:
            self._crib.pipeline.aside(self.expire())

        self._timer = (when, self._crib.pipeline.clock.call_at(when, ring))

    def cancel(self) -> None:
        """Rings no more, until it is set again."""
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None

    async def look(self) -> None:
        """Sets the timer also for what another process let wait, which may be gone by now."""
        when = await self._crib.store.next_expiry()
        if when is not None and not self._crib.ending:
            self.set(when)

    async def look_for_others(self) -> float:
        """Sets the timer for what other processes let wait meanwhile, which may be gone when it is due."""
        await self.look()
        return OTHERS_S

    async def expire(self) -> None:
        """Ends what waited too long, and sets the timer for the next."""
        self.cancel()
        try:
            await end_overdue(self._crib, self._crib.pipeline.clock.now())
            await self.look()
        except StoreError:
            if not self._crib.ending:  # else whoever opens the store next ends what waited too long
                raise


async def end_overdue(crib: CribPort, now: float) -> None:
    """Ends or makes all whose time is up; one of which neither can be done keeps no other waiting.

    Raises:
        StoreUnavailable: the store is away.
    """
    before: list[Row] = []
    while rows := await crib.store.expiring(now, AT_ONCE):
        for row in rows:
            try:
                session = await crib._session_table.attached(row.session)
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


async def _nobody(session: SessionPort, row: Row) -> Failure:
    question = (await session._history(row)).question
    seconds = 0.0 if question is None else round(question.expires_at - question.asked_at, 3)
    return Failure("timeout", f"Nobody answered within {_span(seconds)}", row.effect != "once")


def _span(seconds: float) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
