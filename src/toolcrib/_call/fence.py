"""Whether a call is still this process's: a body that another process has taken over makes and writes nothing more.

The store decides, in the transaction of each write. Here is what follows from a refusal: the body ends where it next
meets the runtime, whatever it catches. One that meets it no more runs to its end, and what it returns is refused too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from toolcrib._call.call_facts import CallFacts
from toolcrib.context import Parked, Stopped
from toolcrib.errors import StoreError
from toolcrib.store import Conflict, Row, Write
from toolcrib.types import Failure

if TYPE_CHECKING:
    pass


class StopRequest(NamedTuple):
    """Why a call is to stop, and what its result says beside that."""

    failure: Failure
    metadata: Mapping[str, Any] | None = None


class Ownership(msgspec.Struct):
    """What few calls have: what is known of who has them, and what came while their end was being written."""

    fenced: bool = False
    cut: bool = False
    sure_at: float = 0.0
    late_stop: Failure | None = None
    """What it was asked to stop for while its end was being written: whatever is tried again then is not."""


Phase = Literal["open", "concluding", "finished"]
"""Whether the end of a call is yet to come, is being written, or was."""


class Fence(CallFacts, eq=False, weakref=True):
    """The part of a call in flight that knows who has it. Its maker is what it is made on behalf of."""

    row: Row | None = None
    phase: Phase = "open"
    in_body: bool = False
    open_question: dict[str, Any] | None = None
    stop_request: StopRequest | None = None
    ownership: Ownership | None = None

    @property
    def concluding(self) -> bool:
        """True if its end is being written, or was."""
        return self.phase != "open"

    @property
    def finished(self) -> bool:
        """True if this process is through with it."""
        return self.phase == "finished"

    @property
    def fenced(self) -> bool:
        """True if another process has it."""
        return self.ownership is not None and self.ownership.fenced

    @property
    def cut(self) -> bool:
        """True if its body met the runtime after another process had it."""
        return self.ownership is not None and self.ownership.cut

    @property
    def late_stop(self) -> Failure | None:
        """What it was asked to stop for while its end was being written."""
        return None if self.ownership is None else self.ownership.late_stop

    def _owned(self) -> Ownership:
        if self.ownership is None:
            self.ownership = Ownership()
        return self.ownership

    @property
    def halted(self) -> bool:
        """True if it was asked to stop."""
        return self.stop_request is not None

    @property
    def stopping(self) -> str | None:
        """The code of the failure for which it was asked to stop."""
        return None if self.stop_request is None else self.stop_request.failure.code

    def warn(self) -> None:
        """Lets a body go on that waits to be stopped."""
        raise NotImplementedError

    def stop_children(self) -> None:
        """Has all that it called stop with it."""
        raise NotImplementedError

    @property
    def given_away(self) -> bool:
        """True if another process has it and this one has nothing to say of it: only who ran a `once` call to its end
        knows what came of it.
        """
        return self.fenced and (self.cut or self.row is None or self.row.effect != "once")

    @property
    def in_doubt(self) -> bool:
        """True if others may have taken this node for dead since it was last looked at."""
        lapsed = self.pipeline.lapsed
        if lapsed is None or not self.in_body:
            return False
        return lapsed(0.0 if self.ownership is None else self.ownership.sure_at)

    def heed(self) -> None:
        """Ends a body here that has nothing more to do: its call is another's, is over, or waits for an answer."""
        if self.fenced:
            self._owned().cut = True
            raise Stopped
        if self.open_question is not None:
            raise Parked
        if self.concluding:
            raise Stopped

    async def meet(self) -> None:
        """The same where a body wants something done, after a look at who has the call if there is any doubt."""
        self.heed()
        if self.in_doubt:
            await self.make_sure()
            self.heed()

    async def make_sure(self) -> None:
        """Looks whether another process has taken the call over. While the store is away its own guards have to do."""
        since = time.monotonic()
        self.pipeline.begin_behind(self)  # type: ignore[arg-type]  # a call in flight is what may be fenced
        mine = self.row
        assert mine is not None
        try:
            row = await self.pipeline.store.call(self.id)
        except StoreError:
            return
        if self.row is mine and (row is None or (row.state, row.attempt) != (mine.state, mine.attempt)):
            self.fence(row)
        self._owned().sure_at = since

    def hold(self, write: Write) -> bool:
        """Has the store refuse what its own body writes elsewhere once it is another's; False where it is over."""
        if self.concluding:
            return False
        if self.in_body:
            self.guard(write, lambda conflict: self.fence(conflict.row))
        return True

    def guard(self, write: Write, on_conflict: Callable[[Conflict], None]) -> None:
        """Has the store refuse a write once another process has this call."""
        self.pipeline.begin_behind(self)  # type: ignore[arg-type]  # as above
        assert self.row is not None
        write.holder = self.id, self.row.attempt
        write.on_conflict = on_conflict

    def refused(self, conflict: Conflict) -> None:
        """A write was refused: another process has the call, or the one that made it and now has no such child."""
        if conflict.closed:
            return  # the session takes no new calls, which is nobody's fence
        if conflict.fenced and self.maker is not None:
            self.maker.fence(conflict.row)
        self.fence(None if conflict.fenced else conflict.row)

    def fence(self, row: Row | None) -> None:
        """Another process has it. Its children go on, unless it has ended: whoever runs it now waits for them."""
        if self.fenced or self.finished:
            return
        self._owned().fenced = True
        self.warn()
        if row is None or row.state == "done":
            self.stop_children()
