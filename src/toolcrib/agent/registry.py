"""The agents of a project: loaded all at once, checked against each other, and read again where files change."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from toolcrib.agent import scripts
from toolcrib.agent.definition import Agent, RunOverrides, SubAgent, Via
from toolcrib.agent.files import SUFFIXES, AgentDefinition, FileParts, LineProblem, read_file
from toolcrib.agent.problems import BadAgent, meant
from toolcrib.errors import Refused
from toolcrib.policy import globs

log = logging.getLogger("toolcrib.agent")


class AgentRegistry(dict[str, Agent]):
    """Agents by name. Nobody changes it: whoever holds it sees the same agents as long as it does.

    Raises:
        BadAgent: a name is used twice, or a sub-agent does not exist.
    """

    def __init__(self, agents: Iterable[Agent] = ()) -> None:
        definitions = [_of_program(agent) for agent in agents]
        super().__init__({one.agent.name: one.agent for one in definitions if one.agent is not None})
        problems, warnings = _together(definitions)
        self.warnings = warnings
        if problems:
            raise BadAgent((), [f"Agent {line.text}" for line in problems])

    def choose(self, name: str) -> Agent:
        """Return the agent that a person asks for.

        A person may talk to every agent. `sub_agents`, `via` and the limit bind agents, which hand over within a run; a
        person chooses between two runs, and the choice counts as no handover of either.

        Raises:
            Refused: `not_found`, there is no such agent.
        """
        agent = self.get(name)
        if agent is None:
            raise Refused("not_found", f"There is no agent '{name}'{meant(name, self)}")
        return agent

    def replaced(self, agent: Agent) -> AgentRegistry:
        """The same agents, but for one; what they say of each other is not looked at again."""
        other = AgentRegistry()
        other.update(self, **{agent.name: agent})
        return other

    def overridden(self, overrides: RunOverrides) -> AgentRegistry:
        """The same agents, as a run has them that was given something else than their definitions say."""
        other = AgentRegistry()
        other.update({name: agent.overridden(overrides) for name, agent in self.items()})
        return other

    def reached(self, agent: Agent, via: Via) -> dict[str, SubAgent]:
        """The agents that one may reach by that way, by name."""
        routes = ((name, agent.sub_agent(name, via)) for name in self)
        return {name: how for name, how in routes if how is not None}


def load(*places: str | PathLike[str]) -> AgentRegistry:
    """The agents of files and folders. Nothing half-loaded is used.

    Raises:
        BadAgent: with every error of every file, as `<file>:<line>: <key>: <problem>`.
    """
    return _made([read_file(path, shown) for path, shown in _paths(places)])


class LoadReport(NamedTuple):
    """What was found in files: the names of their agents, what is wrong with them, and what only looks wrong.

    `definitions` are the files as they were read.
    """

    names: list[str]
    problems: list[LineProblem]
    warnings: list[LineProblem]
    definitions: tuple[AgentDefinition, ...] = ()


def lint(*places: str | PathLike[str]) -> LoadReport:
    """Everything that can be said against the agents of files and folders, without using them."""
    definitions = [read_file(path, shown) for path, shown in _paths(places)]
    problems, warnings = _together(definitions)
    names = [one.name or Path(one.file).stem for one in definitions]
    wrong = sorted([*(line for one in definitions for line in one.lines), *problems])
    return LoadReport(names, wrong, sorted(warnings), tuple(definitions))


def _made(definitions: list[AgentDefinition]) -> AgentRegistry:
    wrong = [line for one in definitions for line in one.lines]
    problems, warnings = _together(definitions)
    wrong += problems
    if wrong:
        raise BadAgent((), [str(line) for line in sorted(wrong)])
    registry = AgentRegistry(one.agent for one in definitions if one.agent is not None)
    registry.warnings = warnings
    return registry


def _paths(places: Iterable[str | PathLike[str]]) -> list[tuple[Path, str]]:
    paths: dict[Path, str] = {}
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(path for path in place.rglob("*") if path.suffix in SUFFIXES and path.is_file())
            paths |= {path: str(path) for path in inside}
        else:
            paths[place] = str(place)
    return list(paths.items())


def _together(definitions: list[AgentDefinition]) -> tuple[list[LineProblem], list[LineProblem]]:
    """What is wrong between agents; and what only looks wrong. A file that does not load still has its name."""
    names: dict[str, AgentDefinition] = {}
    problems: list[LineProblem] = []
    warnings: list[LineProblem] = []
    for one in definitions:
        name = one.name or Path(one.file).stem
        if name in names:
            text = f"'{name}' is also the name of the agent in {names[name].file or 'the same program'}"
            problems.append(one.line(("name",), text))
            problems.append(names[name].line(("name",), f"'{name}' is also the name of the agent in {one.file}"))
        else:
            names[name] = one
    for one in definitions:
        lacks = None if one.agent is None else scripts.missing(one.agent)
        if lacks is not None:
            warnings.append(one.line(("tools",), lacks))
        for number, sub in enumerate(one.sub_agents):
            problem = _reached(one.name, sub, names)
            if problem is not None:
                where = warnings if globs.is_pattern(sub.agent) else problems
                where.append(one.line(("sub_agents", number), problem))
    return problems, warnings


def _of_program(agent: Agent) -> AgentDefinition:
    return AgentDefinition("", agent, [], FileParts({}), agent.name, tuple(agent.sub_agents))


def _reached(agent: str, sub: SubAgent, names: Iterable[str]) -> str | None:
    """What is wrong with one entry of `sub_agents`."""
    if globs.is_pattern(sub.agent):
        fits = globs.text(sub.agent)
        others = [name for name in names if name != agent and fits(name)]
        return None if others else f"'{sub.agent}' matches no agent"
    if sub.agent == agent:
        return f"'{agent}' is the agent itself"
    return None if sub.agent in names else f"unknown agent '{sub.agent}'{meant(sub.agent, names)}"


class AgentLibrary:
    """Agents of files and of the program, as of now: a changed file is loaded again when somebody asks.

    A file with errors leaves the old agents in place, and says so once.
    """

    def __init__(self, agents: Iterable[Any] = ()) -> None:
        entries = list(agents)
        self._own = [one for one in entries if isinstance(one, Agent)]
        self.places = [Path(one) for one in entries if not isinstance(one, Agent)]
        self.problems: tuple[str, ...] = ()
        self.definitions: list[AgentDefinition] = []
        self._stamp = self._look()
        self.current = self._load()

    @property
    def registry(self) -> AgentRegistry:
        """The agents of now."""
        if self.places and (stamp := self._look()) != self._stamp:
            self._stamp = stamp
            try:
                self.current, self.problems = self._load(), ()
            except BadAgent as error:
                self.problems = error.lines
                log.warning("the agents stay as they were, since files have errors:\n%s", error)
        return self.current

    def _load(self) -> AgentRegistry:
        own = [_of_program(agent) for agent in self._own]
        definitions = [*(read_file(path, shown) for path, shown in _paths(self.places)), *own]
        registry = _made(definitions)
        self.definitions = definitions
        for warning in registry.warnings:
            log.warning("%s", warning)
        return registry

    def _look(self) -> list[tuple[str, int, int]]:
        stamps = []
        for path, shown in _paths(self.places):
            try:
                stat = path.stat()
            except OSError:
                continue
            stamps.append((shown, stat.st_mtime_ns, stat.st_size))
        return stamps
