"""What a run gives to the calls of its agent: the tools that it has, what judges them, and `ctx.run`."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib._call.live_call import LiveCall
from toolcrib._call.request import CallRequest
from toolcrib.agent import handovers
from toolcrib.agent.conversation import AgentRun
from toolcrib.agent.definition import Agent
from toolcrib.agent.models import Message
from toolcrib.agent.transcript import rendered
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.policy import Arguments, Policy, Subject, Verdict, rules_of
from toolcrib.policy.explanation import strictest
from toolcrib.tool import Tool
from toolcrib.types import Handover, Result

if TYPE_CHECKING:
    from toolcrib.agent.driver import Driver
    from toolcrib.agent.toolset import Toolset


@dataclass(slots=True)
class RunScope:
    """One agent in one run, which is as it is `now`."""

    driver: Driver
    now: AgentRun
    agent: Agent
    _toolset: Toolset | None = None
    _view: RunView | None = None

    @property
    def toolset(self) -> Toolset:
        """What the agent has; the same for as long as a call is looked at."""
        if self._toolset is None:
            self._toolset = self.driver.toolset(self.now, self.agent)
        return self._toolset

    @property
    def policy(self) -> Policy:
        """The session's policy, narrowed by that of the agent."""
        return self.driver.policy(self.agent)

    @property
    def instructions(self) -> str:
        """What the agent was told by whoever wrote it."""
        return self.agent.instructions

    def tool(self, request: CallRequest) -> Tool | None:
        """What the agent selected and its session allows; a tool that it runs may also call what the session has."""
        if request.options.by.kind == "tool":
            return self.driver.session.tool(request.name) or self.toolset.callable.get(request.name)
        return self.toolset.callable.get(request.name)

    def sees(self, tool: Tool) -> bool:
        """True if that very tool is open."""
        return self.toolset.callable.get(tool.id) is tool or self.driver.session._sees(tool)

    def names(self) -> list[str]:
        """The names that could have been meant."""
        return list(self.toolset.callable)

    def path(self) -> list[str]:
        """The agents from the top down."""
        above = [run.agent for run in self.driver.conversation.chain(self.now)[:-1]]
        return [*above, self.agent.name]

    def run(self, call: LiveCall) -> RunView:
        """What a tool sees of the run."""
        self._view = RunView(self, call)
        return self._view

    def finished(self, call: LiveCall, result: Result) -> Result:
        """The result of one of its calls: with what the tool asked of the run, or a handover only where it may be."""
        if self._view is not None and self._view.wishes:
            return self._view.applied_to(result)
        if result.handover is None or call.by.kind != "agent":
            return result
        return handovers.gated(self, result)


class NarrowedPolicy(Policy):
    """A policy of anybody's making, within which that of an agent holds."""

    def __init__(self, outer: Policy, inner: Policy) -> None:
        self._both = (outer, inner)

    def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
        """The strictest verdict."""
        return strictest([policy.decide(session, tool, arguments) for policy in self._both])

    def needs_origins(self, tool: Tool, in_run: bool) -> bool:
        """True if one of them asks where values come from."""
        return any(policy.needs_origins(tool, in_run) for policy in self._both)


def narrowed(outer: Policy, agent: Agent, folders: Any) -> Policy:
    """What judges the calls of an agent: its own rules never allow what the session's do not."""
    rules = rules_of(outer)
    if agent.policy is None:
        return rules or outer
    from toolcrib.policy.loader import load
    from toolcrib.policy.rule_policy import Layers

    inner = load(agent.policy, folders=folders, narrowing=True)
    if rules is None:
        return NarrowedPolicy(outer, inner)
    return Layers((*(rules.layers if isinstance(rules, Layers) else (rules,)), inner))


class RunView:
    """`ctx.run`: the run that a tool works for."""

    def __init__(self, scope: RunScope, call: LiveCall) -> None:
        self._scope = scope
        self._call = call
        self._handover: Handover | None = None
        self._finish: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._scope.now.id

    @property
    def agent(self) -> str:
        """The agent that called."""
        return self._scope.agent.name

    @property
    def definition(self) -> Agent:
        """The agent that called, as the run knows it: its definition of when the run started."""
        return self._scope.agent

    @property
    def parent(self) -> str | None:
        """The run that made this one, if one did."""
        above = self._scope.driver.conversation.run_of(self._scope.now.parent)
        return None if above is None else above.id

    @property
    def call(self) -> str | None:
        """The call that this run was made by, if it was made by one."""
        return self._scope.now.parent

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents that there were when the run started, by name."""
        return self._scope.driver.registry(self._scope.now)

    @property
    def turn(self) -> int:
        """The turn of the run."""
        return self._scope.now.turn

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the agent sees of the conversation."""
        run = self._scope.now
        return tuple(rendered(run.line.views.get(self._scope.agent.name, run.line.view)))

    def handover(self, to: str, reason: str | None = None, message: str | None = None) -> Result:
        """Hands the conversation over when the turn is over; the result says so, and may be returned as it is.

        Raises:
            ToolFailure: `not_found`, `denied`: nobody may be handed it, and the agent goes on itself.
        """
        made = handovers.checked(self._scope, to, reason, message)
        self._handover = made.handover
        return made

    def finish(self, answer: Any) -> None:
        """Ends the run with this answer when the turn is over."""
        self._finish = {"answer": answer}

    def note(self, text: str) -> None:
        """Leaves a note in the history, which the model reads in its next turn."""
        self._scope.driver.log.note(self._scope.now, text, self._call)

    def spawn(self, agent: str, prompt: str, mode: str = "wait") -> Awaitable[Result]:
        """Runs a sub-agent as `call_agent` does; its result."""
        return self._call.host.child("builtin.call_agent", {"agent": agent, "prompt": prompt, "mode": mode})

    @property
    def wishes(self) -> bool:
        """True if the tool asked something of its run."""
        return self._handover is not None or self._finish is not None

    def applied_to(self, result: Result) -> Result:
        """What the tool asked of its run, as part of its result."""
        if result.failure is not None:
            return result
        metadata = dict(result.metadata) | ({} if self._finish is None else {"finish": self._finish})
        handover = result.handover or self._handover
        return result.but(handover=handover, metadata=metadata)


def scope_of(ctx: Context) -> RunScope:
    """Return the agent and the run that a built-in tool works for.

    Raises:
        ToolFailure: `unavailable`, no agent called it.
    """
    if ctx.run is None:
        raise ToolFailure("unavailable", "Only an agent can call this tool: it works on the agent's own run")
    return ctx.run._scope
