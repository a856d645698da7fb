"""May the conversation be handed over, to whom, and what the other then gets to see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.agent.conversation import AgentRun
from toolcrib.agent.transcript import passing
from toolcrib.errors import ToolFailure
from toolcrib.events import HandedOver, PassedHistory
from toolcrib.types import Failure, Handover, Result

if TYPE_CHECKING:
    from toolcrib.agent.definition import Agent, Via
    from toolcrib.agent.run_scope import RunScope

SKIPPED = {"status": "skipped", "message": "Another transfer was made in this turn."}


def checked(scope: RunScope, to: str, reason: str | None, message: str | None) -> Result:
    """The result of a transfer.

    Raises:
        ToolFailure: `not_found` or `denied`, in the words that the model reads.
    """
    if any(note.transfer is not None for note in scope.now.notes):
        return Result(dict(SKIPPED))
    gate(scope, to)
    data = {"status": "transferred", "to": to, "reason": reason}
    return Result(data, handover=Handover(to, reason, message))


def switch(source: str, to: str, reason: str, run: str | None = None) -> HandedOver:
    """Return the handover that no agent asks for: a person's choice, or the way back to an earlier agent."""
    return HandedOver(run=run, source=source, to=to, reason=reason, history=PassedHistory("full"))


def gate(scope: RunScope, to: str) -> None:
    """The one way by which an agent hands over, whatever wants it: a tool, its result, or an old log.

    Raises:
        ToolFailure: `not_found` or `denied`, in the words that the model reads.
    """
    run = scope.now
    target(scope, to, "transfer")
    most = scope.driver.agent(run.first, run).handover.max
    if len(run.handovers) >= most:
        raise ToolFailure("denied", f"Transfer refused: limit of {most} handovers reached")
    circle = _circle(run, to)
    if circle is not None:
        raise ToolFailure("denied", f"Transfer refused: {' > '.join(circle)} without anything new")


def gated(scope: RunScope, result: Result) -> Result:
    """The result of a tool that hands over by what it returns; a failure where it may not."""
    handover = result.handover
    if handover is None or result.failure is not None:
        return result
    if any(note.transfer is not None for note in scope.now.notes):
        return result.but(handover=None)
    try:
        gate(scope, str(getattr(handover, "to", "")))  # a tool may return whatever it likes
    except ToolFailure as error:
        return Result(failure=Failure(error.code, error.message, hint="The tool itself has run."))
    return result


def target(scope: RunScope, name: str, via: Via) -> Agent:
    """The agent that one may reach by that way.

    Raises:
        ToolFailure: `not_found`, nobody is called so; `denied`, it is no sub-agent.
    """
    registry = scope.driver.registry(scope.now)
    verb = "transfer to" if via == "transfer" else "call"
    others = ", ".join(registry.reached(scope.agent, via)) or "nobody"
    if name not in registry:
        raise ToolFailure("not_found", f"Agent '{name}' not found. You can {verb}: {others}")
    if scope.agent.sub_agent(name, via) is None:
        text = f"Agent '{name}' is not a sub-agent of '{scope.agent.name}'. You can {verb}: {others}"
        raise ToolFailure("denied", text)
    return registry[name]


def _circle(run: AgentRun, to: str) -> list[str] | None:
    """The way back to an agent that handed over earlier, where nothing new came since."""
    for number, one in enumerate(run.handovers):
        if one.source == to and not one.news:
            return [to, *(later.target for later in run.handovers[number:]), to]
    return None


def event(
    scope: RunScope, handover: Handover, call: str, summary: str | None = None, requests: int | None = None
) -> HandedOver:
    """What the log says of a handover that a call made."""
    how = scope.agent.sub_agent(handover.to, "transfer")
    policy = policy_of(scope.agent, handover.to)
    history = passing(policy, scope.now.line.view)
    return HandedOver(
        run=scope.now.id,
        source=scope.agent.name,
        to=handover.to,
        reason=handover.reason,
        message=handover.message,
        call=call,
        history=history if summary is None else msgspec.structs.replace(history, summary=summary),
        returns=how is not None and how.returns,
        asked=requests,
    )


def policy_of(agent: Agent, to: str) -> Any:
    """How much of the history a transfer passes on."""
    how = agent.sub_agent(to, "transfer")
    return agent.handover.history if how is None or how.history is None else how.history


def listed(agents: Iterable[Agent]) -> str:
    """Targets with their descriptions, as a model reads them."""
    return "\n".join(f"- {agent.name}: {' '.join(agent.description.split()) or 'no description'}" for agent in agents)
