"""Whether a call is still this process's: a body that another process has taken over makes and writes nothing more.

The store decides, in the transaction of each write. Here is what follows from a refusal: the body ends where it next
meets the runtime, whatever it catches. One that meets it no more runs to its end, and what it returns is refused too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from toolcrib.context import Parked, Stopped
from toolcrib.errors import StoreError
from toolcrib.store import Conflict, Row, Write
from toolcrib.types import Failure

if TYPE_CHECKING:
    from toolcrib._call.pipeline import Pipeline


class StopRequest(NamedTuple):
    """Why a call is to stop, and what its result says beside that."""

    failure: Failure
    metadata: Mapping[str, Any] | None = None


class Maker(Protocol):
    """What calls are made on behalf of, and only as long as this process has it: a call, or the run of an agent."""

    @property
    def in_body(self) -> bool:
        """Whether it makes calls now."""

    def guard(self, write: Write, on_conflict: Callable[[Conflict], None]) -> None:
        """Has the store refuse a write once another process has it."""

    def fence(self, row: Row | None) -> None:
        """Another process has it."""


class Fence:
    """The part of a call in flight that knows who has it. `maker` is what it is made on behalf of."""

    pipeline: Pipeline
    id: str
    row: Row | None = None
    in_body = False
    concluding = False
    finished = False
    fenced = False
    asked: dict[str, Any] | None = None
    maker: Maker | None = None
    stop_request: StopRequest | None = None
    cut = False
    sure_at = 0.0

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
        """Whether another process has it and this one has nothing to say of it: only who ran a `once` call to its end
        knows what came of it.
        """
        return self.fenced and (self.cut or self.row is None or self.row.effect != "once")

    @property
    def in_doubt(self) -> bool:
        """Whether others may have taken this node for dead since it was last looked at."""
        lapsed = self.pipeline.lapsed
        return lapsed is not None and self.in_body and lapsed(self.sure_at)

    def heed(self) -> None:
        """Ends a body here that has nothing more to do: its call is another's, is over, or waits for an answer."""
        if self.fenced:
            self.cut = True
            raise Stopped
        if self.asked is not None:
            raise Parked
        if self.finished or self.concluding:
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
        self.sure_at = since

    def on_behalf(self, write: Write, maker: Maker) -> None:
        """Has the store refuse what a body or a run makes when that is not this process's any more."""
        if maker.in_body:
            maker.guard(write, self.refused)

    def hold(self, write: Write) -> bool:
        """Has the store refuse what its own body writes elsewhere once it is another's; False where it is over."""
        if self.finished or self.concluding:
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
        self.fenced = True
        self.warn()
        if row is None or row.state == "done":
            self.stop_children()
