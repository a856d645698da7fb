"""A session as its runs see it: the log folded, the one driver that goes on with it, and what wakes that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from toolcrib._call.live_call import LiveCall
from toolcrib.agent import attachments, toolset
from toolcrib.agent.attachments import MessageContent
from toolcrib.agent.conversation import AgentRun, Conversation
from toolcrib.agent.definition import Agent
from toolcrib.agent.lease import Lease, message_id, message_lease
from toolcrib.agent.models import CompletionRequest, Message, Model
from toolcrib.agent.registry import AgentRegistry
from toolcrib.agent.run_scope import RunScope, narrowed
from toolcrib.agent.templates import filled
from toolcrib.agent.transcript import CallNote, rendered
from toolcrib.errors import Refused
from toolcrib.events import EventData, MessageAdded, MessageQueued, RunFinished, RunStarted
from toolcrib.policy import Policy
from toolcrib.store import Row, Write, draft
from toolcrib.store.codec import decode

if TYPE_CHECKING:
    from toolcrib.agent.runtime import Agents
    from toolcrib.session import Session

PAGE = 1000
ALL = 100_000
MODEL = "model"
"""The cursor that tells which results the model has read."""


class Driver:
    """What the runs of one session share. It holds nothing that the log does not say."""

    def __init__(self, agents: Agents, session: Session) -> None:
        self.agents = agents
        self.session = session
        self.store = session.crib.store
        self.clock = session.pipeline.clock
        self.thread = Conversation()
        self.lock = asyncio.Lock()
        self.rings = 0
        self.task: asyncio.Task[None] | None = None
        self.stream: asyncio.Future[Any] | None = None
        self.halted: AgentRun | None = None
        self.trouble: Exception | None = None
        self.lease = Lease(session)
        self.wake_at: float | None = None
        self.timer: Any = None
        self.warned = False
        self._reading = asyncio.Lock()
        self._read = False
        self._waiters: list[asyncio.Future[None]] = []
        self._books: dict[str, AgentRegistry] = {}
        self._kept: set[str] = set()
        self._offers: dict[Agent, tuple[toolset.Toolset, Any, toolset.Toolset]] = {}
        self._bases: dict[Agent, tuple[Any, Policy, toolset.Toolset]] = {}
        self._policies: dict[Agent, tuple[Any, Policy]] = {}

    # The log

    async def catch_up(self, *, whole: bool = False) -> None:
        """Takes in what the log says by now; with `whole` all of it.

        Of calls that this process runs it is told directly; their events are read only where others may run them: by an
        engine, or while another process may go on with the run.
        """
        async with self._reading:
            if not self._read:
                await self.store.flush()
            whole = whole or not self._read or not self.lease.held or self.session.pipeline.engine is not None
            call = None if whole else ""
            while page := await self.store.read(self.session.id, self.thread.seen, limit=PAGE, call=call):
                for event in page:
                    self.thread.advance(event)
            self._read = True

    async def write(
        self,
        *events: EventData,
        run: AgentRun | None = None,
        read: bool = False,
        maker: LiveCall | None = None,
    ) -> None:
        """Appends events in one piece, and takes them in; with `read` the cursor of the model moves with them.

        Those of a `run` in the foreground are written only as long as this process holds its lease; those that the body
        of a call causes, its `maker`, only as long as it holds that call; the end of a run that lost its call, once.

        Raises:
            LeaseLost: another process goes on with the run.
            Stopped: another process has the call.
        """
        write = await self._write(events, read)
        if maker is not None:
            await _commit(write, maker)
        elif run is not None and run.parent is None:
            await self.lease.commit(write)
        elif run is not None:
            await self.lease.end(write, run.id)
        else:
            await self.store.commit(write)
        await self._written(events)

    async def begin(self, number: int, key: str | None, events: Iterable[EventData]) -> bool:
        """Starts the run of that number in the foreground; False where another process has, or the key was used."""
        events = tuple(events)
        write = await self._write(events, read=True)
        if not await self.lease.begin(write, number, key):
            return False
        self._books.update({one.run: self.agents.book for one in events if isinstance(one, RunStarted)})
        await self._written(events)
        return True

    async def queue(self, mode: str, content: MessageContent, key: str | None, agent: str | None) -> int | None:
        """Queues a message, which this process has to see to; its number, or None where its key was used."""
        id = self.session.pipeline.new_id() if key is None else message_id(key)
        row = message_lease(self.session, id, key)
        events = [MessageQueued(mode, content.text, key, agent, id=id, parts=content.parts)]
        write = await self._write(events, read=False)
        write.row = row
        if await self.store.commit(write) is not None:
            return None
        await self._written(events)
        return row.accepted_seq

    async def _write(self, events: Iterable[EventData], read: bool) -> Write:
        messages = [one for one in events if isinstance(one, MessageAdded)]
        shown = {call for one in messages for call in one.results or ()}
        cursor = (MODEL, await self._read_up_to(shown)) if read else None
        now = self.clock.now()
        write = Write(self.session.id, [draft(now, None, one) for one in events])
        write.cursor = cursor
        over = [self.thread.runs.get(one.run) for one in events if isinstance(one, RunFinished)]
        # What a model gave to calls that never began is not needed any more.
        write.forgets = tuple(
            note.id for run in over if run is not None for note in run.notes if note.secret and note.state == "new"
        )
        return write

    async def _written(self, events: Iterable[EventData]) -> None:
        taken = {one.queued for one in events if isinstance(one, MessageAdded) and one.queued is not None}
        for one in self.thread.queue if taken else ():
            if one.seq in taken and one.id is not None:
                self.settle(message_lease(self.session, one.id, one.key))
        await self.catch_up()
        self.ring()

    def settle(self, message: Row) -> None:
        """A run has taken a message: nobody has to see to it any more."""
        ended = Write(self.session.id, [], message.but(state="ended"), ("held", message.attempt))
        self.store.put(ended)

    async def _read_up_to(self, shown: set[str]) -> int:
        """How far its model has read when these results are shown to it: up to the first that it has not seen."""
        read = await self.store.cursor(self.session.id, MODEL)
        for row in await self.store.calls(self.session.id, done_after=read, limit=ALL):
            note = self.thread.calls.get(row.id)
            told = note is not None and note.state == "done" and row.id not in self.thread.late
            if row.background and row.id not in shown and not told:
                break
            read = row.done_seq or read
        return read

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

    def ring(self) -> None:
        """Something happened."""
        self.rings += 1
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def rung(self, since: int, *, outside: bool = False) -> None:
        """Returns when something has happened since; with `outside` also when another process wrote something."""
        if self.rings != since:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if not outside:
            await waiter
            return
        other = asyncio.ensure_future(self.store.wait(self.session.id, self.thread.seen))
        try:
            await asyncio.wait({waiter, other}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            other.cancel()

    def told(self, live: LiveCall) -> None:
        """A call of this process has ended, or waits for somebody."""
        note = self.thread.calls.get(live.id)
        if note is None and live.background:
            provider = (live.marks or {}).get("provider_id")
            note = self.thread.calls[live.id] = CallNote(live.id, live.tool_id, "", provider, live.run, 0)
        if note is None:
            return
        note.tool = live.tool_id or note.tool
        if live.background:
            self.thread.to_background(note)
        if live.result is not None:
            self.thread.ended(
                note, live.result, live.wake or (live.tool.wake if live.tool is not None else "next_turn")
            )
        elif live.row is not None and live.row.state == "waiting":
            note.state, note.question = "waiting", live.row.question

    # Agents

    def book(self, run: AgentRun) -> AgentRegistry:
        """The agents as they were when a run started."""
        book = self._books.get(run.id)
        if book is None:
            above = self.thread.run_of(run.parent)
            book = self._books[run.id] = self.agents.book if above is None else self.book(above)
        return book

    def forget(self, run: AgentRun) -> None:
        """A run is over: what was remembered for it goes."""
        self._books.pop(run.id, None)

    def agent(self, name: str, run: AgentRun) -> Agent:
        """The definition that a run knows an agent by.

        Raises:
            Refused: `not_found`, there is none.
        """
        found = self.book(run).get(name)
        if found is None:
            raise Refused("not_found", f"There is no agent '{name}'", f"known: {', '.join(self.book(run)) or 'none'}")
        return found

    async def keep(self, agent: Agent) -> str:
        """Keeps a definition beside the log, so that whoever goes on with a run knows it; its digest."""
        digest, text = agent.told()
        if digest not in self._kept:
            await self.store.keep(self.session.id, f"agent:{digest}", text)
            self._kept.add(digest)
        return digest

    async def restore(self) -> None:
        """Takes in the log; runs that were begun with other definitions than those of now get theirs back."""
        await self.catch_up()
        if self.thread.late:  # whoever spoke with a model before may have shown it some of them
            read = await self.store.cursor(self.session.id, MODEL)
            unread = {row.id for row in await self.store.calls(self.session.id, done_after=read, limit=ALL)}
            self.thread.late = {call: one for call, one in self.thread.late.items() if call in unread}
        for run in self.thread.going.values():
            now = self.agents.book.get(run.first)
            if run.definition is None or (now is not None and now.digest() == run.definition):
                continue
            kept = await self.store.kept(self.session.id, f"agent:{run.definition}")
            if kept is not None:
                old = Agent(**{"model": None if now is None else now.model, **decode(kept)})
                self._books[run.id] = self.agents.book.replaced(old)

    def desk(self, run: AgentRun, name: str) -> RunScope:
        """An agent at work in a run."""
        return RunScope(self, run, self.agent(name, run))

    def model(self, agent: Agent) -> Model:
        """The model that an agent speaks with."""
        return self.agents.model_of(agent)

    def policy(self, agent: Agent) -> Policy:
        """What judges the calls of an agent."""
        outer, known = self.session.policy, self._policies.get(agent)
        if known is None or known[0] is not outer:
            known = self._policies[agent] = (outer, narrowed(outer, agent, self.session.folders))
        return known[1]

    # Tools

    def offer(self, run: AgentRun, agent: Agent) -> toolset.Toolset:
        """What an agent has in a run, now."""
        base, thread = self._base(agent), self.thread
        key = (id(self.book(run)), run.id if thread.noted else None, thread.noted)
        known = self._offers.get(agent)
        if known is None or known[0] is not base or known[1] != key:
            known = self._offers[agent] = (base, key, toolset.with_builtins(self, run, agent, base))
        return known[2]

    def _base(self, agent: Agent) -> toolset.Toolset:
        view, policy = self.session._view, self.policy(agent)
        known = self._bases.get(agent)
        if known is None or known[0] is not view or known[1] is not policy:
            known = self._bases[agent] = (view, policy, toolset.of_session(self, agent))
        return known[2]

    def calls_of(self, run: AgentRun) -> Iterator[CallNote]:
        """The calls that a run may see: its own, those of its descendants, and in the foreground those of before."""
        for note in list(self.thread.calls.values()):
            owner = self.thread.runs.get(note.run or "")
            if owner is not None and (run.parent is None or run in self.thread.chain(owner)):
                yield note

    # Requests

    def request(self, run: AgentRun) -> CompletionRequest:
        """What the model of a run is asked now."""
        agent = self.agent(run.agent, run)
        offer = self.offer(run, agent)
        view = run.line.view
        named = toolset.named_only(offer, agent, _loaded(view))
        system = filled(agent.instructions, lambda: self._values(agent))
        if named:
            system = f"{system}\n\n{toolset.listing(offer, named)}"
        hidden = frozenset(named)
        tools = () if run.last_words else offer.views(agent.topics, lambda name: name not in hidden)
        return CompletionRequest(
            agent=agent.name,
            model=agent.model if isinstance(agent.model, str) else None,
            messages=(Message("system", system), *rendered(view)),
            tools=tools,
            settings=agent.model_settings,
            session=self.session.id,
            run=run.id,
            turn=run.turn,
            asked=self.thread.asked[agent.name],
            process=self.session.pipeline.worker,
        )

    async def fitted(self, request: CompletionRequest, agent: Agent) -> CompletionRequest:
        """A request with the files that the model of an agent takes."""
        return await attachments.fitted(request, self.model(agent), self._kept_file)

    async def _kept_file(self, id: str) -> bytes | None:
        return await self.store.kept(self.session.id, id)

    def _values(self, agent: Agent) -> dict[str, str]:
        from datetime import UTC, datetime

        now = datetime.fromtimestamp(self.clock.now(), UTC).isoformat(timespec="seconds")
        known = {"session": self.session.id, "owner": self.session.owner, "agent": agent.name, "now": now}
        return {**known, **agent.vars}


async def _commit(write: Write, maker: LiveCall) -> None:
    await maker.meet()
    maker.hold(write)
    conflict = await maker.pipeline.store.commit(write)
    if conflict is not None:
        maker.fence(conflict.row)
        maker.heed()


def _loaded(view: Iterable[Any]) -> set[str]:
    """The tools whose schemas the model asked for."""
    found: set[str] = set()
    for note in (note for item in view for note in item.calls):
        if note.calls("tool_search") and note.result is not None and note.result.ok:
            found.update(tool["name"] for tool in note.result.data.get("tools", ()))
    return found
