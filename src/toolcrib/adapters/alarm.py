"""How long a call is awaited before its log is followed, which shows what a call that it made asks."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from toolcrib.session import Session

SOON_S = 0.05
"""Within this time all who wait are woken; most calls have ended by then, and nobody has to read the log for them."""


class Alarm:
    """Wakes all who wait in a session at once: a timer for each call would cost more than many calls take."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def waiter(self) -> asyncio.Future[None]:
        """Return what is set at the next alarm, or before by somebody else."""
        loop = asyncio.get_running_loop()
        if not self._waiters:
            loop.call_later(SOON_S, self._wake)
        self._waiters.append(waiter := loop.create_future())
        return waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


_alarms: WeakKeyDictionary[Session, Alarm] = WeakKeyDictionary()


def alarm_of(session: Session) -> Alarm:
    """Return the alarm of a session."""
    alarm = _alarms.get(session)
    if alarm is None:
        alarm = _alarms[session] = Alarm()
    return alarm
