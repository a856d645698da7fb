"""What the store could not take at once: it is tried again, left to a task of its own, or taken back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolcrib._call import lifecycle
from toolcrib._call.failures import trace
from toolcrib.errors import StoreUnavailable
from toolcrib.store import Conflict, Row, Write, draft
from toolcrib.types import Result

if TYPE_CHECKING:
    from toolcrib._call.live_call import LiveCall
    from toolcrib._call.pipeline import Pipeline

RETRY_S = 1.0
QUIET = 30
"""Attempts to record a call of which one is told."""


class LateWrites:
    """The writes of a crib that come late. `unwritten` are, by the id of a call, those that it made and whose ends are
    yet to be written: it ends after them.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.unwritten: dict[str, set[str]] = {}

    async def retry(self, live: LiveCall, write: Write, error: StoreUnavailable) -> Conflict | None:
        """Writes it as soon as the store can, unless its call never ran, or was stopped."""
        attempt = 0
        while True:
            if write.expect is None or self._pipeline.stopping or self._begins(live, write):
                raise error
            if attempt % QUIET == 0:
                trace.error("call %s cannot be recorded yet: %s", live.id, error)
            if live.halted or live.late_stop is not None:
                self._write_later(live, write)  # its caller is told before
                raise error
            attempt += 1
            await asyncio.sleep(RETRY_S)
            try:
                if live.id not in self.unwritten:
                    return await self._pipeline.commit(live, write)
            except StoreUnavailable as again:
                error = again

    def _begins(self, live: LiveCall, write: Write) -> bool:
        """True if the crib starts and writes this for it: then it fails. What a body has done already is kept."""
        assert write.row is not None and write.expect is not None
        return self._pipeline.starting and (live.id not in live.session.live or write.row.attempt != write.expect[1])

    def _write_later(self, live: LiveCall, write: Write) -> None:
        """Leaves the end of a stopped call to a task of its own. The call that made it ends after it."""
        row = write.row
        assert row is not None
        parent = None if row.background else row.parent
        if parent is not None:
            self.unwritten.setdefault(parent, set()).add(live.id)
        self._pipeline.aside(self._durably_later(live, write)).add_done_callback(
            lambda _: self._written(parent, live.id)
        )

    def _written(self, parent: str | None, child: str) -> None:
        if parent is not None and (children := self.unwritten.get(parent)) is not None:
            children.discard(child)
            if not children:
                del self.unwritten[parent]

    async def _durably_later(self, live: LiveCall, write: Write) -> None:
        """Ends a stopped call when the store is back, unless the crib ends before: then recovery finds it.

        Where its end was not being written yet, or was refused, it ends on the row that stands, while that is ours.
        """
        assert write.row is not None and write.expect is not None
        state, attempt = write.expect
        standing = write.row.but(state=state, attempt=attempt)
        if write.row.state != "done":
            write = self._end(live, standing)
        while not self._pipeline.stopping:
            await asyncio.sleep(RETRY_S)
            if live.id in self.unwritten:
                continue
            try:
                conflict = await self._pipeline.store.commit(write)
            except StoreUnavailable as error:
                trace.error("call %s cannot be recorded yet: %s", live.id, error)
                continue
            if conflict is None or conflict.fenced:
                return
            standing = conflict.row or standing  # none stands in its way where only the state has moved
            if standing.state == "done" or standing.worker != self._pipeline.worker:
                return
            write = self._end(live, standing)

    def retract(self, live: LiveCall, row: Row) -> Write | None:
        """The end of a new call that was refused, and that the store has all the same: it never runs."""
        if row.state == "done":
            return None
        failure = live.failure("unavailable", "The store did not answer in time; the call was not begun")
        write = self._end(live, row, Result(failure=failure, metadata={"retracted": True}))
        write.frees_key = row.key is not None
        return write

    def _end(self, live: LiveCall, row: Row, result: Result | None = None) -> Write:
        """The end of a call that was stopped, on the row that stands."""
        now, result = self._pipeline.clock.now(), result or live.stopped()
        assert result.failure is not None
        write = lifecycle.finish(row, result.failure.code, [draft(now, live.id, lifecycle.done(live, result, now))])
        write.forgets = live.forgets
        return write
