"""How long a call is awaited before its log is followed, which shows what a call that it made asks."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from toolcrib.session import Session

SOON_S = 0.05
"""Who has waited so long is woken before twice of it; most calls have ended, and nobody reads the log for them."""


class Alarm:
    """Wakes all who wait in a session at once: a timer for each call would cost more than many calls take."""

    def __init__(self) -> None:
        self._old: list[asyncio.Future[None]] = []
        self._new: list[asyncio.Future[None]] = []
        self._is_set = False

    def waiter(self) -> asyncio.Future[None]:
        """Return what is set when it has waited for a while, or before by somebody else."""
        loop = asyncio.get_running_loop()
        if not self._is_set:
            self._is_set = True
            loop.call_later(SOON_S, self._ring)
        self._new.append(waiter := loop.create_future())
        return waiter

    def _ring(self) -> None:
        """Wake those who waited when it rang last; those who came since are woken the next time."""
        for waiter in self._old:
            if not waiter.done():
                waiter.set_result(None)
        self._old, self._new = [waiter for waiter in self._new if not waiter.done()], []
        self._is_set = bool(self._old)
        if self._is_set:
            asyncio.get_running_loop().call_later(SOON_S, self._ring)


_alarms: WeakKeyDictionary[Session, Alarm] = WeakKeyDictionary()


def alarm_of(session: Session) -> Alarm:
    """Return the alarm of a session."""
    alarm = _alarms.get(session)
    if alarm is None:
        alarm = _alarms[session] = Alarm()
    return alarm
