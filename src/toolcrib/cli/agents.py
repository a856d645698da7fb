"""`toolcrib agents`: who there is, what each sees, who reaches whom, and what is wrong with their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from toolcrib.cli.calls import Namespaces
from toolcrib.cli.command import command, group
from toolcrib.cli.completion import complete_agent
from toolcrib.cli.terminal import Cell, CommandError, Terminal, compact, short

if TYPE_CHECKING:
    from toolcrib.agent import Agent, Agents
    from toolcrib.agent.registry import LoadReport
    from toolcrib.cli.agent_view import AgentView
    from toolcrib.findings import Finding

app = group("agents", "Look at the agents of a crib.")
Form = Literal["mermaid", "dot", "tree"]


@command(app, "list")
async def list_agents(terminal: Terminal) -> None:
    """List the agents."""
    agents = _agents(terminal)
    if terminal.json:
        terminal.data([_data(agents, agent) for agent in agents.registry.values()])
        return
    rows = [_row(agents, agent) for agent in agents.registry.values()]
    terminal.table(("Agent", "Model", "Tools", "Sub-agents", "What it does"), rows)


def _agents(terminal: Terminal) -> Agents:
    from toolcrib.cli.agent_choice import agents_of
    from toolcrib.cli.crib_choice import chosen

    return agents_of(terminal, chosen(terminal.crib))


def _data(agents: Agents, agent: Agent) -> dict[str, Any]:
    """Return an agent as JSON: its definition, with defaults for missing keys."""
    defaults = {
        "name": agent.name,
        "description": agent.description,
        "model": None,
        "tools": list(agent.tools),
        "sub_agents": [],
    }
    return defaults | agent.data() | {"default": agent.name == agents.default}


def _row(agents: Agents, agent: Agent) -> Sequence[Cell]:
    mark = " (default)" if agent.name == agents.default else ""
    subs = ", ".join(one.agent for one in agent.sub_agents)
    tools = ", ".join([*agent.tools, *(f"not {one}" for one in agent.exclude)]) or "none"
    return f"{agent.name}{mark}", _model(agent), tools, subs, short(agent.description)


def _model(agent: Agent) -> str:
    return agent.model if isinstance(agent.model, str) else "" if agent.model is None else type(agent.model).__name__


@command(app, "show")
async def show_agent(
    terminal: Terminal,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Its name.", autocompletion=complete_agent)],
    namespace: Namespaces = None,
) -> None:
    """Show what an agent is told, what it sees and its limits.

    What it sees are the tools and agents that it has in a session.
    """
    from toolcrib.cli.agent_choice import agents_of, known
    from toolcrib.cli.agent_view import sight
    from toolcrib.cli.crib_choice import looking

    async with looking(terminal.crib) as crib:
        agents = agents_of(terminal, crib)
        definition = known(agents, agent)
        session = await crib.open(owner="somebody", namespaces=namespace or ("*",))
        sees = sight(agents, session, definition)
    if terminal.json:
        tools = [one._asdict() for one in sees.tools]
        limits = {"stops": [one.data() for one in definition.stops], **_limits(definition)}
        seen = {"sees": {**sees._asdict(), "tools": tools}, "limits": limits, "warnings": _warnings(definition)}
        terminal.data({**_data(agents, definition), **seen})
    else:
        _show(terminal, agents, definition, sees)


def _warnings(agent: Agent) -> list[str]:
    from toolcrib.agent.scripts import missing

    return [one for one in (missing(agent),) if one is not None]


def _limits(agent: Agent) -> dict[str, Any]:
    return {
        "max_turns": agent.max_turns,
        "handover": {"max": agent.handover.max, "history": agent.handover.history},
        "delegate": {"max_depth": agent.delegate.max_depth, "max_children": agent.delegate.max_children},
    }


def _show(terminal: Terminal, agents: Agents, agent: Agent, sees: AgentView) -> None:
    stops = "; ".join(compact(one.data()) for one in agent.stop)
    facts = {
        "Model": _model(agent),
        "Settings": compact(agent.model_settings) if agent.model_settings else "",
        "Transfers": ", ".join(sees.transfer),
        "Calls": ", ".join(sees.call),
        "Turns": f"at most {agent.max_turns}{'' if agent.on_limit == 'stop' else ', then one last answer'}",
        "Stops": stops,
        "Handovers": f"at most {agent.handover.max}, passing on {compact(agent.handover.history)}"
        if sees.transfer
        else "",
        "Children": f"at most {agent.delegate.max_children}, {agent.delegate.max_depth} deep" if sees.call else "",
        "Policy": compact(agent.policy) if agent.policy else "",
        "Answer": compact(agent.output_schema) if agent.output_schema else "",
    }
    terminal.text(f"{agent.name}{' (default)' if agent.name == agents.default else ''}", "bold")
    if agent.description:
        terminal.text(agent.description)
    terminal.text("")
    for name, value in facts.items():
        if value:
            terminal.text(f"{name:<11}{value}")
    terminal.text("\nInstructions", "bold")
    terminal.text("\n".join(f"  {line}" for line in agent.instructions.strip().splitlines()) or "  none")
    terminal.text(f"\nTools ({len(sees.tools)})", "bold")
    if sees.tools:
        rows = [(one.name, one.id, f"{one.description}{' (by name only)' if one.listed else ''}") for one in sees.tools]
        terminal.table(("Name", "Tool", "What it does"), rows, indent=2)
    for warning in _warnings(agent):
        terminal.text(f"\n{warning}", "yellow")


@command(app, "lint")
async def lint(
    terminal: Terminal,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Files and folders; without them those of the crib.")
    ] = None,
) -> int:
    """Check the definitions of agents, also against the tools of the crib. Nothing is called.

    Everything that is wrong is told, as FILE:LINE: KEY: PROBLEM.
    Exit code 1 where there is an error; warnings are none.
    """
    from toolcrib.agent.review import of_lines

    report = _load(terminal, paths or ())
    more = await _held_against_tools(terminal, report)
    lines = [*of_lines(report.problems, "error"), *of_lines(report.warnings, "warning"), *more]
    warnings = [one for one in lines if one.severity == "warning"]
    if terminal.json:
        known = [{**line._asdict(), "severity": "error"} for line in report.problems]
        known += [{**line._asdict(), "severity": "warning"} for line in report.warnings]
        terminal.data({"agents": report.names, "problems": known, "findings": [one.data() for one in lines]})
        return 1 if report.problems else 0
    for line in report.problems:
        terminal.text(str(line), "red")
    for line in report.warnings:
        terminal.text(f"{line} (a warning)", "yellow")
    for one in more:
        terminal.text(f"{one} ({'a warning' if one.severity == 'warning' else 'a remark'})", "yellow")
    summary = ", ".join(
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in ((len(report.problems), "error"), (len(warnings), "warning"))
        if number
    )
    count = f"{len(report.names)} agent{'' if len(report.names) == 1 else 's'}"
    terminal.text(f"{count}: {summary or 'nothing is wrong'}", "red" if report.problems else "green")
    return 1 if report.problems else 0


async def _held_against_tools(terminal: Terminal, report: LoadReport) -> list[Finding]:
    """Return the findings that need the tools of the crib, where there is a crib that loads."""
    from toolcrib.agent import Agents
    from toolcrib.agent.review import review
    from toolcrib.cli.config.document import NAME
    from toolcrib.cli.tools import stocked
    from toolcrib.errors import ToolcribError
    from toolcrib.review import agent_findings, all_tools, tempered

    if report.problems or (terminal.crib.crib is None and not _is_file(NAME)):
        return []  # a crib whose agents do not hold does not load
    try:
        async with stocked(terminal.crib) as crib:
            if not report.definitions or not isinstance(crib.agents, Agents):
                return list(tempered(crib, agent_findings(crib)))
            findings = review(report.definitions, all_tools(crib), crib.agents.model_of)
            return list(tempered(crib, findings))
    except (CommandError, ToolcribError) as error:
        terminal.say(f"The tools of the crib are not known, so selectors are not checked: {error}", "yellow")
        return []


def _is_file(name: str) -> bool:
    return Path(name).is_file()


def _load(terminal: Terminal, paths: Sequence[str]) -> LoadReport:
    from toolcrib.agent.registry import LoadReport, lint
    from toolcrib.cli.config.document import NAME
    from toolcrib.cli.config.loader import agent_places

    missing = next((path for path in paths if not Path(path).exists()), None)
    if missing is not None:
        raise CommandError(f"There is no {missing}", "name files or folders of agents", code="not_found")
    file = Path(terminal.crib.crib or NAME)
    if paths:
        return lint(*paths)
    if not file.is_file():  # a program has checked its agents itself
        registry = _agents(terminal).registry
        return LoadReport([*registry], [], registry.warnings)
    here = Path.cwd()
    places = agent_places(file)
    return lint(*(place.relative_to(here) if place.is_relative_to(here) else place for place in places))


@command(app, "graph")
async def graph(
    terminal: Terminal,
    form: Annotated[
        Form | None, typer.Option("--format", "-f", help="mermaid, dot or tree; a tree on a terminal, else Mermaid.")
    ] = None,
) -> None:
    """Show which agents may reach which. Solid is by a transfer, dotted by a call alone."""
    from toolcrib.cli.display import agent_graph

    agents = _agents(terminal)
    if terminal.json:
        names = [{"name": name, "default": name == agents.default} for name in agents.registry]
        terminal.data({"agents": names, "edges": [edge.data() for edge in agent_graph.edges(agents)]})
        return
    form = form or ("tree" if terminal.out.is_terminal else "mermaid")
    if form == "tree":
        terminal.show(agent_graph.tree(agents))
    else:
        terminal.text(agent_graph.mermaid(agents) if form == "mermaid" else agent_graph.dot(agents))
