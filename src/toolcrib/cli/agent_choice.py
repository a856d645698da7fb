"""The agents of a crib as a command wants them: which one answers, with which model, and for how many turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.agent import Agent, Agents, Model, ModelError
from toolcrib.cli.config.mistakes import Mistake
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.crib import Crib


class ModelOverride(Agents):
    """The same agents, all of which speak with one model where one is chosen."""

    def __init__(self, agents: Agents, script: Model | None, **changes: Any) -> None:
        changes = {name: value for name, value in changes.items() if value is not None}
        super().__init__([replace(agent, **changes) for agent in agents.registry.values()], default=agents.default)
        self._before = agents
        self._chosen = script
        if "model" in changes:
            self._chosen = agents.named(changes["model"]) or self._providers(changes["model"])

    def model_of(self, agent: Agent) -> Model:
        """The model that an agent speaks with."""
        return self._chosen or self._before.model_of(agent)

    async def stop(self) -> None:
        """Lets go of all runs, and of the models."""
        await super().stop()
        await self._before.stop()


def agents_of(terminal: Terminal, crib: Crib) -> Agents:
    """The agents of a crib.

    Raises:
        CommandError: it has none.
    """
    if isinstance(crib.agents, Agents):
        return crib.agents
    advice = "name their files in crib.yaml, as `agents: [team/]`"
    if ":" in (terminal.crib.crib or ""):
        advice = "make it with Crib(agents=Agents([...]))"
    raise CommandError("This crib has no agents", advice, code="not_found")


def recast(terminal: Terminal, crib: Crib, model: str | None, script: str | None, max_turns: int | None) -> None:
    """Override the models of a crib's agents before it starts.

    Raises:
        CommandError: it has none, or there is no such script or model.
    """
    agents = agents_of(terminal, crib)
    if (model, script, max_turns) != (None, None, None):
        if model is not None and script is not None:
            raise CommandError("--model and --script are two models", "leave one out")
        scripted = None if script is None else _script(script)
        with _named():
            crib.agents = ModelOverride(agents, scripted, model=model, max_turns=max_turns)


def _script(path: str) -> Model:
    from toolcrib.cli.config import agents as config_agents

    try:
        return config_agents.script(Path(path))
    except Mistake as wrong:
        raise CommandError(f"--script: {wrong}", "it is JSON or YAML: {agent: [{text: ...}]}") from None


@contextmanager
def _named() -> Iterator[None]:
    """What is to be done about a model that nobody has."""
    try:
        yield
    except ModelError as error:
        advice = "say provider:model-name, or name it under `models` of `agents` in crib.yaml"
        raise CommandError(error.message, advice, code=error.code) from None


def able(agents: Agents, name: str) -> None:
    """Makes sure that an agent can answer.

    Raises:
        CommandError: there is none of that name, or none of its model's.
        Refused: it has no model.
    """
    with _named():
        agents.model_of(known(agents, name))


def known(agents: Agents, name: str) -> Agent:
    """An agent by its name.

    Raises:
        CommandError: there is none.
    """
    from toolcrib.schema import nearest

    agent = agents.registry.get(name)
    if agent is None:
        close = nearest(name, agents.registry, 1)
        advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(agents.registry)}"
        raise CommandError(f"There is no agent '{name}'", advice, code="not_found")
    return agent
