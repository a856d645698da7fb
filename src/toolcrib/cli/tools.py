"""`toolcrib tools`: what the crib holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.completion import complete_tool
from toolcrib.cli.terminal import Cell, Terminal, Trouble, compact

if TYPE_CHECKING:
    from toolcrib.catalog import View
    from toolcrib.crib import Crib
    from toolcrib.tools import Tool

app = group("tools", "Look at the tools of a crib.")
EFFECTS = {"read": "green", "idempotent": "yellow", "once": "red"}
_EFFECTS_IN_WORDS = {
    "read": "changes nothing; runs again after a crash",
    "idempotent": "may be repeated; runs again after a crash",
    "once": "never runs twice; after a crash it is reported as unknown",
}

_LIMITS = {
    "timeout_s": "runs at most {:g} s",
    "output_bytes": "{:,} bytes of output",
    "concurrency": "{} at a time",
    "wait_s": "waits at most {:g} s for an answer",
    "repeat": "{} identical failures in a row",
    "idle_timeout": "silent for at most {:g} s",
}


@command(app, "list")
async def list_tools(
    terminal: Terminal,
    namespace: Annotated[list[str] | None, typer.Option("--namespace", "-n", help="Only these namespaces.")] = None,
    search: Annotated[str, typer.Option("--search", "-s", help="Only tools that mention all these words.")] = "",
) -> None:
    """List the tools, of all namespaces unless told otherwise."""
    from toolcrib.cli.choose import looking

    async with looking(terminal.crib) as crib:
        view = crib.catalog.view(crib.catalog.resolve(namespace) if namespace else ("*",))
        tools = [tool for tool in view.tools if _mentions(tool, search)]
        if terminal.json:
            names = _model_names(view)
            terminal.data([described(crib, tool, names[tool.id]) for tool in tools])
        elif tools:
            terminal.table(("Tool", "Effect", "Says", "What it does"), [_row(tool) for tool in tools])
        else:
            terminal.say("No tool fits. Try it without --search and --namespace.")


@command(app, "show")
async def show_tool(
    terminal: Terminal,
    tool: Annotated[str, typer.Argument(help="Its id, or its bare name.", autocompletion=complete_tool)],
) -> None:
    """Show one tool: its arguments, what it does to the world, its limits and examples."""
    from toolcrib.cli.choose import looking

    async with looking(terminal.crib) as crib:
        view = crib.catalog.view(("*",))
        found = find(view, tool)
        name = _model_names(view)[found.id]
        if terminal.json:
            terminal.data(described(crib, found, name))
        else:
            _show(terminal, crib, found, name)


def find(view: View, name: str) -> Tool:
    """The tool of that id or unambiguous name.

    Raises:
        Trouble: there is none, or more than one.
    """
    from toolcrib.schema import nearest

    if name in view.ambiguous:
        raise Trouble(f"'{name}' is ambiguous", f"say which: {', '.join(view.ambiguous[name])}")
    if name not in view.names:
        close = nearest(name, view.names)
        advice = f"did you mean {' or '.join(close)}?" if close else "`toolcrib tools list` shows what there is"
        raise Trouble(f"Unknown tool: {name}", advice, code="not_found")
    return view.names[name]


def described(crib: Crib, tool: Tool, model_name: str) -> dict[str, Any]:
    """A tool as JSON."""
    return {
        "id": tool.id,
        "name": tool.name,
        "namespace": tool.namespace,
        "model_name": model_name,
        "title": tool.title,
        "description": tool.description,
        "effect": tool.does,
        "annotations": None if tool.annotations is None else dataclasses.asdict(tool.annotations),
        "capabilities": list(tool.capabilities),
        "tags": list(tool.tags),
        "background": tool.background,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "limits": limits(crib, tool),
        "examples": [dataclasses.asdict(example) for example in tool.knowledge.examples],
        "source": tool.source,
        "fingerprint": tool.fingerprint,
        "warnings": list(tool.warnings),
    }


def limits(crib: Crib, tool: Tool) -> dict[str, Any]:
    """The bounds that hold for a tool: its own, else the crib's."""
    ours = crib.pipeline.limits
    own = dataclasses.asdict(tool.limits)
    own["timeout_s"] = own["timeout_s"] or ours.timeout_s
    own["output_bytes"] = own["output_bytes"] or ours.output_bytes
    return {name: value for name, value in own.items() if value is not None}


def says(tool: Tool) -> list[str]:
    """What a tool says about itself."""
    said = [] if tool.annotations is None else [n for n, value in dataclasses.asdict(tool.annotations).items() if value]
    others = {"background": tool.background, "isolated": tool.isolate, "run by the client": tool.run is None}
    return [*(name.replace("_", " ") for name in said), *(name for name, value in others.items() if value)]


def _row(tool: Tool) -> Sequence[Cell]:
    return (tool.id, (tool.does, EFFECTS[tool.does]), ", ".join(says(tool)), tool.description.partition("\n\n")[0])


def _mentions(tool: Tool, search: str) -> bool:
    text = " ".join((tool.id, tool.title or "", tool.description, *tool.tags)).lower()
    return all(word in text for word in search.lower().split())


def _model_names(view: View) -> dict[str, str]:
    return {tool.id: name for name, tool in view.model_names().items()}


def _show(terminal: Terminal, crib: Crib, tool: Tool, model_name: str) -> None:
    from toolcrib.cli.schemas import arguments, outline

    terminal.text(tool.id, "bold")
    terminal.text(f"{tool.description}\n")
    terminal.text(f"Effect        {tool.does}: {_EFFECTS_IN_WORDS[tool.does]}")
    for name, value in _facts(crib, tool, model_name):
        terminal.text(f"{name:<13} {value}")
    given = list(arguments(tool.input_schema))
    terminal.text("\nArguments" if given else "\nArguments     none", "bold")
    if given:
        rows = [(a.name, a.type, "yes" if a.required else "", a.default, a.description) for a in given]
        terminal.table(("Name", "Type", "Required", "Default", "Description"), rows, indent=2)
    if tool.output_schema is not None:
        terminal.text("Gives back", "bold")
        terminal.text(f"  {outline(tool.output_schema)}")
    _show_knowledge(terminal, tool)


def _facts(crib: Crib, tool: Tool, model_name: str) -> Iterator[tuple[str, str]]:
    if said := says(tool):
        yield "Says", ", ".join(said)
    yield "Model's name", model_name
    if tool.capabilities:
        yield "Needs", ", ".join(tool.capabilities)
    if tool.tags:
        yield "Tags", ", ".join(tool.tags)
    yield (
        "Limits",
        ", ".join(_LIMITS.get(name, f"{name} {{}}").format(value) for name, value in limits(crib, tool).items()),
    )
    yield "Source", tool.source
    for warning in tool.warnings:
        yield "Warning", warning


def _show_knowledge(terminal: Terminal, tool: Tool) -> None:
    if tool.knowledge.examples:
        terminal.text("\nExamples", "bold")
    for example in tool.knowledge.examples:
        terminal.text(f"  {terminal.command('call', tool.id, compact(dict(example.arguments)))}")
        if example.title or example.result is not None:
            terminal.text("    " + ": ".join(part for part in (example.title, _told(example.result)) if part), "dim")
    if tool.knowledge.anti_patterns:
        terminal.text("\nUsual mistakes", "bold")
    for wrong in tool.knowledge.anti_patterns:
        terminal.text(f"  {wrong.match}: {wrong.hint}")


def _told(result: Any) -> str:
    return "" if result is None else compact(result)
