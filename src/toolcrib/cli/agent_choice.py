"""The agents of a crib as a command wants them: which one answers, with which model, and for how many turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.agent import Agent, Agents, ModelError
from toolcrib.agent.runtime import SCRIPT
from toolcrib.cli.config.mistakes import Mistake
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.crib import Crib


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
    """Override what the definitions of a crib's agents say, for the runs of this command.

    Raises:
        CommandError: it has none, or there is no such script or model.
    """
    agents = agents_of(terminal, crib)
    if model is not None and script is not None:
        raise CommandError("--model and --script are two models", "leave one out")
    if script is not None:
        _check_script(script)
        model = f"{SCRIPT}{Path(script).resolve()}"
    with _named():
        agents.override(model=model, max_turns=max_turns)


def _check_script(path: str) -> None:
    from toolcrib.cli.config import agents as config_agents

    try:
        config_agents.script(Path(path))
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
    agent = known(agents, name)
    with _named():
        if agents.overrides.model is None:
            agents.model_of(agent)


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
