"""The log of a session as its agents read and write it, and the leases that guard what they write.

A run has one lease, named by its number in the session, so that of two processes which begin the next run the store
lets one. Each write of a run carries its lease as it was taken: whoever lost it writes nothing more. The key of a
message is unique among the leases of its session.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolcrib._call.live_call import LiveCall
from toolcrib.agent.attachments import MessageContent
from toolcrib.agent.conversation import AgentRun, Conversation
from toolcrib.agent.definition import RunOverrides
from toolcrib.agent.transcript import CallNote
from toolcrib.errors import StoreError, ToolcribError
from toolcrib.events import EventData, MessageAdded, MessageQueued, RunFinished
from toolcrib.store import Conflict, Draft, Row, State, Write, draft
from toolcrib.store.codec import PAGE_BYTES

if TYPE_CHECKING:
    from toolcrib.session import Session

PAGE = 1000
ALL = 100_000
MODEL = "model"
"""The cursor that tells which results the model has read."""

_run_id = "run:{}:{}".format
"""Gives the id of the lease of a run, by its session and its number there."""


class LeaseLost(ToolcribError):
    """Another process goes on with the run; nothing was written."""


def run_lease(session: Session, number: int, key: str | None = None) -> Row:
    """The lease of the run of that number, held by this process; `key` is that of the message that begins it."""
    return _lease(session, _run_id(session.id, number), "run", key)


def message_lease(session: Session, id: str, key: str | None = None) -> Row:
    """What holds this process to a queued message until a run takes it."""
    return _lease(session, f"message:{session.id}:{id}", "message", key)


def end_of(session: Session, run: str) -> Row:
    """What one process alone can write: that a run has ended whose call ended without it."""
    return _lease(session, _run_id(session.id, run), "run", None).but(state="ended")


def message_id(key: str) -> str:
    """By which id a message of that key is queued."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _lease(session: Session, id: str, kind: str, key: str | None) -> Row:
    pipeline = session.pipeline
    unique = None if key is None else f"\x1fmessage:{message_id(key)}"  # keys of calls are another matter
    return Row(id, session.id, kind, "lease", "held", 1, pipeline.worker, pipeline.clock.now(), key=unique)


class Lease:
    """The lease on the foreground run of a session, as far as this process holds it."""

    in_body = True  # calls are made under it

    def __init__(self, session: Session) -> None:
        self._session = session
        self._store = session.crib.store
        self.row: Row | None = None
        """It as this process holds it, as far as it knows; None where it does not."""

    def guard(self, write: Write, on_conflict: Callable[[Conflict], None]) -> None:
        """Has the store refuse a call of the run once another process goes on with it."""
        if self.row is not None:
            write.holder, write.on_conflict = (self.row.id, self.row.attempt), on_conflict

    def fence(self, row: Row | None) -> None:
        """Another process goes on with the run."""
        self.row = None

    def heed(self) -> None:
        """Stop here unless this process holds it.

        Raises:
            LeaseLost: it does not.
        """
        if self.row is None:
            raise LeaseLost("Another process goes on with the run")

    async def make_sure(self) -> None:
        """Look whether another process has taken it. While the store is away its own guards have to do."""
        mine = self.row
        if mine is None:
            return
        try:
            row = await self._store.call(mine.id)
        except StoreError:
            return
        if self.row is mine and (row is None or (row.state, row.attempt) != (mine.state, mine.attempt)):
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
        self.row = row
        return True

    def holds(self, run: AgentRun) -> bool:
        """True if it is that run which this process holds."""
        return self.row is not None and self.row.id == _run_id(self._session.id, run.number)

    async def take(self, run: AgentRun) -> bool:
        """Take the lease of a run unless a living process holds it; return True if this process has it now."""
        new = run_lease(self._session, run.number)
        self.row = None
        row = await self._store.call(new.id)
        if row is not None:
            if row.state == "ended" or await self._elsewhere(row):
                return False
            new = row.but(state="held", attempt=row.attempt + 1, worker=new.worker)
        write = Write(self._session.id, [], new, None if row is None else (row.state, row.attempt))
        if await self._store.commit(write) is not None:
            return False
        self.row = new
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
        row, kind = self.row, write.events[-1][2]
        if row is None:
            raise LeaseLost("Another process goes on with the run")
        state: State = "ended" if kind == "run_finished" else "released" if kind == "run_waiting" else "held"
        write.row, write.expect = replace(row, state=state), (row.state, row.attempt)
        if await self._store.commit(write) is not None:
            self.row = None
            raise LeaseLost("Another process goes on with the run")
        self.row = write.row if state == "held" else None

    def put(self, draft: Draft) -> None:
        """Writes an event of the run soon; nothing, where another process has it by then."""
        if self.row is not None:
            write = Write(self._session.id, [draft])
            self._guard(write, self.row, self.row)
            self._store.put(write)

    def release(self) -> None:
        """Leaves the run to whoever opens the session next, or brings what it waits for."""
        if self.row is not None:
            write = Write(self._session.id, [])
            self._guard(write, self.row, self.row.but(state="released"))
            self._store.put(write)
            self.row = None

    def _guard(self, write: Write, before: Row, after: Row) -> None:
        write.row, write.expect = after, (before.state, before.attempt)


class RunLog:
    """Reads the log of one session into a `Conversation`, appends to it, and wakes whoever waits for it to change.

    Of calls that this process runs it is told directly; their events are read only where others may run them: by an
    engine, or while another process may go on with the run.

    Events of a run in the foreground are written only as long as this process holds its lease; those that the body of a
    call causes, its maker, only as long as it holds that call; the end of a run that lost its call, once.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.store = session.crib.store
        self.clock = session.pipeline.clock
        self.conversation = Conversation()
        self.lease = Lease(session)
        self.changes = 0
        self._reading = asyncio.Lock()
        self._read = False
        self._change = asyncio.Event()

    async def catch_up(self, *, whole: bool = False) -> None:
        """Takes in what the log says by now; with `whole` all of it."""
        async with self._reading:
            if not self._read:
                await self.store.flush()
            whole = whole or not self._read or self.lease.row is None or self.session.pipeline.engine is not None
            call, more = None if whole else "", True
            while more:
                page = await self.store.read(self.session.id, self.conversation.seen, limit=PAGE, call=call)
                for event in page:
                    self.conversation.advance(event)
                more = len(page) == PAGE or sum(len(event.json) for event in page) > PAGE_BYTES // 2
            self._read = True

    async def write(
        self, *events: EventData, run: AgentRun | None = None, read: bool = False, maker: LiveCall | None = None
    ) -> None:
        """Appends events in one piece, and takes them in; with `read` the cursor of the model moves with them.

        Raises:
            LeaseLost: another process goes on with the run.
            Stopped: another process has the call.
        """
        write = await self._write(events, read)
        if maker is None and run is not None and run.parent is None:
            await self.lease.commit(write)
        else:
            await self._commit(write, run, maker)
        await self._written(events)

    async def _commit(self, write: Write, run: AgentRun | None, maker: LiveCall | None) -> None:
        if maker is not None:
            await maker.meet()
            maker.hold(write)
            conflict = await self.store.commit(write)
            if conflict is not None:
                maker.fence(conflict.row)
                maker.heed()
        elif run is not None:
            await self.lease.end(write, run.id)
        else:
            await self.store.commit(write)

    async def begin(self, number: int, key: str | None, events: Sequence[EventData]) -> bool:
        """Starts the run of that number in the foreground; False where another process has, or the key was used."""
        write = await self._write(events, read=True)
        began = await self.lease.begin(write, number, key)
        if began:
            await self._written(events)
        return began

    async def queue(
        self, mode: str, content: MessageContent, key: str | None, agent: str | None, overrides: RunOverrides
    ) -> int | None:
        """Queues a message, which this process has to see to; its number, or None where its key was used."""
        id = self.session.pipeline.new_id() if key is None else message_id(key)
        row = message_lease(self.session, id, key)
        events = [MessageQueued(mode, content.text, key, agent, id=id, parts=content.parts, **overrides._asdict())]
        write = await self._write(events, read=False)
        write.row = row
        if await self.store.commit(write) is not None:
            return None
        await self._written(events)
        return row.accepted_seq

    async def _write(self, events: Sequence[EventData], read: bool) -> Write:
        cursor = (MODEL, await self._read_up_to(events)) if read else None
        now, last = self.clock.now(), events[-1]
        write = Write(self.session.id, [(now, None, one.kind, one) for one in events], cursor=cursor)
        run = self.conversation.runs.get(last.run) if isinstance(last, RunFinished) else None
        # What a model gave to calls that never began is not needed any more.
        notes = () if run is None else run.notes
        write.forgets = tuple([note.id for note in notes if note.secret and note.state == "new"])
        return write

    async def _written(self, events: Sequence[EventData]) -> None:
        if self.conversation.queue:
            self._settle(events)
        await self.catch_up()
        self.notify()

    def _settle(self, events: Sequence[EventData]) -> None:
        taken = {one.queued for one in events if isinstance(one, MessageAdded) and one.queued is not None}
        for one in self.conversation.queue:
            if one.seq in taken and one.id is not None:
                self.settle(message_lease(self.session, one.id, one.key))

    def settle(self, message: Row) -> None:
        """A run has taken a message: nobody has to see to it any more."""
        ended = Write(self.session.id, [], message.but(state="ended"), ("held", message.attempt))
        self.store.put(ended)

    async def _read_up_to(self, events: Sequence[EventData]) -> int:
        """How far its model has read when these events are written: up to the first result that it has not seen."""
        read = await self.store.cursor(self.session.id, MODEL)
        for row in await self.store.calls(self.session.id, done_after=read, limit=ALL):
            if row.background and not self._shown(row.id, events):
                break
            read = row.done_seq or read
        return read

    def _shown(self, call: str, events: Sequence[EventData]) -> bool:
        """True if the model has read the result of a call in the background, or does with these events."""
        if any(call in (one.results or ()) for one in events if isinstance(one, MessageAdded)):
            return True
        note = self.conversation.calls.get(call)
        return note is not None and note.state == "done" and call not in self.conversation.late

    def put(self, data: EventData, run: AgentRun | None, maker: LiveCall | None) -> None:
        """Appends an event soon, behind what was written before, on the conditions of `write`."""
        event = draft(self.clock.now(), None, data)
        if maker is not None:
            write = Write(self.session.id, [event])
            if maker.hold(write):
                self.store.put(write)
        elif run is not None and run.parent is None:
            self.lease.put(event)
        else:
            self.store.put(Write(self.session.id, [event]))

    def note(self, run: AgentRun, text: str, maker: LiveCall) -> None:
        """Leaves a note for the model on behalf of a call, from whichever thread."""
        if maker.fenced:
            maker.heed()
        data = MessageAdded(role="note", content=text, run=run.id)
        pipeline = self.session.pipeline
        if threading.get_ident() == pipeline.thread:  # before the end of the call, which may come at once
            self.put(data, run, maker)
        else:
            pipeline.loop.call_soon_threadsafe(self.put, data, run, maker)

    # What wakes whoever waits

    def notify(self) -> None:
        """Something happened."""
        self.changes += 1
        before, self._change = self._change, asyncio.Event()
        before.set()

    async def changed(self, since: int, *, outside: bool = False) -> None:
        """Returns when something has happened since; with `outside` also when another process wrote something."""
        if self.changes == since:
            await (self._changed_somewhere() if outside else self._change.wait())

    async def _changed_somewhere(self) -> None:
        here = asyncio.ensure_future(self._change.wait())
        other = asyncio.ensure_future(self.store.wait(self.session.id, self.conversation.seen))
        try:
            await asyncio.wait({here, other}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            here.cancel()
            other.cancel()

    def take_call(self, live: LiveCall) -> None:
        """A call of this process has ended, or waits for somebody."""
        note = self.conversation.calls.get(live.id)
        if note is None and live.background:
            provider = live.request.options.provider_id
            note = self.conversation.calls[live.id] = CallNote(live.id, live.tool_id, "", provider, live.run, 0)
        if note is None:
            return
        note.tool = live.tool_id or note.tool
        if live.background:
            self.conversation.to_background(note)
        if live.result is not None:
            self.conversation.ended(
                note, live.result, live.wake or (live.tool.wake if live.tool is not None else "next_turn")
            )
        elif live.row is not None and live.row.state == "waiting":
            note.state, note.question = "waiting", live.row.question
