"""Which call starts when: bounds for session, owner, tool and crib, fair turns between owners, and deadlines.

It counts and orders; it knows nothing of what a call does. There is no timer for a call: deadlines of one length stand
in one line, and a single timer waits for the first of all lines. A call that is over leaves its line: many that stayed
until their deadlines would give the garbage collector much to do, while everybody waits. A `Starter` makes its task.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolcrib._call.call_queue import CallQueue
from toolcrib.types import CribLimits

if TYPE_CHECKING:
    from toolcrib._call.request import ToolBound

K = TypeVar("K")
QUEUED, WAITING = 5_000, 5_000
"""How many calls of an owner may queue for a seat, and wait for an answer, where owners share and no limit says."""


class ScheduledCall(Protocol):
    """What the scheduler needs to know of a call."""

    @property
    def admission(self) -> AdmittedCall:
        """What was established of it."""

    @property
    def session(self) -> Any:
        """Its session."""

    @property
    def nested(self) -> bool:
        """True if another call made it, or an engine brought it."""

    @property
    def caller(self) -> Any:
        """Whom it is made for; it is told of its end where an engine brought it."""

    @property
    def finished(self) -> bool:
        """True if it is over."""

    def begin(self) -> None:
        """Starts to run."""

    def overdue(self) -> None:
        """Its time is up."""


class AdmittedCall(Protocol):
    """The same of what was established of it; one that is plain is not nested."""

    @property
    def request(self) -> Any:
        """What its caller wants."""

    @property
    def is_plain(self) -> bool:
        """True if there is nothing to say of it but its tool and arguments."""

    @property
    def bound(self) -> ToolBound | None:
        """What holds back the calls of its tool."""

    @property
    def tool_id(self) -> str:
        """The id of its tool."""

    @property
    def timeout_s(self) -> float:
        """How long it may run."""


class Clock(Protocol):
    """The time, and a way to be called later; tests bring their own."""

    def now(self) -> float:
        """Seconds since 1970."""

    def call_at(self, when: float, do: Callable[[], None]) -> Any:
        """Calls `do` at that time; the handle has `cancel()`."""


class Scheduler:
    """Seats for calls. Calls of a session start in the order they came; free seats go round owners and sessions.

    What a session may have running at once it may have running at each server upstream, beside its own, so that a slow
    server holds up no call to another.

    Where owners share the seats, an owner takes one more only while they hold fewer than are free, so that somebody
    who comes finds one. An owner of weight 3 may hold three times as many as are free.
    """

    def __init__(self, limits: CribLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._running = 0
        self._shared = bool(limits.shared)
        self._counts_owners = self._shared or limits.per_owner is not None
        self._by_tool: Counter[str] = Counter()
        self._upstream: Counter[tuple[str, str]] = Counter()
        self._by_owner: dict[str, int] = {}  # a Counter asks Python for what it has not, twice for each call
        self._queue: CallQueue[ScheduledCall] = CallQueue(limits.weights)
        self._seats: set[ScheduledCall] = set()
        self._places: set[ScheduledCall] = set()  # in the queue
        self._deadlines = defaultdict[float, OrderedDict[ScheduledCall, float]](OrderedDict)
        self.queued = self._nested = self._held = self._queued_upstream = 0
        self._seating = False
        self._timer: Any = None
        self._timer_at = 0.0

    @property
    def shared(self) -> bool:
        """True if owners share the seats."""
        return self._shared

    def share(self) -> None:
        """Has owners share the seats from now on."""
        self._shared = self._counts_owners = True
        self._by_owner = dict(Counter(seat.session.owner for seat in self._seats))

    def seats(self, call: ScheduledCall) -> bool:
        """True if a call has a seat."""
        return call in self._seats

    def queues(self, call: ScheduledCall) -> bool:
        """True if a call waits for a seat."""
        return call in self._places

    @property
    def most_queued(self) -> int | None:
        """How many calls of an owner may queue."""
        return self._limits.queued_per_owner or (QUEUED if self._shared else None)

    @property
    def most_waiting(self) -> int | None:
        """How many calls of an owner may wait for an answer."""
        return self._limits.waiting_per_owner or (WAITING if self._shared else None)

    def crowded(self, owner: str) -> int | None:
        """How many calls of an owner queue, where that is as many as may."""
        most = self.most_queued
        return None if most is None or self._queue.length(owner) < most else most

    def enter(self, seat: ScheduledCall) -> bool:
        """Takes a seat now; False if it has to queue, and then `begin` is called when there is one."""
        # Nothing that is queued fits, or it would have been seated; so a call that does fit overtakes nobody.
        if (not self._seating or seat.nested) and self._fits(seat):
            self._sit(seat)
            return True
        self._places.add(seat)
        self.queued += 1
        self._nested += seat.nested
        self._queued_upstream += _is_upstream(seat)
        self._queue.add(seat)
        return False

    def _full(self, session: Any) -> bool:
        """True if no call of a session may start, unless another call made it."""
        limits = self._limits
        if self._running >= limits.per_crib:
            return True
        if session.running >= limits.per_session and not self._queued_upstream:
            return True
        return self._counts_owners and self._has_share(session.owner)

    def _has_share(self, owner: str) -> bool:
        """True if an owner holds as many seats as they may."""
        limits, held = self._limits, self._by_owner.get(owner, 0)
        if limits.per_owner is not None and held >= limits.per_owner:
            return True
        return self._shared and held >= (limits.per_crib - self._running - self._held) * self._queue.weight(owner)

    def _fits(self, seat: ScheduledCall) -> bool:
        # What an engine brought is judged by limits that hold for all nodes, and keeps no slot while it waits for them.
        call = seat.admission
        if not call.is_plain and seat.caller.on_end is not None:
            return True
        nested = not call.is_plain and call.request.origin.parent is not None
        limits, session, bound = self._limits, call.request.session, call.bound
        # A call made by another call runs in its parent's seat: the parent does nothing but wait for it.
        if not nested and (
            self._running >= limits.per_crib
            or (session.running if bound is None else self._at_work(session, bound)) >= limits.per_session
            or (self._counts_owners and self._has_share(session.owner))
        ):
            return False
        if bound is None:
            return True
        if bound.serial and self._by_tool[f"{session.id} {call.tool_id}"]:
            return False
        return bound.concurrency is None or self._by_tool[call.tool_id] < bound.concurrency

    def _at_work(self, session: Any, bound: ToolBound) -> int:
        """How many calls of a session run where one with that bound would."""
        running: int = session.running if bound.upstream is None else self._upstream[session.id, bound.upstream]
        return running

    def _sit(self, seat: ScheduledCall) -> None:
        call, session = seat.admission, seat.admission.request.session
        self._seats.add(seat)
        self._running += 1
        if call.bound is None:
            session.running += 1
        else:
            self._count(call, call.bound)
        if self._counts_owners:
            self._by_owner[session.owner] = self._by_owner.get(session.owner, 0) + 1

    def _count(self, call: AdmittedCall, bound: ToolBound) -> None:
        session = call.request.session
        if bound.upstream is None:
            session.running += 1
        else:
            self._upstream[session.id, bound.upstream] += 1
        if bound.concurrency is not None:
            self._by_tool[call.tool_id] += 1
        if bound.serial:
            self._by_tool[f"{session.id} {call.tool_id}"] += 1

    def leave(self, seat: ScheduledCall) -> None:
        """Gives its seat, or its place in the queue, to the next; one that has neither does nothing."""
        if seat not in self._seats:
            if seat in self._places:
                self._unqueue(seat)
            return
        self._seats.remove(seat)
        if self._deadlines and (line := self._deadlines.get(seat.admission.timeout_s)) is not None:
            line.pop(seat, None)
        call, session = seat.admission, seat.admission.request.session
        self._running -= 1
        if call.bound is None:
            session.running -= 1
        else:
            self._uncount(call, call.bound)
        if self._counts_owners:
            _drop(self._by_owner, session.owner)
        if self.queued and not self._seating:
            self._seat_next()

    def _uncount(self, call: AdmittedCall, bound: ToolBound) -> None:
        session = call.request.session
        if bound.upstream is None:
            session.running -= 1
        else:
            _drop(self._upstream, (session.id, bound.upstream))
        if bound.concurrency is not None:
            _drop(self._by_tool, call.tool_id)
        if bound.serial:
            _drop(self._by_tool, f"{session.id} {call.tool_id}")

    def _unqueue(self, seat: ScheduledCall) -> None:
        self._places.discard(seat)
        self.queued -= 1
        self._nested -= seat.nested
        self._queued_upstream -= _is_upstream(seat)
        self._queue.remove(seat)

    def _seat_next(self) -> None:
        """Goes round owners and sessions until nothing more fits; also for calls that are over at once."""
        self._seating, most = True, self._limits.per_crib
        try:
            while (self._nested or self._running < most) and (seat := self._queue.next(self)) is not None:
                self._unqueue(seat)
                self._sit(seat)
                seat.begin()
        finally:
            self._seating = False

    def hold(self, owner: str) -> Callable[[], None]:
        """Counts a thread that cannot be stopped as a seat of an owner, after its call; what ends that."""
        if not self._counts_owners:
            return _nothing
        self._by_owner[owner] = self._by_owner.get(owner, 0) + 1
        self._held += 1

        def free() -> None:
            if self._held:  # it was not stopped meanwhile
                self._held -= 1
                _drop(self._by_owner, owner)
            if self.queued and not self._seating:
                self._seat_next()

        return free

    def skips(self, first: ScheduledCall) -> bool:
        """True if none of an owner's queued calls fits. Then there is no need to look at each of their sessions."""
        return not self._nested and self._counts_owners and self._has_share(first.session.owner)

    def choose(self, calls: deque[ScheduledCall]) -> ScheduledCall | None:
        """The first of a session's queue that fits. Where all seats are taken there is no need to look at each."""
        first = calls[0]
        if not self._nested and self._full(first.session):
            return None
        return first if self._fits(first) else next((seat for seat in calls if self._fits(seat)), None)

    def watch(self, seat: ScheduledCall) -> None:
        """Calls `overdue` when the time that a call has is over, unless the call has finished by then."""
        seconds = seat.admission.timeout_s
        when = self._clock.now() + seconds
        self._deadlines[seconds][seat] = when
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
            while line and (first := next(iter(line.items())))[1] <= now:
                line.popitem(last=False)
                if not first[0].finished:
                    first[0].overdue()
            if not line:
                del self._deadlines[seconds]
        if self._deadlines:
            self._arm(min(next(iter(line.values())) for line in self._deadlines.values()))

    def stop(self) -> None:
        """Forgets all seats, queues and deadlines."""
        self._running = self._nested = self._held = self.queued = self._queued_upstream = 0
        self._by_tool.clear()
        self._upstream.clear()
        self._by_owner.clear()
        self._queue.clear()
        self._seats.clear()
        self._places.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadlines.clear()


def _is_upstream(seat: ScheduledCall) -> bool:
    bound = seat.admission.bound
    return bound is not None and bound.upstream is not None


def _nothing() -> None:
    """Nothing was counted."""


def _drop(counter: dict[K, int], key: K) -> None:
    left = counter.get(key, 0) - 1  # there is nothing left after a stop
    if left > 0:
        counter[key] = left
    else:
        counter.pop(key, None)


class SystemClock:
    """The real time on the running loop: of this machine, or of a store that several machines share."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now

    def call_at(self, when: float, do: Callable[[], None]) -> asyncio.TimerHandle:
        """On the running loop."""
        return asyncio.get_running_loop().call_later(max(0.0, when - self.now()), do)


# Tasks that run up to their first pause at once, so that a body which never pauses costs no trip through the loop.
# Python 3.12 and newer offer this. On 3.11 spare tasks stand ready: work takes its first step under the name of one,
# and only work that pauses is handed over to it, so that what asked for the current task holds the right one.

Work = Coroutine[Any, Any, None]


class EagerStarter:
    """Starts work with the means of Python 3.12."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, work: Work) -> asyncio.Task[None] | None:
        """Runs work up to its first pause; its task, or None if it is over."""
        task = asyncio.Task(work, loop=self._loop, eager_start=True)  # type: ignore[call-arg]  # from 3.12 on
        return None if task.done() else task

    def close(self) -> None:
        """Nothing stands ready."""


class SpareStarter:
    """Starts work under the name of a spare task; work that starts work takes another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spares: list[_Spare] = []
        self._current: dict[Any, Any] = asyncio.tasks._current_tasks  # type: ignore[attr-defined]  # by loop

    def start(self, work: Work) -> asyncio.Task[None] | None:
        """Runs work up to its first pause; its task, or None if it is over."""
        loop, current = self._loop, self._current
        spare = self._spares.pop() if self._spares else _Spare(loop)
        task, outer, context = spare.task, current.get(loop), copy_context()
        current[loop] = task
        try:
            paused_on = context.run(work.send, None)
        except StopIteration:
            self._spares.append(spare)
            return None
        except BaseException:
            self._spares.append(spare)
            raise
        finally:
            if outer is None:
                del current[loop]
            else:
                current[loop] = outer
        spare.take_over(work, context, paused_on)
        return task

    def close(self) -> None:
        """Lets go of the spare tasks."""
        while self._spares:
            self._spares.pop().task.cancel()


class _Spare(Coroutine[Any, Any, None]):
    """What a spare task runs: nothing, until it is given work that has already begun.

    It is no `async def`, since it may be cancelled before the loop has stepped it once, and the work must hear of it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ready: asyncio.Future[None] = loop.create_future()
        self._work: Work | None = None
        self._going = False
        self.task = loop.create_task(self)

    def take_over(self, work: Work, context: Context, paused_on: Any) -> None:
        """Goes on with work that paused. From now on only the task holds this: a cycle would wait for the collector."""
        del self.task
        self._work, self._context, self._paused_on = work, context, paused_on
        if not self._ready.done():
            self._ready.set_result(None)

    def send(self, value: Any) -> Any:
        """The next step: to wait for work, to wait for what the work waits for, or a step of the work itself."""
        if self._work is None:
            return self._ready.__await__().send(None)
        if not self._going:
            self._going = True
            return self._paused_on
        return self._context.run(self._work.send, value)

    def throw(self, error: Any, value: Any = None, traceback: Any = None) -> Any:
        """A cancel that comes before the first step reaches what the work waits for, as any other would."""
        if self._work is None:
            raise error
        if not self._going:
            self._going = True
            if self._paused_on is not None and self._paused_on.cancel():
                return self._paused_on
        return self._context.run(self._work.throw, error)

    def close(self) -> None:
        """The loop lets go of it."""
        if self._work is not None:
            self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise RuntimeError("a spare task's work is not awaited")


if sys.version_info >= (3, 12):
    Starter = EagerStarter
else:
    Starter = SpareStarter
