"""Review of agents against the tools that there are: selectors of nothing, and rules that are about nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from toolcrib.agent import builtins
from toolcrib.agent.definition import Agent
from toolcrib.agent.files import AgentDefinition, LineProblem
from toolcrib.agent.models import Model, ModelError
from toolcrib.agent.registry import AgentLibrary
from toolcrib.agent.selection import selects
from toolcrib.agent.templates import names_in
from toolcrib.errors import Refused
from toolcrib.findings import Finding
from toolcrib.policy import DataOrigin
from toolcrib.policy.loader import load
from toolcrib.schema import nearest
from toolcrib.tool import Tool

FindModel = Callable[[Agent], Model]
FINAL = ("final_answer", f"{builtins.NAMESPACE}.final_answer")
"""The tool that agents with an `output_schema` have beside all others."""

SELECTING = ("tools", "exclude", "always")


def review(definitions: Iterable[AgentDefinition], tools: Sequence[Tool], find: FindModel) -> list[Finding]:
    """Return what is wrong with agents that load, held against these tools and the models that `find` finds."""
    return [
        one
        for definition in definitions
        if definition.agent is not None
        for one in _agent(definition, definition.agent, tools, find)
    ]


def _agent(definition: AgentDefinition, agent: Agent, tools: Sequence[Tool], find: FindModel) -> Iterator[Finding]:
    yield from _selectors(definition, agent, tools)
    yield from _policy(definition, agent, tools)
    yield from _model(definition, agent, find)
    yield from _stops(definition, agent, tools)
    for name in agent.vars:
        if name not in names_in(agent.instructions):
            problem = f"Agent '{agent.name}': vars: '{name}' is nowhere in its instructions"
            yield _at(definition, ("vars", name), Finding("NO_PLACEHOLDER", "warning", problem, "agents"))


def _model(definition: AgentDefinition, agent: Agent, find: FindModel) -> Iterator[Finding]:
    """A model that nobody has, and settings that a model of a provider does not have."""
    try:
        model = find(agent)
    except (Refused, ModelError) as error:
        finding = Finding("NO_MODEL", "warning", f"Agent '{agent.name}': model: {error}", "agents")
        yield _at(definition, ("model",), finding)
        return
    for key, problem, close in model.problems(agent.model_settings):
        place = ("model",) if key is None else ("model_settings", key)
        text = f"Agent '{agent.name}': {'.'.join(map(str, place))}: {problem}"
        yield _at(definition, place, Finding("NO_MODEL", "warning", text, "agents", nearest=close))


def review_library(library: AgentLibrary, tools: Sequence[Tool], find: FindModel) -> list[Finding]:
    """Return what is wrong with the agents of now; and why changed files were not taken."""
    warnings = of_lines(library.registry.warnings, "warning")
    stale = [
        Finding("BAD_AGENT", "error", f"{line} (the agents stay as they were)", "agents") for line in library.problems
    ]
    return [*stale, *warnings, *review(library.definitions, tools, find)]


def of_lines(lines: Iterable[LineProblem], severity: str) -> list[Finding]:
    """Return the problems of files as findings."""
    return [
        Finding(
            "BAD_AGENT" if severity == "error" else "AGENT_WARNING",
            "error" if severity == "error" else "warning",
            f"{line.key}: {line.text}" if line.key else line.text,
            "agents",
            line.file or None,
            line.line if line.file else None,
        )
        for line in lines
    ]


def _selectors(definition: AgentDefinition, agent: Agent, tools: Sequence[Tool]) -> Iterator[Finding]:
    ids = [tool.id for tool in tools]
    for key in SELECTING:
        for number, selector in enumerate(getattr(agent, key)):
            if selector != "*" and not any(selects(selector, id) for id in ids):
                problem = f"Agent '{agent.name}': {key}: '{selector}' selects no tool"
                close = _nearest(selector, tools)
                finding = Finding("NO_SELECTION", "warning", problem, "agents", nearest=close)
                yield _at(definition, (key, number), finding)
            elif key == "always" and not any(selects(selector, id) and agent.has(id) for id in ids):
                problem = f"Agent '{agent.name}': always: '{selector}' selects no tool that the agent has"
                yield _at(definition, (key, number), Finding("NO_SELECTION", "warning", problem, "agents"))


def _stops(definition: AgentDefinition, agent: Agent, tools: Sequence[Tool]) -> Iterator[Finding]:
    """Conditions that stop a run at a tool that there is none of, or that the agent does not have."""
    for number, stop in enumerate(agent.stop):
        if stop.type != "stop_on_tool" or (agent.output_schema is not None and stop.value in FINAL):
            continue
        place = ("stop", number, "tool_name")
        meant = [tool for tool in tools if stop.value in (tool.id, tool.name)]
        if not meant:
            problem = f"Agent '{agent.name}': stop: there is no tool '{stop.value}', so it never stops the run"
            close = nearest(stop.value, [name for tool in tools for name in (tool.id, tool.name)], 1)
            finding = Finding("NO_TOOL", "warning", problem, "agents", nearest=close[0] if close else None)
            yield _at(definition, place, finding)
        elif not any(tool.namespace == builtins.NAMESPACE or agent.has(tool.id) for tool in meant):
            problem = f"Agent '{agent.name}': stop: '{stop.value}' is no tool that the agent has"
            yield _at(definition, place, Finding("NO_SELECTION", "warning", problem, "agents"))


def _nearest(selector: str, tools: Sequence[Tool]) -> str | None:
    names = [name for tool in tools for name in (tool.id, tool.name, f"{tool.namespace}.*", tool.namespace)]
    close = nearest(selector, names, 1)
    return close[0] if close else None


def _at(definition: AgentDefinition, place: tuple[str | int, ...], finding: Finding) -> Finding:
    if not definition.file:
        return finding
    return replace(finding, file=definition.file, line=definition.parts.line(place))


def _policy(definition: AgentDefinition, agent: Agent, tools: Sequence[Tool]) -> list[Finding]:
    """What is wrong with the rules of an agent; they speak of this agent alone."""
    if not agent.policy:
        return []
    lines = definition.parts.line if definition.file else (lambda place: None)
    origin = DataOrigin(definition.file or None, line_at=lines).below("policy")
    policy = load(agent.policy, narrowing=True, place=origin)
    return [
        replace(one, about="agents", message=f"Agent '{agent.name}': policy: {one.message}")
        for one in policy.check(tools, [agent.name])
    ]
