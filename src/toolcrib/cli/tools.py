"""`toolcrib tools`: what the crib holds."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.completion import complete_shown, complete_tool
from toolcrib.cli.definitions import command_call, lint, migration, scaffold, tool_tests
from toolcrib.cli.definitions.selection import PackOption, RootOption, wanted
from toolcrib.cli.terminal import Cell, Choice, CommandError, Terminal, compact

if TYPE_CHECKING:
    from toolcrib.catalog import CatalogView
    from toolcrib.crib import Crib
    from toolcrib.tool import Tool

app = group("tools", "Look at the tools of a crib, and at definition files.")
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


@asynccontextmanager
async def stocked(choice: Choice) -> AsyncIterator[Crib]:
    """The crib with its sources alone, over an empty store, but with what its own store says of strangers' tools and of
    accounts, by which servers list their tools.
    """
    from toolcrib.cli.crib_choice import SOURCE_S, chosen
    from toolcrib.cli.questions import user
    from toolcrib.cli.store_choice import missing
    from toolcrib.review import start_findings
    from toolcrib.store import open_store

    crib = chosen(choice)
    problems = tuple(start_findings(crib))
    crib.origin = dataclasses.replace(crib.origin, findings=(*crib.origin.findings, *problems))
    if any(one.code == "NO_SECRET" for one in problems):
        crib.pipeline.vault.use(None)  # nothing secret is in an empty store
    kept, registry = crib.store, crib.registry
    async with AsyncExitStack() as stack:
        if (registry.pinned or crib.accounts.settings) and missing(kept) is None:
            await kept.start(crib.pipeline.worker)
            stack.push_async_callback(kept.close)
            registry.keep_in(kept)
            crib.accounts.keep_in(kept)
        crib.store = crib.pipeline.store = open_store("memory:")
        crib.pipeline.engine = None
        await stack.enter_async_context(crib)
        await registry.prepare(user(), SOURCE_S)
        yield crib


@command(app, "list")
async def list_tools(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    namespace: Annotated[list[str] | None, typer.Option("--namespace", "-n", help="Only these namespaces.")] = None,
    search: Annotated[
        str, typer.Option("--search", "-s", help="Only tools that mention all these words, and files that fit them.")
    ] = "",
    root: RootOption = None,
    pack: PackOption = None,
    every: Annotated[bool, typer.Option("--all", help="Also files that are shadowed, or hold no tool.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Start the servers of files, and ask what they have.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="How tools were used in the last 30 days.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 where a file has an error.")] = False,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="FILE", help="A registry of tools, for keywords and advice.")
    ] = None,
) -> int:
    """List the tools of the crib, and after them definition files.

    With --root or --pack the definition files of these alone.
    """
    from toolcrib.cli.definitions import tool_list

    files = wanted(terminal, root, pack)
    how = tool_list.ListOptions(every, live, stats, search, registry, namespace or ())
    definition_list = await tool_list.gathered(terminal, files, how)
    entries: list[dict[str, Any]] = []
    if tool_list.needs_crib(files, definition_list.definitions):
        entries = await _list_crib(terminal, namespace, search, definition_list.numbers)
    if terminal.json:
        advice = {"advice": definition_list.advice} if definition_list.advice else {}
        terminal.data({"tools": [*entries, *definition_list.entries], **advice})
    elif entries or definition_list.definitions:
        if entries and definition_list.definitions:
            terminal.text("")
        definition_list.show(terminal)
    else:
        terminal.say("No tool fits. Try it without --search and --namespace.")
    return 1 if strict and definition_list.broken else 0


async def _list_crib(
    terminal: Terminal, namespace: list[str] | None, search: str, numbers: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """The tools of the crib; a table of them unless all is JSON."""
    from toolcrib.cli.questions import user

    async with stocked(terminal.crib) as crib:
        view = crib.catalog.view(crib.catalog.resolve(namespace) if namespace else ("*",), user())
        tools = [tool for tool in view.tools if _mentions(tool, search)]
        if not terminal.json:  # the schemas of thousands of tools need not be made for it
            if tools:
                terminal.table(("Tool", "Effect", "Says", "What it does"), [_row(tool) for tool in tools])
            return [{"id": tool.id} for tool in tools]
        names = _model_names(view)
        entries = [described(crib, tool, names[tool.id]) for tool in tools]
    for entry in entries:
        if numbers is not None:
            entry["stats"] = numbers.get(entry["id"])
    return entries


@command(app, "show")
async def show_tool(
    terminal: Terminal,
    tool: Annotated[
        str,
        typer.Argument(
            metavar="TOOL", help="Its id, its bare name, or the id of a file.", autocompletion=complete_shown
        ),
    ],
    root: RootOption = None,
    pack: PackOption = None,
) -> int:
    """Show one tool, or one definition file.

    Of a tool: its arguments, what it does to the world, its limits and examples.

    Exit code 1 where there is none.
    """
    from toolcrib.cli.definitions import tool_list
    from toolcrib.cli.questions import user

    files = wanted(terminal, root, pack)
    others: Sequence[str] = ()
    if files.has_crib and not files.named:
        async with stocked(terminal.crib) as crib:
            view = crib.catalog.view(("*",), user())
            if tool in view.names or tool in view.ambiguous:
                match = find(view, tool)
                name = _model_names(view)[match.id]
                if terminal.json:
                    terminal.data({"ok": True, "tool": described(crib, match, name)})
                else:
                    _show(terminal, crib, match, name)
                return 0
            others = list(view.names)
    return await tool_list.show(terminal, files, tool, others)


@command(app, "accept")
async def accept_tools(
    terminal: Terminal,
    tools: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids, or bare names, of tools that changed.", autocompletion=complete_tool),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All tools that changed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Accept tools of strangers that changed. What is new about them is shown first.

    Cribs that run take notice. Exit code 1 where you say no.
    """
    from toolcrib.cli.crib_choice import SOURCE_S
    from toolcrib.cli.questions import user

    if bool(tools) is every:
        raise CommandError("Say which tools, or --all", "`toolcrib tools list` marks those that changed")
    async with stocked(terminal.crib) as crib:
        for owner in {account.owner for account in await crib.accounts.connected()}:
            await crib.registry.prepare(owner, SOURCE_S)
        view = crib.catalog.view(("*",))
        named = view.tools if every else [find(view, name) for name in tools or ()]
        changed = {tool.id: tool for tool in named if tool.changed}
        if not changed and crib.registry.pinned:
            _tell_accepted(terminal, ())
            return 0
        if not terminal.json:
            for tool in changed.values():
                _show_change(terminal, tool)
        if terminal.interactive and not yes and not await _agrees(terminal):
            return 1
        await crib.accept(*changed, actor=user())
        _tell_accepted(terminal, changed.values())
    return 0


async def _agrees(terminal: Terminal) -> bool:
    from toolcrib.cli.prompts import LeftOpen, pick

    try:
        return await pick(terminal, "Accept them as they are now?", {"y": "yes", "n": "no"}) == "y"
    except LeftOpen:
        return False


def _show_change(terminal: Terminal, tool: Tool) -> None:
    """What is new about a tool; how it looked before nobody keeps."""
    looks = {
        "description": " ".join(filter(None, (tool.title, tool.description))),
        "schema": compact({"input": tool.input_schema, "output": tool.output_schema}),
        "annotations": ", ".join(says(tool)) or "none",
    }
    terminal.text(f"{tool.id} changed its {' and its '.join(tool.changed)}", "bold yellow")
    for part in tool.changed:
        terminal.text(f"  {part} is now: {looks[part]}")


def _tell_accepted(terminal: Terminal, tools: Iterable[Tool]) -> None:
    entries: list[dict[str, Any]] = [{"id": tool.id, "changed": list(tool.changed)} for tool in tools]
    if terminal.json:
        terminal.data(entries)
    elif entries:
        terminal.text(f"Accepted: {', '.join(one['id'] for one in entries)}")
    else:
        terminal.say("Nothing changed since it was accepted.")


def find(view: CatalogView, name: str) -> Tool:
    """The tool of that id or unambiguous name.

    Raises:
        CommandError: there is none, or more than one.
    """
    from toolcrib.schema import nearest

    if name in view.ambiguous:
        raise CommandError(f"'{name}' is ambiguous", f"say which: {', '.join(view.ambiguous[name])}")
    if name not in view.names:
        close = nearest(name, view.names)
        advice = f"did you mean {' or '.join(close)}?" if close else "`toolcrib tools list` shows what there is"
        raise CommandError(f"Unknown tool: {name}", advice, code="not_found")
    return view.names[name]


def described(crib: Crib, tool: Tool, model_name: str) -> dict[str, Any]:
    """A tool as JSON."""
    from toolcrib.cli.definitions.tool_list import kind
    from toolcrib.origins.flow import labels_of, roles_of

    return {
        "id": tool.id,
        "type": kind(crib, tool),
        "name": tool.name,
        "namespace": tool.namespace,
        "model_name": model_name,
        "title": tool.title,
        "description": tool.description,
        "effect": tool.does,
        "annotations": None if tool.annotations is None else dataclasses.asdict(tool.annotations),
        "capabilities": list(tool.capabilities),
        "tags": list(tool.tags),
        "labels": [label for label, _ in labels_of(tool)],
        "roles": {name: role for name, role, _ in roles_of(tool)},
        "background": tool.background,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "limits": limits(crib, tool),
        "examples": [dataclasses.asdict(example) for example in tool.knowledge.examples],
        "source": tool.source,
        "trusted": tool.trusted,
        "vouched": tool.vouched,
        "changed": list(tool.changed),
        "fingerprint": tool.fingerprint,
        "warnings": list(tool.warnings),
    }


def limits(crib: Crib, tool: Tool) -> dict[str, Any]:
    """The bounds that hold for a tool: its own, else the crib's."""
    from toolcrib._session.repeated_calls import failures

    ours = crib.pipeline.limits
    own = dataclasses.asdict(tool.limits)
    own["timeout_s"] = own["timeout_s"] or ours.timeout_s
    own["output_bytes"] = own["output_bytes"] or ours.output_bytes
    own["repeat"] = None if tool.limits.repeat is None else failures(tool.limits.repeat)
    return {name: value for name, value in own.items() if value is not None}


def says(tool: Tool) -> list[str]:
    """What a tool says about itself."""
    annotations = (
        [] if tool.annotations is None else [n for n, value in dataclasses.asdict(tool.annotations).items() if value]
    )
    others = {"background": tool.background, "isolated": tool.isolate, "run by the client": tool.run is None}
    return [*(name.replace("_", " ") for name in annotations), *(name for name, value in others.items() if value)]


def _row(tool: Tool) -> Sequence[Cell]:
    what = tool.description.partition("\n\n")[0]
    last: Cell = (f"[changed its {' and its '.join(tool.changed)}] {what}", "yellow") if tool.changed else what
    return (tool.id, (tool.does, EFFECTS[tool.does]), ", ".join(says(tool)), last)


def _mentions(tool: Tool, search: str) -> bool:
    text = " ".join((tool.id, tool.title or "", tool.description, *tool.tags)).lower()
    return all(word in text for word in search.lower().split())


def _model_names(view: CatalogView) -> dict[str, str]:
    return {tool.id: name for name, tool in view.model_names().items()}


def _show(terminal: Terminal, crib: Crib, tool: Tool, model_name: str) -> None:
    from toolcrib.cli.display.schemas import arguments, outline

    terminal.text(tool.id, "bold")
    terminal.text(f"{tool.description}\n")
    terminal.text(f"Effect        {tool.does}: {_EFFECTS_IN_WORDS[tool.does]}")
    for name, value in _facts(crib, tool, model_name):
        terminal.text(f"{name:<13} {value}")
    parameters = list(arguments(tool.input_schema))
    terminal.text("\nArguments" if parameters else "\nArguments     none", "bold")
    if parameters:
        rows = [(a.name, a.type, "yes" if a.required else "", a.default, a.description) for a in parameters]
        terminal.table(("Name", "Type", "Required", "Default", "Description"), rows, indent=2)
    if tool.output_schema is not None:
        terminal.text("\nGives back", "bold")
        terminal.text(f"  {outline(tool.output_schema)}")
    _show_knowledge(terminal, tool)


def _facts(crib: Crib, tool: Tool, model_name: str) -> Iterator[tuple[str, str]]:
    if claims := says(tool):
        yield "Says", ", ".join(claims)
    yield "Model's name", model_name
    if tool.capabilities:
        yield "Needs", ", ".join(tool.capabilities)
    if tool.tags:
        yield "Tags", ", ".join(tool.tags)
    yield from _flow(tool)
    yield (
        "Limits",
        ", ".join(_LIMITS.get(name, f"{name} {{}}").format(value) for name, value in limits(crib, tool).items()),
    )
    yield "Source", tool.source if tool.trusted else f"{tool.source}, not trusted"
    if tool.changed:
        yield (
            "Changed",
            f"its {' and its '.join(tool.changed)} since it was accepted (`toolcrib tools accept {tool.id}`)",
        )
    for warning in tool.warnings:
        yield "Warning", warning


def _flow(tool: Tool) -> Iterator[tuple[str, str]]:
    """What rules about origins take a tool for, and what of it is a guess."""
    from toolcrib.origins.flow import labels_of, roles_of

    yield "Results", ", ".join(f"{label}{'' if declared else ' (guessed)'}" for label, declared in labels_of(tool))
    roles = [f"{name} {role}{'' if declared else ' (guessed)'}" for name, role, declared in roles_of(tool)]
    if roles:
        yield "Roles", ", ".join(roles)


def _show_knowledge(terminal: Terminal, tool: Tool) -> None:
    if tool.knowledge.examples:
        terminal.text("\nExamples", "bold")
    for example in tool.knowledge.examples:
        terminal.text(f"  {terminal.command('call', tool.id, compact(dict(example.arguments)))}")
        if example.title or example.result is not None:
            terminal.text(
                "    " + ": ".join(part for part in (example.title, _result_text(example.result)) if part), "dim"
            )
    if tool.knowledge.anti_patterns:
        terminal.text("\nUsual mistakes", "bold")
    for wrong in tool.knowledge.anti_patterns:
        terminal.text(f"  {wrong.match}: {wrong.hint}")


def _result_text(result: Any) -> str:
    return "" if result is None else compact(result)


# What works on definition files

for _name, _function in (
    ("lint", lint.lint),
    ("test", tool_tests.try_out),
    ("call", command_call.call),
    ("health", tool_tests.health),
    ("migrate", migration.migrate),
    ("rollback", migration.rollback),
    ("diff", migration.diff),
    ("new", scaffold.new),
):
    command(app, _name)(_function)
