"""`Driver`: goes on with the runs of one session, and gives each run its agent, its tools and its requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib._call.live_call import LiveCall
from toolcrib.agent import attachments, handovers, recovery, templates, toolset
from toolcrib.agent.attachments import MessageContent
from toolcrib.agent.background_calls import late_messages
from toolcrib.agent.conversation import AgentRun, QueuedMessage, RunOutcome
from toolcrib.agent.definition import NO_OVERRIDES, Agent
from toolcrib.agent.models import CompletionRequest, MediaIntake, Message, Model
from toolcrib.agent.prompt_record import KeptPrompt
from toolcrib.agent.registry import AgentRegistry
from toolcrib.agent.run_log import ALL, MODEL, LeaseLost, RunLog
from toolcrib.agent.run_scope import RunScope, narrowed
from toolcrib.agent.toolset import Toolset
from toolcrib.agent.transcript import rendered
from toolcrib.errors import Refused, StoreError
from toolcrib.events import EventData, MessageAdded, RunStarted
from toolcrib.policy import Policy
from toolcrib.store.codec import decode

if TYPE_CHECKING:
    from toolcrib.agent.runtime import Agents
    from toolcrib.session import Session

MODES = ("followup", "steer", "collect", "interrupt")
TRIES = 100
"""So often a message is tried to be brought in while other processes write to its session."""

WAKE_S = 0.1
"""Results that come so close together start one run."""

UNASKED = 10
"""So many runs in a row start without a message of a user."""

log = logging.getLogger("toolcrib.agent")


class Driver:
    """Drives the runs of one session. It holds nothing that the log does not say."""

    def __init__(self, agents: Agents, session: Session) -> None:
        self.agents = agents
        self.session = session
        self.log = RunLog(session)
        self.conversation = self.log.conversation
        self.task: asyncio.Task[None] | None = None
        self._entering = asyncio.Lock()
        self._reply: asyncio.Future[Any] | None = None
        self._halted: AgentRun | None = None
        self._error: Exception | None = None
        self._wake_at: float | None = None
        self._wake_timer: Any = None
        self._warned = False
        self._registries: dict[str, AgentRegistry] = {}
        self._kept: dict[Agent, str] = {}
        self._toolsets: dict[Agent, tuple[tuple[Any, ...], Toolset, Toolset]] = {}
        """What they were made for; the part that does not depend on a run, and all of it."""
        self._policies: dict[Agent, tuple[Any, Policy]] = {}
        self.prompts: dict[str, KeptPrompt] = {}
        """What the model of each agent was last asked with."""

    # Messages

    async def send(
        self, message: str | Sequence[str | Mapping[str, Any]], agent: str | None, mode: str | None, key: str | None
    ) -> RunOutcome:
        """Take a message, and return when the run that took it is over or waits for somebody; see `Session.send`."""
        if mode is not None or agent is not None or self.session.closing or self.session.shut:
            self._check(agent, mode)
        content = MessageContent(message) if isinstance(message, str) else await self._content(message)
        async with self._entering:
            place, new = await self._enter(content, agent, mode, key)
        if new and mode == "interrupt" and self.conversation.foreground is not None and isinstance(place, int):
            await self.session.interrupt()
        self.drive()
        return await self._outcome(place)

    def _check(self, agent: str | None, mode: str | None) -> None:
        """Refuses a message that nobody can take."""
        if mode not in (None, *MODES):
            raise Refused("invalid_arguments", f"'{mode}' is no mode of a message", f"use {', '.join(MODES)}")
        if self.session.closing:
            raise Refused("unavailable", "Session is closing")
        if self.session.shut:
            raise Refused("unavailable", "Session is closed", "open it again first")
        if agent is not None:
            self.agents.registry.choose(agent)

    async def _content(self, message: Sequence[str | Mapping[str, Any]]) -> MessageContent:
        """A message of texts and blocks, whose files are kept before it is: it names them."""
        content = MessageContent.of(message, self.session.pipeline.limits.message_bytes)
        for id, data in content.files.items():
            await self.log.store.keep(self.session.id, id, data)
        return content

    async def _enter(
        self, content: MessageContent, agent: str | None, mode: str | None, key: str | None
    ) -> tuple[str | int, bool]:
        """Starts a run with a message, or queues it; the run, or the number of the queued message, and if it is new.

        Where another process was first, the log says by now what it did; so each try finds more than the one before.
        """
        for _ in range(TRIES):
            await self.log.catch_up()
            conversation, run = self.conversation, self.conversation.foreground
            known = None if key is None else conversation.keys.get(key)
            if known is not None:
                return known, False
            if run is None and not any(one.run is None for one in conversation.queue):
                place: str | int | None = await self._begin(agent, (), key, content)
            else:
                queued = mode or ("collect" if run is not None and run.status == "waiting" else "followup")
                place = await self.log.queue(queued, content, key, agent, self.agents.overrides)
            if place is not None:
                return place, True
        raise Refused("unavailable", "Others write to this session all the time", "send it again with the same key")

    async def _outcome(self, place: str | int) -> RunOutcome:
        """Return when the run that took a message, by its id or by the number of the queued message, is over."""
        while True:
            changes = self.log.changes
            if self.task is None:  # else the conversation is as new as whoever goes on with it needs it
                await self.log.catch_up()
            id = place if isinstance(place, str) else self.conversation.taken.get(place)
            run = self.conversation.foreground if id is None else self.conversation.runs[id]
            if id is not None and run is not None and run.finished is not None:
                return run.outcome()
            waits = run is not None and run.waiting_since is not None
            if run is not None and waits and (self.task is None or self.log.changes == changes):
                return await self._waiting(run)
            if self.task is None or id is None:
                self._check_under_way(nobody=id is None and run is None)
            await self.log.changed(changes, outside=self.task is None)

    def _check_under_way(self, nobody: bool) -> None:
        """Raises what keeps this process from going on; with `nobody`, whoever had to take up a message has gone."""
        if self._error is not None:
            raise self._error
        if nobody:
            self.drive()
        if self.task is None and (self.session._left_by_owner or self.session.pipeline.stopping):
            raise Refused("unavailable", "The session is closed before the answer", "open it again; it goes on then")

    async def _waiting(self, run: AgentRun) -> RunOutcome:
        ids = frozenset(self.conversation.questions(run) or ())
        questions = tuple(one for one in await self.session.questions() if one.id in ids)
        return RunOutcome(run.id, "waiting", turns=run.turn, usage=run.usage.data(), questions=questions)

    async def settled(self) -> RunOutcome | None:
        """Return what became of the last run when nothing goes on in the foreground; None where there was none."""
        await self.log.catch_up()
        while self.task is not None:
            await self.log.changed(self.log.changes)
        last = next((run for run in reversed(self.conversation.runs.values()) if run.parent is None), None)
        if last is None or last.finished is not None:
            return None if last is None else last.outcome()
        return await self._waiting(last)

    # What wakes and stops it

    def notify(self, call: LiveCall | None = None) -> None:
        """Something happened that a run may have waited for, such as the end of a call of this process."""
        if call is not None:
            self.log.take_call(call)
        self.log.notify()
        self.drive()

    def drive(self) -> None:
        """Goes on with what there is to do, unless that is under way."""
        session = self.session
        if self.task is None and not (session.closing or session.shut or session.pipeline.stopping):
            self._error = None
            self.task = self.agents.spawn(self._drive())

    def retry(self) -> None:
        """Goes on with a run of this process that could not go on while the store was away."""
        if self.task is None and isinstance(self._error, StoreError):
            self.drive()

    def halt(self) -> asyncio.Task[None]:
        """Stops the model of the foreground run, which is being interrupted; done when that run is over."""
        self._halted = self.conversation.foreground
        if self._reply is not None:
            self._reply.cancel()
        return self.agents.spawn(self._halt())

    async def _halt(self) -> None:
        await self.log.catch_up()
        run = self.conversation.foreground
        if run is not None and run.interrupted:
            self.notify()
            while run.finished is None and self.task is not None:
                await self.log.changed(self.log.changes)

    def halted(self, run: AgentRun) -> bool:
        """True if the model of that run was stopped."""
        return self._halted is run

    def leave(self) -> None:
        """Lets go of the run, since the session is being closed."""
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        if self.task is not None:
            self.task.cancel()
        else:
            self.log.lease.release()

    # Going on

    async def _drive(self) -> None:
        try:
            while True:
                changes = self.log.changes
                await self.log.catch_up()
                if not await self._next() and self.log.changes == changes:
                    return
        except Exception as error:  # noqa: BLE001 - a fault of our own is told to whoever waits, too
            self._fail(error)
        finally:
            self.task = None
            if self.session._left_by_owner:
                self.log.lease.release()
            self.log.notify()

    def _fail(self, error: Exception) -> None:
        """Nobody goes on for now, and whoever waits is told why."""
        if isinstance(error, StoreError | Refused):
            log.warning("session %s cannot go on: %s", self.session.id, error)
        else:
            log.error("session %s cannot go on", self.session.id, exc_info=error)
        self._error = error

    async def _next(self) -> bool:
        """Does what comes next; False where there is nothing to do but to wait."""
        run = self.conversation.foreground
        if len(self.conversation.going) > (run is not None):
            await self._end_abandoned()
        if run is None:
            if not self.conversation.queue and not self.conversation.late:
                return False
            async with self._entering:
                return await self._take_up()
        loop = self.agents.loop(self, run)
        if run.waiting_since is not None and await loop.waits():
            return False
        if not self.log.lease.holds(run) and not await self._take(run):
            return False
        try:
            if run.agent not in self.registry(run):
                await self._hand_to_someone(run)
            await loop.go()
        except LeaseLost:
            log.info("session %s: another process goes on with run %s", self.session.id, run.id)
            await self.log.catch_up()
        if run.finished is None:
            self.log.lease.release()
        return run.finished is not None

    async def _take(self, run: AgentRun) -> bool:
        """Takes the lease of a run, with what another process has done of it until now; False where that lives."""
        if not await self.log.lease.take(run):
            return False
        await self.log.catch_up(whole=True)
        return True

    async def _end_abandoned(self) -> None:
        """Ends child runs whose calls have ended without them."""
        for child in [run for run in self.conversation.going.values() if run.parent is not None]:
            await recovery.end_abandoned(self, child)

    async def _hand_to_someone(self, run: AgentRun) -> None:
        """Hands a run on that the log has handed to nobody, or to an agent who is gone."""
        registry = self.registry(run)
        to = run.first if run.first in registry else self.agents.default
        await self.log.write(handovers.switch(run.agent, to, "returned", run.id), run=run)

    async def foreground_reply(self, run: AgentRun, work: Any) -> Any:
        """Has the model of the foreground run reply in a task of its own, so that an interruption stops it alone."""
        if self._halted is run:
            work.close()
            raise asyncio.CancelledError
        self._reply = asyncio.ensure_future(work)
        try:
            return await self._reply
        finally:
            if not self._reply.done():
                self._reply.cancel()
            self._reply = None

    async def _take_up(self) -> bool:
        """Starts a run for messages that wait, or for results that came in meanwhile."""
        conversation = self.conversation
        queue = sorted((one for one in conversation.queue if one.run is None), key=lambda one: one.mode != "interrupt")
        if queue:
            together = [one for one in queue if one.mode in ("steer", "collect") and not one.alone]
            taken = together if queue[0] in together else queue[:1]
            return await self._begin(queue[0].agent, taken, None, None) is not None
        if not any(wake == "wake" for _, wake in conversation.late.values()):
            return False
        if conversation.unasked >= UNASKED:
            if not self._warned:
                self._warned = True
                await self.session.notice(f"{UNASKED} runs in a row started by themselves; results wait for a message")
            return False
        now = self.log.clock.now()
        if self._wake_at is None:
            self._wake_at = now + WAKE_S
            self._wake_timer = self.log.clock.call_at(self._wake_at, self._woken)
        if now < self._wake_at:
            return False
        self._wake_at = None
        return await self._begin(None, (), None, None) is not None

    def _woken(self) -> None:
        self._wake_timer = None
        self.notify()

    async def _begin(
        self, agent: str | None, taken: Sequence[QueuedMessage], key: str | None, content: MessageContent | None
    ) -> str | None:
        """Starts a run in the foreground; None where another process has started one, or the key was used.

        Its number is that of the moment when nothing went on, whatever is read until it is written.
        """
        conversation, registry, spans = self.conversation, self.agents.registry, self.session.pipeline.spans
        active, number = conversation.line.active, conversation.foreground_runs
        if conversation.foreground is not None:
            return None
        known = active if active in registry else self.agents.default  # a log may name one that is not there
        wanted = known if taken and agent not in registry else agent  # who was asked for may be gone meanwhile
        definition = registry.get(wanted or known) or registry.choose(wanted or known)
        switched = active and definition.name != active
        events: list[EventData] = [handovers.switch(active, definition.name, "user")] if switched else []
        id = f"r{self.session.pipeline.new_id()[1:]}"
        # One that results wake goes on as the run before it.
        overrides = taken[0].overrides if taken else self.agents.overrides if content else conversation.overrides
        kept = self._kept.get(definition) or await self.keep(definition)
        origin = "user" if taken or content is not None else "wake"
        trace = None if spans is None or content is None else spans.telemetry.begun("message", self.session.id)
        events.append(RunStarted(id, definition.name, origin, None, kept, None, *overrides, trace))
        events += await late_messages(self, None, id) if self._background() else ()
        events += [one.taken_by(id) for one in taken]
        if content is not None and content.text:
            events.append(MessageAdded(role="user", content=content.text, run=id, key=key, parts=content.parts))
        self._registries[id] = registry if overrides == NO_OVERRIDES else registry.overridden(overrides)
        if not await self.log.begin(number, key, events):
            del self._registries[id]
            return None
        self._warned = False
        return id

    async def late(self, run: AgentRun) -> list[MessageAdded]:
        """What the model of a run has to read of calls in the background."""
        return await late_messages(self, run) if self._background() else []

    def _background(self) -> bool:
        return bool(self.conversation.noted) or any(one.background for one in self.session.live.values())

    # Agents

    def registry(self, run: AgentRun) -> AgentRegistry:
        """The agents as they were when a run started."""
        registry = self._registries.get(run.id)
        if registry is None:
            registry = self._registries[run.id] = self._inherited(run)
        return registry

    def _inherited(self, run: AgentRun) -> AgentRegistry:
        above = self.conversation.run_of(run.parent)
        return self.agents.registry.overridden(run.overrides) if above is None else self.registry(above)

    def forget(self, run: AgentRun) -> None:
        """Drops what was remembered for a run that is over."""
        self._registries.pop(run.id, None)

    def agent(self, name: str, run: AgentRun) -> Agent:
        """The definition that a run knows an agent by.

        Raises:
            Refused: `not_found`, there is none.
        """
        registry = self.registry(run)
        agent = registry.get(name)
        if agent is None:
            raise Refused("not_found", f"There is no agent '{name}'", f"known: {', '.join(registry) or 'none'}")
        return agent

    async def keep(self, agent: Agent) -> str:
        """Keeps a definition beside the log, so that whoever goes on with a run knows it; its digest."""
        kept = self._kept.get(agent)
        if kept is None:
            kept, text = agent.told()
            await self.log.store.keep(self.session.id, f"agent:{kept}", text)
            self._kept[agent] = kept
        return kept

    async def restore(self) -> None:
        """Takes in the log; runs that were begun with other definitions than those of now get theirs back."""
        store, id, conversation = self.log.store, self.session.id, self.conversation
        await self.log.catch_up()
        if conversation.late:  # whoever spoke with a model before may have shown it some of them
            read = await store.cursor(id, MODEL)
            unread = {row.id for row in await store.calls(id, done_after=read, limit=ALL)}
            conversation.late = {call: one for call, one in conversation.late.items() if call in unread}
        for run in conversation.going.values():
            now = self.agents.registry.get(run.first)
            if run.definition is None or (now is not None and now.digest() == run.definition):
                continue
            kept = await store.kept(id, f"agent:{run.definition}")
            if kept is not None:
                old = Agent(**{"model": None if now is None else now.model, **decode(kept)})
                self._registries[run.id] = self._inherited(run).replaced(old.overridden(run.overrides))

    def scope(self, run: AgentRun, name: str) -> RunScope:
        """An agent at work in a run."""
        return RunScope(self, run, self.agent(name, run))

    def model(self, agent: Agent, run: AgentRun) -> Model:
        """The model that an agent speaks with in a run."""
        return self.agents.chosen(run.overrides.model) if run.overrides.model else self.agents.model_of(agent)

    def policy(self, agent: Agent) -> Policy:
        """What judges the calls of an agent."""
        outer, known = self.session.policy, self._policies.get(agent)
        if known is None or known[0] is not outer:
            known = self._policies[agent] = (outer, narrowed(outer, agent, self.session.folders))
        return known[1]

    # Tools and requests

    def toolset(self, run: AgentRun, agent: Agent) -> Toolset:
        """The tools that an agent has in a run, now."""
        noted, known = self.conversation.noted, self._toolsets.get(agent)
        key = (self.session._view, self.policy(agent), id(self.registry(run)), run.id if noted else None, noted)
        if known is None or known[0] != key:
            base = known[1] if known is not None and known[0][:2] == key[:2] else toolset.of_session(self, agent)
            known = self._toolsets[agent] = (key, base, toolset.with_builtins(self, run, agent, base))
        return known[2]

    def request(self, run: AgentRun, agent: Agent) -> CompletionRequest:
        """What the model of a run is asked now."""
        tools, view, system = self.toolset(run, agent), run.line.view, agent.instructions
        if "{{" in system:
            system = templates.filled(system, templates.values(self.session, agent))
        shown = tools.views
        if tools.many:
            shown, system = toolset.abridged(tools, agent, view, system)
        return CompletionRequest(
            agent=agent.name,
            model=agent.model if isinstance(agent.model, str) else None,
            messages=(Message("system", system), *rendered(view)),
            tools=() if run.last_words else shown,
            settings=agent.model_settings,
            session=self.session.id,
            run=run.id,
            turn=run.turn,
            earlier_requests=self.conversation.requests[agent.name],
            process=self.session.pipeline.worker,
        )

    async def fitted(
        self, request: CompletionRequest, agent: Agent, run: AgentRun
    ) -> tuple[MediaIntake, CompletionRequest]:
        """What files the model of an agent takes, and the request with those."""
        intake = await self.model(agent, run).media(request.settings)
        return intake, await attachments.fitted(request, intake, self._kept_file)

    async def _kept_file(self, id: str) -> bytes | None:
        return await self.log.store.kept(self.session.id, id)
