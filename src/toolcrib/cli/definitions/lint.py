"""`toolcrib tools lint`: all that is wrong with definition files, each thing with its place and what would mend it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.completion import complete_definition
from toolcrib.cli.definitions import selection
from toolcrib.cli.definitions.selection import DefinitionSelection, PackOption, RootOption
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.definitions.definition import ToolDefinition

_WORDS = {"error": "error", "warning": "warning", "info": "remark"}


async def lint(
    terminal: Terminal,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|ID", help="Files, folders or ids; without them all.", autocompletion=complete_definition
        ),
    ] = None,
    root: RootOption = None,
    pack: PackOption = None,
) -> int:
    """Check definition files. Nothing is called, and no server is started.

    Exit code 1 where there is an error, or `sources` of crib.yaml cannot be read; warnings are none.
    """
    wanted = selection.wanted(terminal, root, pack)
    unread = selection.unread(wanted) if not (targets or root) else []
    if unread:
        terminal.say("\n".join(("Definition files that these name are not checked:", *unread)), "yellow")
    definitions = await _looked_at(wanted, targets or ())
    errors = bool(unread) or any(problem.severity == "error" for one in definitions for problem in one.problems)
    if terminal.json:
        terminal.data({"files": [_data(one) for one in definitions]})
    else:
        _show(terminal, definitions)
    return 1 if errors else 0


async def _looked_at(wanted: DefinitionSelection, targets: Sequence[str]) -> list[ToolDefinition]:
    """The definitions in these files and folders, and of these ids; without any, all.

    A file without a tool is reported only if it was named.
    """
    from toolcrib.definitions.library import UnresolvedTool

    paths_and_ids = [selection.there(one) if selection.is_path(one) else one for one in targets]
    single = {one for one in paths_and_ids if isinstance(one, Path) and one.is_file()}
    async with selection.opened(wanted) as source:
        try:
            definitions = await source.lint(*paths_and_ids)
        except UnresolvedTool as error:
            close = f"did you mean {' or '.join(error.suggestions)}?" if error.suggestions else "name a file, or its id"
            raise CommandError(error.message, close, exit_code=1, code=error.code) from None
        except OSError as error:
            raise CommandError(f"It cannot be read: {error}", "check its permissions", exit_code=1) from None
    return [one for one in definitions if one.status != "not_a_tool" or one.path in single]


def _data(one: ToolDefinition) -> dict[str, Any]:
    return {
        "path": str(one.path),
        "id": one.id,
        "status": one.status,
        "schema_version": one.schema_version,
        "reason": one.reason,
        "problems": [dataclasses.asdict(problem) for problem in one.problems],
    }


def _show(terminal: Terminal, definitions: Sequence[ToolDefinition]) -> None:
    counts: Counter[str] = Counter()
    for one in definitions:
        if one.status == "not_a_tool":
            terminal.text(f"{one.path}: holds no tool", "dim")
        for problem in one.problems:
            counts[problem.severity] += 1
            terminal.text(selection.problem_line(one, problem), selection.SEVERITIES[problem.severity])
    summary = ", ".join(_counted(counts[name], word) for name, word in _WORDS.items() if counts[name])
    style = "red" if counts["error"] else "green"
    terminal.text(f"{_counted(len(definitions), 'definition file')}: {summary or 'nothing is wrong'}", style)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
