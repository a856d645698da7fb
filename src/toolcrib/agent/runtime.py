"""`Agents`: what a crib is given so that agents run over its sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import CallRequest
from toolcrib.agent import builtins, handovers
from toolcrib.agent.attachments import MessageContent
from toolcrib.agent.background_calls import late
from toolcrib.agent.conversation import AgentRun, QueuedMessage
from toolcrib.agent.definition import Agent
from toolcrib.agent.driver import PAGE, Driver
from toolcrib.agent.lease import LeaseLost
from toolcrib.agent.loop import Loop
from toolcrib.agent.models import CompletionRequest, Model
from toolcrib.agent.providers import Providers
from toolcrib.agent.recovery import take_over
from toolcrib.agent.registry import AgentLibrary, AgentRegistry
from toolcrib.agent.review import review_library
from toolcrib.agent.run_outcome import RunOutcome, outcome_of
from toolcrib.agent.run_scope import RunScope
from toolcrib.errors import Refused, StoreError
from toolcrib.events import EventData, MessageAdded, RunStarted, TurnStarted
from toolcrib.findings import Finding
from toolcrib.session import Session
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.sandbox.scripts import ScriptRunner

MODES = ("followup", "steer", "collect", "interrupt")
TRIES = 100
"""So often a message is tried to be brought in while other processes write to its session."""

WAKE_S = 0.1
"""Results that come so close together start one run."""

UNASKED = 10
"""So many runs in a row start without a message of a user."""

log = logging.getLogger("toolcrib.agent")


class Agents:
    """Agents of a program and of definition files, and the models that they speak with.

    `agents` are `Agent`s, and paths of files or folders. `model` is that of all agents for which `models` finds none
    by name; without either, a name such as `openai:gpt-5` is that of a provider's model. `default` answers where nobody
    was asked for; the first agent, unless said.

    Raises:
        BadAgent: definitions do not hold.
    """

    def __init__(
        self,
        agents: Iterable[Agent | str | PathLike[str]] | str | PathLike[str],
        *,
        model: Model | None = None,
        models: Mapping[str, Model] | Callable[[str], Model] | None = None,
        default: str | None = None,
    ) -> None:
        self._shelf = AgentLibrary([agents] if isinstance(agents, str | PathLike) else agents)
        self._model = model
        self._models = models
        self._crib: Crib | None = None
        self._providers = models if isinstance(models, Providers) else Providers()
        self._default = default
        self._tasks: set[asyncio.Task[Any]] = set()
        self.patient: set[LiveCall] = set()
        handovers.choose(self.book, self.default)

    @property
    def book(self) -> AgentRegistry:
        """The agents of now."""
        return self._shelf.book

    @property
    def problems(self) -> tuple[str, ...]:
        """Why changed files were not taken."""
        return self._shelf.problems

    def findings(self, tools: Iterable[Tool]) -> list[Finding]:
        """What is wrong with the agents, held against these tools."""
        return review_library(self._shelf, tuple(tools))

    @property
    def default(self) -> str:
        """The agent that answers where nobody was asked for."""
        return self._default or next(iter(self.book), "")

    def model_of(self, agent: Agent) -> Model:
        """The model that an agent speaks with.

        Raises:
            Refused: `unavailable`, it has none.
            ModelError: `invalid_arguments`, its name says no provider.
        """
        if agent.model is not None and not isinstance(agent.model, str):
            return agent.model  # type: ignore[no-any-return]
        found = (None if agent.model is None else self.named(agent.model)) or self._model
        if found is not None:
            return found
        if agent.model is None:
            raise Refused("unavailable", f"Agent '{agent.name}' has no model (none is named)")
        return self._providers(agent.model)

    def named(self, name: str) -> Model | None:
        """The model that `models` finds by that name."""
        if self._models is None:
            return None
        return self._models.get(name) if isinstance(self._models, Mapping) else self._models(name)

    # What the crib tells

    def room(self, session: Session) -> Driver:
        """What the runs of a session share."""
        if session.room is None:
            session.room = Driver(self, session)
        room: Driver = session.room
        return room

    def built_in(self) -> Mapping[str, Tool]:
        """The tools that are built into agents, by id."""
        return {tool.id: tool for tool in builtins.all_tools()}

    def start(self, crib: Crib) -> None:
        """From now on takes up what dead processes have left, until it is stopped."""
        self._crib = crib
        take_over(self, crib)

    def take_over(self, other: Any) -> None:
        """Goes on with the definitions, models and default of other agents; runs keep what they began with."""
        if not isinstance(other, Agents):
            raise TypeError(f"agents are taken over from Agents, not from {type(other).__name__}")
        self._shelf, self._default = other._shelf, other._default
        self._model, self._models, self._providers = other._model, other._models, other._providers

    def retry(self, session: Session) -> None:
        """Goes on with a run of this process that could not go on while the store was away."""
        room = self.room(session)
        if room.task is None and isinstance(room.trouble, StoreError):
            self._drive(room)

    async def load(self, session: Session) -> None:
        """Takes in what the log of a session says."""
        await self.room(session).restore()

    def desk(self, call: CallRequest) -> RunScope | None:
        """What a run gives to its calls; one whose agent is gone has no tools."""
        room = self.room(call.session)
        run = room.thread.runs.get(call.run or "")
        if run is None:
            return None
        name = call.agent or run.agent
        return RunScope(room, run, room.book(run).get(name) or Agent(name=name, tools=()))

    def news(self, session: Session, call: LiveCall | None = None) -> None:
        """Something happened that a run may have waited for."""
        room = self.room(session)
        if call is not None:
            room.told(call)
        room.ring()
        self._drive(room)

    def halt(self, session: Session) -> Awaitable[None]:
        """Stops the model of the run that is being interrupted."""
        room = self.room(session)
        room.halted = room.thread.foreground
        if room.stream is not None:
            room.stream.cancel()
        return self._aside(self._halted(room))

    async def _halted(self, room: Driver) -> None:
        await room.catch_up()
        run = room.thread.foreground
        if run is not None and run.interrupted:
            room.ring()
            self._drive(room)
            while run.finished is None and room.task is not None:
                await room.rung(room.rings)

    def leave(self, session: Session) -> None:
        """A session is being closed."""
        room = self.room(session)
        if room.timer is not None:
            room.timer.cancel()
        if room.task is not None:
            room.task.cancel()
        else:
            room.lease.release()

    async def stop(self) -> None:
        """Lets go of all runs; they go on when their sessions are opened again."""
        for task in self._tasks:
            task.cancel()
        for call in list(self.patient):
            leave(call)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._providers.aclose()

    async def close(self) -> None:
        """Ends the interpreters of scripts; nothing runs any more."""
        if "scripts" in vars(self):
            await self.scripts.close()

    @cached_property
    def scripts(self) -> ScriptRunner:
        """Where scripts of models run."""
        from toolcrib.sandbox.scripts import ScriptRunner

        return ScriptRunner(shared=self._crib is not None and self._crib.pipeline.scheduler.shared)

    def be_patient(self, call: LiveCall) -> None:
        """The agent of a call waits for people."""
        if call.pipeline.stopping:
            leave(call)
        else:
            self.patient.add(call)

    def _aside(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Going on

    def _drive(self, room: Driver) -> None:
        """Goes on with what there is to do in a session, unless somebody does."""
        if room.task is None and not room.session._left_by_owner and not room.session.pipeline.stopping:
            room.trouble = None
            room.task = self._aside(self._driven(room))

    async def _driven(self, room: Driver) -> None:
        try:
            while True:
                rings = room.rings
                await room.catch_up()
                if not await self._next(room) and room.rings == rings:
                    return
        except (StoreError, Refused) as error:
            log.warning("session %s cannot go on: %s", room.session.id, error)
            room.trouble = error
        except Exception as error:  # a fault of our own is told to whoever waits
            log.exception("session %s cannot go on", room.session.id)
            room.trouble = error
        finally:
            room.task = None
            if room.session._left_by_owner:
                room.lease.release()
            room.ring()

    async def _next(self, room: Driver) -> bool:
        """Does what comes next; False where there is nothing to do but to wait."""
        await self._tidy(room)
        run = room.thread.foreground
        if run is None:
            async with room.lock:
                return await self._take_up(room)
        loop = Loop(room, run)
        if not await loop.waits() and await room.lease.take(run):
            await room.catch_up(whole=True)  # another process may have gone on with it until now
            await self._returned(room, run)
            await self._go(room, run, loop)
        return run.finished is not None

    async def _returned(self, room: Driver, run: AgentRun) -> None:
        """Gives a run back that the log has handed to nobody, or to somebody who is gone."""
        book = room.book(run)
        if run.agent not in book:
            to = run.first if run.first in book else self.default
            await room.write(handovers.switch(run.agent, to, "returned", run.id), run=run)

    async def _go(self, room: Driver, run: AgentRun, loop: Loop) -> None:
        """Goes on with a run that this process holds until it is over, waits, or is another's."""
        try:
            await loop.go()
        except LeaseLost:
            log.info("session %s: another process goes on with run %s", room.session.id, run.id)
            await room.catch_up()
        if run.finished is None:
            room.lease.release()

    async def _tidy(self, room: Driver) -> None:
        """Runs whose call has ended without them end too."""
        for run in list(room.thread.going.values()):
            if run.parent is not None and await self._is_done(room, run.parent):
                try:
                    await Loop(room, run).cancelled()
                except LeaseLost:
                    await room.catch_up()  # another process has ended it

    async def _is_done(self, room: Driver, call: str) -> bool:
        """Whether the call of a run is over. Nothing is noted of one that a client made and waits for."""
        note = room.thread.calls.get(call)
        if note is not None:
            return note.state == "done"
        if call in room.session.live:
            return False
        row = await room.session.crib.store.call(call)
        return row is not None and row.state == "done"

    async def _take_up(self, room: Driver) -> bool:
        """Starts a run for what was said or has ended meanwhile."""
        queue = sorted((one for one in room.thread.queue if one.run is None), key=lambda one: one.mode != "interrupt")
        if queue:
            together = [one for one in queue if one.mode in ("steer", "collect") and one.agent is None]
            taken = together if queue[0] in together else queue[:1]
            return await self._begin(room, "user", taken, queue[0].agent) is not None
        if not any(wake == "wake" for _, wake in room.thread.late.values()):
            return False
        if room.thread.unasked >= UNASKED:
            if not room.warned:
                room.warned = True
                await room.session.notice(f"{UNASKED} runs in a row started by themselves; results wait for a message")
            return False
        now = room.clock.now()
        if room.wake_at is None:
            room.wake_at = now + WAKE_S
            room.timer = room.clock.call_at(room.wake_at, lambda: self._woken(room))
        if now < room.wake_at:
            return False
        room.wake_at = None
        return await self._begin(room, "wake", [], None) is not None

    def _woken(self, room: Driver) -> None:
        room.timer = None
        room.ring()
        self._drive(room)

    async def _begin(
        self,
        room: Driver,
        origin: str,
        taken: list[QueuedMessage],
        agent: str | None,
        key: str | None = None,
        content: MessageContent | None = None,
    ) -> str | None:
        """Starts a run in the foreground; None where another process has started one, or the key was used.

        Its number is that of the moment when nothing went on, whatever is read until it is written.
        """
        number, active = room.thread.foreground_runs, room.thread.line.active
        if room.thread.foreground is not None:
            return None
        known = active if active in self.book else self.default  # a log may name one that is not there
        wanted = known if taken and agent not in self.book else agent  # who was asked for may be gone meanwhile
        definition = handovers.choose(self.book, wanted or known)
        events: list[EventData] = []
        if active and definition.name != active:
            events.append(handovers.switch(active, definition.name, "user"))
        id = f"r{room.session.pipeline.new_id()[1:]}"
        started = RunStarted(id, definition.name, origin, definition=await room.keep(definition))
        events += [started, *await late(room, None, id)]
        events += [one.taken_by(id) for one in taken]
        if content is not None and content.text:
            events.append(MessageAdded(role="user", content=content.text, run=id, key=key, parts=content.parts))
        if not await room.begin(number, key, events):
            return None
        room.warned = False
        return id

    # What users do

    async def send(
        self,
        session: Session,
        message: str | Sequence[str | Mapping[str, Any]],
        *,
        agent: str | None = None,
        mode: str | None = None,
        key: str | None = None,
    ) -> RunOutcome:
        """A message, a text or texts and blocks; returns when the run that took it is over, or waits for somebody.

        Raises:
            Refused: `not_found`, there is no such agent; `invalid_arguments`; `too_large`; `unavailable`, the session
                is closing.
        """
        if mode not in (None, *MODES):
            raise Refused("invalid_arguments", f"'{mode}' is no mode of a message", f"use {', '.join(MODES)}")
        if session.closing:
            raise Refused("unavailable", "Session is closing")
        if session.shut:
            raise Refused("unavailable", "Session is closed", "open it again first")
        if agent is not None:
            handovers.choose(self.book, agent)
        room, content = self.room(session), MessageContent.of(message, session.pipeline.limits.message_bytes)
        for id, data in content.files.items():  # before the message, which names them
            await room.store.keep(session.id, id, data)
        async with room.lock:
            where, news = await self._enter(room, content, agent, mode, key)
        if news and mode == "interrupt" and room.thread.foreground is not None and isinstance(where, int):
            await session.interrupt()
        self._drive(room)
        return await self._outcome(room, where)

    async def _enter(
        self, room: Driver, content: MessageContent, agent: str | None, mode: str | None, key: str | None
    ) -> tuple[str | int, bool]:
        """Starts a run with a message, or queues it; the run, or the number of the queued message, and if it is new.

        Where another process was first, the log says by now what it did; so each try finds more than the one before.
        """
        for _ in range(TRIES):
            await room.catch_up()
            thread, run = room.thread, room.thread.foreground
            known = None if key is None else thread.keys.get(key)
            if known is not None:
                return known, False
            if run is None and not any(one.run is None for one in thread.queue):
                place: str | int | None = await self._begin(room, "user", [], agent, key, content)
            else:
                queued = mode or ("collect" if run is not None and run.status == "waiting" else "followup")
                place = await room.queue(queued, content, key, agent)
            if place is not None:
                return place, True
        raise Refused("unavailable", "Others write to this session all the time", "send it again with the same key")

    async def _outcome(self, room: Driver, where: str | int) -> RunOutcome:
        while True:
            rings = room.rings
            if room.task is None:  # else the thread is as new as whoever goes on with it needs it
                await room.catch_up()
            id = where if isinstance(where, str) else room.thread.taken.get(where)
            run = room.thread.foreground if id is None else room.thread.runs[id]
            if run is not None and run.status == "waiting" and (room.task is None or room.rings == rings):
                return await self._waiting(room, run)
            if id is not None and run is not None and run.finished is not None:
                return outcome_of(run)
            if room.trouble is not None:
                raise room.trouble
            if id is None and run is None:  # whoever had to take it up has gone
                self._drive(room)
            if room.task is None and (room.session._left_by_owner or room.session.pipeline.stopping):
                raise Refused(
                    "unavailable", "The session is closed before the answer", "open it again; it goes on then"
                )
            await room.rung(rings, outside=room.task is None)

    async def _waiting(self, room: Driver, run: AgentRun) -> RunOutcome:
        asked = frozenset(room.thread.questions(run) or ())
        questions = tuple(one for one in await room.session.questions() if one.id in asked)
        return RunOutcome(run.id, "waiting", turns=run.turn, usage=run.usage.data(), questions=questions)

    async def settled(self, session: Session) -> RunOutcome | None:
        """Returns when nothing goes on in the foreground; what became of its last run."""
        room = self.room(session)
        await room.catch_up()
        while room.task is not None:
            await room.rung(room.rings)
        last = next((run for run in reversed(room.thread.runs.values()) if run.parent is None), None)
        if last is None or last.finished is not None:
            return None if last is None else outcome_of(last)
        return await self._waiting(room, last)

    async def active(self, session: Session) -> str:
        """The agent that the next message goes to."""
        room = self.room(session)
        await room.catch_up()
        return room.thread.line.active or self.default

    async def request(self, session: Session, run: str, turn: int) -> CompletionRequest:
        """What the model was asked in a turn, as the log tells it.

        Raises:
            Refused: `not_found`, there was no such turn.
        """
        room = Driver(self, session)
        while page := await room.store.read(session.id, room.thread.seen, limit=PAGE):
            for event in page:
                room.thread.advance(event)
                match event.data:
                    case TurnStarted() as began if (began.run, began.turn) == (run, turn):
                        return room.request(room.thread.runs[run])
        raise Refused("not_found", f"No such turn: {turn} of run {run}")


def leave(call: LiveCall) -> None:
    """Lets go of a call whose agent waits for people, who will not come now; it is taken up when the crib starts."""
    call.session.live.pop(call.id, None)
    if call.task is not None:
        call.task.cancel()
    call.end()
