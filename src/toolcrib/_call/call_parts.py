"""What few calls in flight have: a log of earlier passes, a context, output, files; a task, a timer, children."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib._call.fence import Fence
from toolcrib._call.host import CallHost
from toolcrib._call.output import CallOutput
from toolcrib._call.ports import AgentScope
from toolcrib.events import Event

if TYPE_CHECKING:
    from toolcrib._call.history import History
    from toolcrib._call.live_call import LiveCall

WITH_PARENT = "Cancelled with the call that made it"


class BodyParts(msgspec.Struct):
    """What few bodies need: the log of earlier passes, a context, output, files."""

    history: History | None = None
    announce: bool = True
    retries: int = 0
    host: CallHost | None = None
    output: CallOutput | None = None
    attached: tuple[tuple[str, bytes], ...] = ()
    scope: AgentScope | None = None
    digest: tuple[Any, str] | None = None


class Ties(msgspec.Struct):
    """What a call that pauses is tied to: its task, a timer, and who waits for whom."""

    task: asyncio.Task[None] | None = None
    timer: Any = None
    children: set[LiveCall] = msgspec.field(default_factory=set)
    waiters: set[asyncio.Future[None]] = msgspec.field(default_factory=set)
    outcome: asyncio.Future[Event] | None = None


class CallParts(Fence, eq=False, weakref=True):
    """The part of a call in flight that holds them, each made when it is first needed."""

    body: BodyParts | None = None
    ties: Ties | None = None

    def _parts(self) -> BodyParts:
        if self.body is None:
            self.body = BodyParts()
        return self.body

    def _tied(self) -> Ties:
        if self.ties is None:
            self.ties = Ties()
        return self.ties

    @property
    def children(self) -> set[LiveCall]:
        """The calls that it made and waits for."""
        return set() if self.ties is None else self.ties.children

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What runs it, once it has paused."""
        return None if self.ties is None else self.ties.task

    @property
    def outcome(self) -> asyncio.Future[Event] | None:
        """Its end, where another process may write it."""
        return None if self.ties is None else self.ties.outcome

    @property
    def history(self) -> History | None:
        """What the log says of it, where it goes on."""
        return None if self.body is None else self.body.history

    @property
    def announce(self) -> bool:
        """True if the log has to say that it starts."""
        return self.body is None or self.body.announce

    @property
    def retries(self) -> int:
        """How often it ran again on another state."""
        return 0 if self.body is None else self.body.retries

    @property
    def attached(self) -> tuple[tuple[str, bytes], ...]:
        """Bytes that are kept beside the log with its result."""
        return () if self.body is None else self.body.attached

    @property
    def edited(self) -> dict[str, Any] | None:
        """What an approver changed."""
        return None if self.history is None else self.history.edited

    @property
    def behind(self) -> Sequence[str] | None:
        """The calls that it waits for, where its body was let go until one of them ends."""
        return None if self.body is None or self.body.host is None else self.body.host.behind

    @property
    def has_output(self) -> bool:
        """True if its body told progress or output."""
        return self.body is not None and self.body.output is not None and self.body.output.is_used

    def flush(self) -> None:
        """Writes all that was put out and held back."""
        if self.body is not None and self.body.output is not None:
            self.body.output.flush()

    def warn(self) -> None:
        """Lets a body go on that waits to be stopped."""
        if self.body is not None and self.body.host is not None:
            self.body.host.warn()

    def stop_children(self) -> None:
        """Has all that it called stop with it."""
        for child in list(self.children):
            child.stop(child.failure("cancelled", WITH_PARENT))

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        """Does something later, unless the call is over by then."""
        clock = self.pipeline.clock
        ties = self._tied()
        if ties.timer is not None:
            ties.timer.cancel()
        ties.timer = clock.call_at(clock.now() + seconds, do)

    async def _calm(self) -> None:
        """Takes the cancellation that stopped the body off this task, so that the end can be recorded in peace."""
        if self.task is None:
            return
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        while self.task.cancelling():
            self.task.uncancel()
