"""What `toolcrib tools list` and `show` have of definition files, beside the tools of a crib."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.cli.definitions import selection, statistics
from toolcrib.cli.definitions.selection import DefinitionSelection
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toolcrib.crib import Crib
    from toolcrib.definitions.definition import ToolDefinition
    from toolcrib.definitions.library import UnresolvedTool
    from toolcrib.definitions.registry import Registry
    from toolcrib.definitions.source import FileSource
    from toolcrib.tool import Tool


class ListOptions(NamedTuple):
    """What a listing is to hold."""

    all: bool = False
    live: bool = False
    stats: bool = False
    search: str = ""
    registry: str | None = None
    namespaces: Sequence[str] = ()


class DefinitionList(NamedTuple):
    """Definition files, and how their tools were used if requested."""

    definitions: list[ToolDefinition]
    numbers: dict[str, Any] | None
    entries: list[dict[str, Any]]
    advice: list[dict[str, str]]

    @property
    def broken(self) -> bool:
        """True if there is an error in any file."""
        return any(problem.severity == "error" for one in self.definitions for problem in one.problems)

    def show(self, terminal: Terminal) -> None:
        """All of it for people."""
        if self.definitions:
            selection.table(terminal, self.definitions)
        if self.numbers is not None:
            statistics.show(terminal, self.numbers.items())
        for one in self.advice:
            terminal.text(f"Advice: {one['action']} {one['tool']}: {one['reason']}", "yellow")


async def gathered(terminal: Terminal, wanted: DefinitionSelection, how: ListOptions) -> DefinitionList:
    """The definition files that are wanted.

    Raises:
        CommandError: a root, or the registry, is not there.
        Refused: a pack is not there.
    """
    used = await statistics.usage(wanted) if how.stats else None
    async with selection.opened(wanted) as source:
        registry = _registry(terminal, source, how.registry)
        definitions = _searched(list(await source.list(all=how.all)), how, registry)
        if how.live:
            definitions = await asyncio.gather(*(selection.as_served(source, one) for one in definitions))
        numbers = None if used is None else used.numbers()
        entries = [selection.entry(one) for one in definitions]
        for one, data in zip(definitions, entries, strict=True):
            if numbers is not None:
                data["stats"] = statistics.stats(source, one, numbers)
    return DefinitionList(definitions, numbers, entries, [] if used is None else statistics.advised(used, registry))


def _registry(terminal: Terminal, source: FileSource, path: str | None) -> Registry | None:
    from toolcrib.definitions.registry import load

    if path is None:
        return source.registry
    if not Path(path).is_file():
        raise CommandError(f"There is no file {path}", "--registry takes a registry of tools")
    registry = load(Path(path))
    if registry.warning is not None and not terminal.json:
        terminal.say(registry.warning, "yellow")
    return registry


def _searched(definitions: list[ToolDefinition], how: ListOptions, registry: Registry | None) -> list[ToolDefinition]:
    """Those of the namespaces that fit the words, the best first."""
    from toolcrib.definitions.search import rank, subject

    if how.namespaces:
        definitions = [one for one in definitions if one.id.lower() in how.namespaces]
    if not how.search:
        return definitions
    subjects = {subject(one, None if registry is None else registry.entry(one.id)): one for one in definitions}
    return [subjects[best] for best in rank(how.search, subjects, len(subjects))]


def needs_crib(wanted: DefinitionSelection, definitions: Collection[ToolDefinition]) -> bool:
    """True if the tools of the crib are listed too; where there is none, files of the project or user are enough."""
    if wanted.named:
        return False
    if wanted.has_crib:
        return True
    shipped = selection.usual_roots(wanted.project)[-1].path
    return all(one.root == shipped for one in definitions)


def kind(crib: Crib, tool: Tool) -> str:
    """What a tool of a crib is: the type of its file, of a server, a function, or run by the client."""
    for type in ("mcp", "openapi"):
        if type in tool.metadata:
            return type
    if "definition" in tool.metadata:
        from toolcrib.definitions.source import FileSource

        files = [source for source in crib.registry.sources if isinstance(source, FileSource)]
        known = {one.id: one.type for source in files for one in source.definitions.values()}
        return known.get(tool.metadata["definition"]["id"]) or "file"
    return "client" if tool.run is None else "function"


# One of them


async def show(terminal: Terminal, wanted: DefinitionSelection, name: str, others: Collection[str] = ()) -> int:
    """Shows a definition, or one of its commands; `others` are names that could have been meant too."""
    from toolcrib.definitions.library import UnresolvedTool

    id, _, command = name.partition(".")
    async with selection.opened(wanted) as source:
        try:
            definition = await source.resolve(id or name)
            if command and definition.command(command) is None:
                raise no_command(definition, command)
        except UnresolvedTool as error:
            return _fail(terminal, error, name, others)
    if terminal.json:
        described = selection.whole(definition)
        chosen = definition.command(command)
        terminal.data(
            {"ok": True, "tool": described if chosen is None else {**described, "command": selection.as_data(chosen)}}
        )
    elif (chosen := definition.command(command)) is not None:
        selection.show_command(terminal, definition, chosen)
    else:
        selection.show(terminal, definition)
    return 0


def no_command(definition: ToolDefinition, command: str) -> UnresolvedTool:
    """That a file has no such command, and which was meant."""
    from toolcrib.definitions.library import UnresolvedTool
    from toolcrib.schema import nearest

    close = [f"{definition.id}.{name}" for name in nearest(command, [one.name for one in definition.commands])]
    meant = f" Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""
    return UnresolvedTool("not_found", f"Tool '{definition.id}' has no command '{command[:64]}'.{meant}", close)


def _fail(terminal: Terminal, error: UnresolvedTool, name: str, others: Collection[str]) -> int:
    """Says why nothing is shown; exit code 1."""
    from toolcrib.schema import nearest

    close = list(dict.fromkeys((*error.suggestions, *nearest(name, others))))[:3]
    if terminal.json:
        failure = {"code": error.code, "message": error.message, "hint": error.hint, "suggestions": close}
        terminal.data({"ok": False, "failure": failure})
        return 1
    new = [one for one in close if one not in error.suggestions]
    meant = f"did you mean {' or '.join(new)}?" if new else "`toolcrib tools list` shows what there is"
    terminal.trouble(CommandError(error.message, error.hint or meant))
    return 1
