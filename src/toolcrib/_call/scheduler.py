"""Which call starts when: bounds for session, owner, tool and crib, fair turns between sessions, and deadlines.

It counts and orders; it knows nothing of what a call does. There is no timer for a call: deadlines of one length stand
in one line, and a single timer waits for the first of all lines.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any, Protocol

from toolcrib.types import CribLimits


class ScheduledCall(Protocol):
    """What the scheduler needs to know of a call."""

    session: Any
    tool_id: str
    concurrency: int | None
    serial: bool
    nested: bool
    taken: bool
    finished: bool
    seated: bool
    queued: bool

    def begin(self) -> None:
        """Starts to run."""

    def overdue(self) -> None:
        """Its time is up."""


class Clock(Protocol):
    """The time, and a way to be called later; tests bring their own."""

    def now(self) -> float:
        """Seconds since 1970."""

    def call_at(self, when: float, do: Callable[[], None]) -> Any:
        """Calls `do` at that time; the handle has `cancel()`."""


class Scheduler:
    """Seats for calls. Calls of a session start in the order they came; free seats go round the sessions."""

    def __init__(self, limits: CribLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._running = 0
        self._by_tool: Counter[str] = Counter()
        self._by_owner: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[ScheduledCall]] = OrderedDict()
        self._deadlines: dict[float, deque[tuple[float, ScheduledCall]]] = {}
        self._nested = 0
        self._seating = False
        self._timer: Any = None
        self._timer_at = 0.0

    def enter(self, seat: ScheduledCall) -> bool:
        """Takes a seat now; False if it has to queue, and then `begin` is called when there is one."""
        # Nothing that is queued fits, or it would have been seated; so a call that does fit overtakes nobody.
        if (not self._seating or seat.nested) and self._fits(seat):
            self._sit(seat)
            return True
        seat.queued = True
        self._nested += seat.nested
        self._queues.setdefault(seat.session.id, deque()).append(seat)
        return False

    def _full(self, session: Any) -> bool:
        limits = self._limits
        if self._running >= limits.per_crib or session.running >= limits.per_session:
            return True
        return limits.per_owner is not None and self._by_owner[session.owner] >= limits.per_owner

    def _fits(self, seat: ScheduledCall) -> bool:
        # What an engine brought is judged by limits that hold for all nodes, and keeps no slot while it waits for them.
        if seat.taken:
            return True
        limits, session = self._limits, seat.session
        # A call made by another call runs in its parent's seat: the parent does nothing but wait for it.
        if not seat.nested and (
            self._running >= limits.per_crib
            or session.running >= limits.per_session
            or (limits.per_owner is not None and self._by_owner[session.owner] >= limits.per_owner)
        ):
            return False
        if seat.serial and self._by_tool[f"{seat.session.id} {seat.tool_id}"]:
            return False
        return seat.concurrency is None or self._by_tool[seat.tool_id] < seat.concurrency

    def _sit(self, seat: ScheduledCall) -> None:
        seat.seated = True
        self._running += 1
        seat.session.running += 1
        if self._limits.per_owner is not None:
            self._by_owner[seat.session.owner] += 1
        if seat.concurrency is not None:
            self._by_tool[seat.tool_id] += 1
        if seat.serial:
            self._by_tool[f"{seat.session.id} {seat.tool_id}"] += 1

    def leave(self, seat: ScheduledCall) -> None:
        """Gives its seat, or its place in the queue, to the next."""
        if seat.queued:
            self._unqueue(seat)
            return
        seat.seated = False
        self._running -= 1
        seat.session.running -= 1
        if self._limits.per_owner is not None:
            _drop(self._by_owner, seat.session.owner)
        if seat.concurrency is not None:
            _drop(self._by_tool, seat.tool_id)
        if seat.serial:
            _drop(self._by_tool, f"{seat.session.id} {seat.tool_id}")
        if self._queues and not self._seating:
            self._seating = True
            try:
                self._seat_next()
            finally:
                self._seating = False

    def _unqueue(self, seat: ScheduledCall) -> None:
        seat.queued = False
        self._nested -= seat.nested
        queue = self._queues[seat.session.id]
        queue.remove(seat)
        if not queue:
            del self._queues[seat.session.id]

    def _seat_next(self) -> None:
        """Goes round the sessions, one call each, until nothing more fits; also for calls that are over at once."""
        blocked = 0
        while self._queues and blocked < len(self._queues):
            session, queue = next(iter(self._queues.items()))
            self._queues.move_to_end(session)
            seat = self._first(queue)
            if seat is None:
                blocked += 1
                continue
            blocked = 0
            self._unqueue(seat)
            self._sit(seat)
            seat.begin()

    def _first(self, queue: deque[ScheduledCall]) -> ScheduledCall | None:
        """The first of a session's queue that fits. Where all seats are taken there is no need to look at each."""
        if not self._nested and self._full(queue[0].session):
            return None
        return next((seat for seat in queue if self._fits(seat)), None)

    def watch(self, seat: ScheduledCall, seconds: float) -> None:
        """Calls `overdue` after that many seconds, unless the call has finished by then."""
        when = self._clock.now() + seconds
        line = self._deadlines.setdefault(seconds, deque())
        if len(line) > 256 + 4 * self._running:
            # Most of it has finished long since: keep no finished call alive until its deadline.
            line = self._deadlines[seconds] = deque(entry for entry in line if not entry[1].finished)
        line.append((when, seat))
        if self._timer is None or when < self._timer_at:
            self._arm(when)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock.now()
        for seconds, line in list(self._deadlines.items()):
            while line and (line[0][1].finished or line[0][0] <= now):
                when, seat = line.popleft()
                if not seat.finished and when <= now:
                    seat.overdue()
            if not line:
                del self._deadlines[seconds]
        if self._deadlines:
            self._arm(min(line[0][0] for line in self._deadlines.values()))

    def forget_finished(self) -> None:
        """Lets go of calls that are over but whose deadline is still to come."""
        kept = {s: deque(entry for entry in line if not entry[1].finished) for s, line in self._deadlines.items()}
        self._deadlines = {seconds: line for seconds, line in kept.items() if line}

    def stop(self) -> None:
        """Forgets all seats, queues and deadlines."""
        self._running = self._nested = 0
        self._by_tool.clear()
        self._by_owner.clear()
        self._queues.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadlines.clear()


def _drop(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


class SystemClock:
    """The real time on the running loop: of this machine, or of a store that several machines share."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now

    def call_at(self, when: float, do: Callable[[], None]) -> asyncio.TimerHandle:
        """On the running loop."""
        return asyncio.get_running_loop().call_later(max(0.0, when - self.now()), do)
