"""`Agents`: what a crib is given so that agents run over its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import CallRequest
from toolcrib.agent import builtins
from toolcrib.agent.conversation import RunOutcome
from toolcrib.agent.definition import NO_OVERRIDES, Agent, RunOverrides
from toolcrib.agent.driver import Driver
from toolcrib.agent.loop import Loop
from toolcrib.agent.models import CompletionRequest, Model, ModelError
from toolcrib.agent.providers import Providers
from toolcrib.agent.recovery import take_over
from toolcrib.agent.registry import AgentLibrary, AgentRegistry
from toolcrib.agent.review import review_library
from toolcrib.agent.run_log import PAGE
from toolcrib.agent.run_scope import RunScope
from toolcrib.agent.scripted_model import ScriptedModel
from toolcrib.errors import Refused
from toolcrib.events import TurnStarted
from toolcrib.findings import Finding
from toolcrib.session import Session
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.policy import Policy
    from toolcrib.sandbox.scripts import ScriptRunner


SCRIPT = "script:"
"""Before the path of a file that says what a model says, in the name of a model that a run was given."""


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
        self._library = AgentLibrary([agents] if isinstance(agents, str | PathLike) else agents)
        self._model = model
        self._models = models
        self._crib: Crib | None = None
        self._providers = models if isinstance(models, Providers) else Providers()
        self._default = default
        self.overrides: RunOverrides = NO_OVERRIDES
        self._scripts: dict[str, ScriptedModel] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.patient: set[LiveCall] = set()
        self.loop: type[Loop] = Loop
        self.registry.choose(self.default)

    @property
    def registry(self) -> AgentRegistry:
        """The agents of now."""
        return self._library.registry if self._library.places else self._library.current

    @property
    def problems(self) -> tuple[str, ...]:
        """Why changed files were not taken."""
        return self._library.problems

    def findings(self, tools: Iterable[Tool]) -> list[Finding]:
        """What is wrong with the agents, held against these tools."""
        return review_library(self._library, tuple(tools), self.model_of)

    @property
    def default(self) -> str:
        """The agent that answers where nobody was asked for."""
        return self._default or next(iter(self.registry), "")

    def model_of(self, agent: Agent) -> Model:
        """The model that an agent speaks with.

        Raises:
            Refused: `unavailable`, it has none.
            ModelError: `invalid_arguments`, its name says no provider.
        """
        if agent.model is not None and not isinstance(agent.model, str):
            return agent.model  # type: ignore[no-any-return]
        model = (None if agent.model is None else self.named(agent.model)) or self._model
        if model is not None:
            return model
        if agent.model is None:
            raise Refused("unavailable", f"Agent '{agent.name}' has no model (none is named)")
        return self._providers(agent.model)

    def named(self, name: str) -> Model | None:
        """The model that `models` finds by that name."""
        if self._models is None:
            return None
        return self._models.get(name) if isinstance(self._models, Mapping) else self._models(name)

    def chosen(self, name: str) -> Model:
        """The model that a run was given by name, in place of those of its agents; `script:` is that of a file.

        Raises:
            ModelError: there is none.
        """
        if not name.startswith(SCRIPT):
            return self.named(name) or self._providers(name)
        if name not in self._scripts:
            try:
                self._scripts[name] = ScriptedModel.load(name.removeprefix(SCRIPT))
            except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
                raise ModelError("unavailable", f"{name} cannot be read: {error}") from None
        return self._scripts[name]

    def override(self, *, model: str | None = None, max_turns: int | None = None) -> None:
        """From now on runs that begin here take these in place of what the definitions of their agents say.

        Raises:
            ModelError: there is no such model.
        """
        if model is not None:
            self.chosen(model)
        self.overrides = RunOverrides(model, max_turns)

    # What the crib tells

    def driver(self, session: Session) -> Driver:
        """What drives the runs of a session."""
        if session.driver is None:
            session.driver = Driver(self, session)
        driver: Driver = session.driver
        return driver

    def built_in(self) -> Mapping[str, Tool]:
        """The tools that are built into agents, by id."""
        return {tool.id: tool for tool in builtins.all_tools()}

    def start(self, crib: Crib) -> None:
        """From now on takes up what dead processes have left, until it is stopped."""
        self._crib = crib
        if crib.pipeline.spans is not None:
            from toolcrib.agent.spans import TracedLoop

            self.loop = TracedLoop
        take_over(self, crib)

    def take_over(self, other: Any) -> None:
        """Goes on with the definitions, models and default of other agents; runs keep what they began with."""
        if not isinstance(other, Agents):
            raise TypeError(f"agents are taken over from Agents, not from {type(other).__name__}")
        self._library, self._default = other._library, other._default
        self._model, self._models, self._providers = other._model, other._models, other._providers

    async def load(self, session: Session) -> None:
        """Takes in what the log of a session says."""
        await self.driver(session).restore()

    def scope(self, call: CallRequest) -> RunScope | None:
        """What a run gives to its calls; one whose agent is gone has no tools."""
        driver = self.driver(cast(Session, call.session))
        run = driver.conversation.runs.get(call.options.run or "")
        if run is None:
            return None
        name = call.options.agent or run.agent
        return RunScope(driver, run, driver.registry(run).get(name) or Agent(name=name, tools=()))

    def policy_of(self, session: Session, agent: str) -> Policy:
        """What judges the calls of an agent in a session; one that is not known has no rules of its own."""
        return self.driver(session).policy(self.registry.get(agent) or Agent(name=agent, tools=()))

    def news(self, session: Session, call: LiveCall | None = None) -> None:
        """Something happened that a run may have waited for."""
        self.driver(session).notify(call)

    def halt(self, session: Session) -> Awaitable[None]:
        """Stops the model of the run that is being interrupted."""
        return self.driver(session).halt()

    def leave(self, session: Session) -> None:
        """A session is being closed."""
        self.driver(session).leave()

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

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Starts a task that ends when the crib stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # What users do

    async def settled(self, session: Session) -> RunOutcome | None:
        """Returns when nothing goes on in the foreground; what became of its last run."""
        return await self.driver(session).settled()

    async def active(self, session: Session) -> str:
        """The agent that the next message goes to."""
        driver = self.driver(session)
        await driver.log.catch_up()
        return driver.conversation.line.active or self.default

    async def request(self, session: Session, run: str, turn: int) -> CompletionRequest:
        """What the model was asked in a turn, as the log tells it.

        Raises:
            Refused: `not_found`, there was no such turn.
        """
        driver = Driver(self, session)
        conversation = driver.conversation
        while page := await driver.log.store.read(session.id, conversation.seen, limit=PAGE):
            for event in page:
                conversation.advance(event)
                match event.data:
                    case TurnStarted() as began if (began.run, began.turn) == (run, turn):
                        made = conversation.runs[run]
                        return driver.request(made, driver.agent(made.agent, made))
        raise Refused("not_found", f"No such turn: {turn} of run {run}")


def leave(call: LiveCall) -> None:
    """Lets go of a call whose agent waits for people, who will not come now; it is taken up when the crib starts."""
    call.session.live.pop(call.id, None)
    if call.task is not None:
        call.task.cancel()
    call.end()
