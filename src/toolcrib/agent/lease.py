"""Who may go on with the foreground run of a session, and who has to see to a message: rows that the store guards.

A run has one lease, named by its number in the session, so that of two processes which begin the next run the store
lets one. Each write of a run carries its lease as it was taken: whoever lost it writes nothing more. The key of a
message is unique among the leases of its session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolcrib.errors import StoreError, ToolcribError
from toolcrib.store import Conflict, Draft, Row, Write

if TYPE_CHECKING:
    from toolcrib.agent.conversation import AgentRun
    from toolcrib.session import Session


class LeaseLost(ToolcribError):
    """Another process goes on with the run; nothing was written."""


def run_lease(session: Session, number: int, key: str | None = None) -> Row:
    """The lease of the run of that number, held by this process; `key` is that of the message that begins it."""
    return _lease(session, f"run:{session.id}:{number}", "run", key)


def message_lease(session: Session, id: str, key: str | None = None) -> Row:
    """What holds this process to a queued message until a run takes it."""
    return _lease(session, f"message:{session.id}:{id}", "message", key)


def end_of(session: Session, run: str) -> Row:
    """What one process alone can write: that a run has ended whose call ended without it."""
    return _lease(session, f"run:{session.id}:{run}", "run", None).but(state="ended")


def message_id(key: str) -> str:
    """By which id a message of that key is queued."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _lease(session: Session, id: str, kind: str, key: str | None) -> Row:
    pipeline = session.pipeline
    unique = None if key is None else f"\x1fmessage:{message_id(key)}"  # keys of calls are another matter
    return Row(id, session.id, kind, "lease", "held", 1, pipeline.worker, pipeline.clock.now(), key=unique)


class Lease:
    """The lease on the foreground run of a session, as far as this process holds it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.crib.store
        self._row: Row | None = None

    @property
    def held(self) -> bool:
        """True if this process holds it, as far as it knows."""
        return self._row is not None

    @property
    def in_body(self) -> bool:
        """True if calls are made under it."""
        return self._row is not None

    def guard(self, write: Write, on_conflict: Callable[[Conflict], None]) -> None:
        """Has the store refuse a call of the run once another process goes on with it."""
        if self._row is not None:
            write.holder, write.on_conflict = (self._row.id, self._row.attempt), on_conflict

    def fence(self, row: Row | None) -> None:
        """Another process goes on with the run."""
        self._row = None

    def heed(self) -> None:
        """Stop here unless this process holds it.

        Raises:
            LeaseLost: it does not.
        """
        if self._row is None:
            raise LeaseLost("Another process goes on with the run")

    async def make_sure(self) -> None:
        """Look whether another process has taken it. While the store is away its own guards have to do."""
        mine = self._row
        if mine is None:
            return
        try:
            row = await self._store.call(mine.id)
        except StoreError:
            return
        if self._row is mine and (row is None or (row.state, row.attempt) != (mine.state, mine.attempt)):
            self.fence(row)

    async def end(self, write: Write, run: str) -> None:
        """Commits the end of a run whose call has ended without it.

        Raises:
            LeaseLost: another process has done that.
        """
        write.row = end_of(self._session, run)
        if await self._store.commit(write) is not None:
            raise LeaseLost("Another process has ended the run")

    async def begin(self, write: Write, number: int, key: str | None) -> bool:
        """Commits the first events of a run; False where another process began that run, or sent that key."""
        row = run_lease(self._session, number, key)
        write.row = row
        if await self._store.commit(write) is not None:
            return False
        self._row = row
        return True

    async def take(self, run: AgentRun) -> bool:
        """Takes the lease of a run unless a living process holds it; whether this process has it now."""
        new = run_lease(self._session, run.number)
        if self._row is not None and self._row.id == new.id:
            return True
        self._row = None
        row = await self._store.call(new.id)
        if row is not None:
            if row.state == "ended" or await self._elsewhere(row):
                return False
            new = row.but(state="held", attempt=row.attempt + 1, worker=new.worker)
        write = Write(self._session.id, [], new, None if row is None else (row.state, row.attempt))
        if await self._store.commit(write) is not None:
            return False
        self._row = new
        return True

    async def _elsewhere(self, row: Row) -> bool:
        """True if a process that lives holds it; this one would know."""
        here = self._session.pipeline.worker
        return row.state == "held" and row.worker not in (None, here) and await self._store.alive(row.worker or "")

    async def commit(self, write: Write) -> None:
        """Commits events of the run that this process holds.

        Raises:
            LeaseLost: it does not hold it any more.
        """
        self.heed()
        row = self._row
        assert row is not None
        kinds = {event[2] for event in write.events}
        after = row.but(state="ended" if "run_finished" in kinds else "released" if "run_waiting" in kinds else "held")
        self._guard(write, row, after)
        if await self._store.commit(write) is not None:
            self._row = None
            raise LeaseLost("Another process goes on with the run")
        self._row = after if after.state == "held" else None

    def put(self, draft: Draft) -> None:
        """Writes an event of the run soon; nothing, where another process has it by then."""
        if self._row is not None:
            write = Write(self._session.id, [draft])
            self._guard(write, self._row, self._row)
            self._store.put(write)

    def release(self) -> None:
        """Leaves the run to whoever opens the session next, or brings what it waits for."""
        if self._row is not None:
            write = Write(self._session.id, [])
            self._guard(write, self._row, self._row.but(state="released"))
            self._store.put(write)
            self._row = None

    def _guard(self, write: Write, before: Row, after: Row) -> None:
        write.row, write.expect = after, (before.state, before.attempt)
