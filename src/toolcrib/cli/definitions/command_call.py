"""`toolcrib tools call`: a command of a definition file called for real, or only its checks, or one of its helpers."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.completion import complete_definition, complete_session
from toolcrib.cli.definitions import selection
from toolcrib.cli.definitions.selection import DefinitionSelection, PackOption, RootOption
from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.crib import Crib
    from toolcrib.definitions.definition import ToolDefinition
    from toolcrib.definitions.source import FileSource
    from toolcrib.tool import Tool


async def call(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    tool: Annotated[str, typer.Argument(metavar="ID.COMMAND", autocompletion=complete_definition)],
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="The arguments.")] = None,
    args_file: Annotated[
        str | None, typer.Option("--args-file", metavar="FILE", help="A file with the arguments; - is stdin.")
    ] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the arguments.")] = False,
    helper: Annotated[str | None, typer.Option("--helper", help="Run this helper of ID instead of a command.")] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", "-s", help="Go on in this session, or name it.", autocompletion=complete_session),
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Whose session it is; without it yours.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept confirmations.")] = False,
    root: RootOption = None,
    pack: PackOption = None,
) -> int:
    """Call a command of a definition file. It runs in a session, as with `toolcrib call`.

    Exit codes: 0 it succeeded, 1 it failed, 2 it was not called, 3 it waits for an answer.
    """
    arguments = _arguments(args, args_file)
    wanted = selection.wanted(terminal, root, pack)
    id, _, command = tool.partition(".")
    if helper is not None:
        return await _help(terminal, wanted, id, helper, arguments)
    if not command:
        advice = f"`{terminal.command('tools', 'show', id)}` shows the commands; a helper needs --helper"
        raise CommandError(f"'{tool}' names no command", f"say {id}.COMMAND: {advice}")
    if validate_only:
        return await _validate(terminal, wanted, id, command, arguments)
    return await _call(terminal, wanted, (id, command), arguments, (session, owner, yes))


def _arguments(text: str | None, file: str | None) -> dict[str, Any]:
    from toolcrib.cli.calls import read_object

    if text is not None and file is not None:
        raise CommandError("--args and --args-file are two ways to say the same", "leave one out")
    if file is None:
        return read_object(text, "--args")
    try:
        content = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Cannot read {file}: {error}", "--args-file takes a file with a JSON object") from None
    return read_object(content, "--args-file")


async def _help(terminal: Terminal, wanted: DefinitionSelection, id: str, helper: str, data: Mapping[str, Any]) -> int:
    from toolcrib.definitions.library import UnresolvedTool
    from toolcrib.errors import ToolFailure

    async with selection.opened(wanted) as source:
        try:
            value = await source.helper(id, helper, data)
        except (ToolFailure, UnresolvedTool) as error:
            fault = error.metadata.get("fault", error.code) if isinstance(error, ToolFailure) else error.code
            if terminal.json:
                terminal.data({"ok": False, "fault": fault, "message": error.message})
            else:
                terminal.trouble(
                    CommandError(error.message, error.hint or f"see {terminal.command('tools', 'show', id)}")
                )
            return 1
    if terminal.json:
        terminal.data({"ok": True, "value": value})
    else:
        terminal.pretty(value)
    return 0


# Only the checks


async def _validate(
    terminal: Terminal, wanted: DefinitionSelection, id: str, command: str, data: Mapping[str, Any]
) -> int:
    async with selection.opened(wanted) as source:
        [definition] = await selection.resolved(source, [id])
        report = await _checked(source, definition, command, data)
    if terminal.json:
        terminal.data(report)
    else:
        for finding in report["findings"]:
            where = f"{finding['path']}: " if finding["path"] else ""
            terminal.text(f"{finding['severity']}: {where}{finding['message']}", selection.SEVERITIES["error"])
        for note in report["notes"]:
            terminal.say(note, "dim")
        terminal.text("valid" if report["valid"] else "not valid", "green" if report["valid"] else "red")
    return 0 if report["valid"] else 1


async def _checked(
    source: FileSource, definition: ToolDefinition, command: str, data: Mapping[str, Any]
) -> dict[str, Any]:
    """What stands before a call: the processors, the schema, the checks and validators."""
    import msgspec

    from toolcrib.definitions import tool_builder, transforms, validators
    from toolcrib.definitions.argument_checks import ArgumentFinding
    from toolcrib.errors import ToolFailure
    from toolcrib.schema import BadArguments

    tool = next((one for one in tool_builder.tools(definition, source.resources) if one.name == command), None)
    if tool is None and definition.command(command) is None:
        raise _no_command(definition, command)
    try:
        shaped = await transforms.before(definition, command, data, source.sandboxes)
        if tool is not None:
            tool.parse(msgspec.json.encode(shaped))
        verdict = await source.validate(definition.id, command, shaped)
    except ToolFailure as error:
        verdict = validators.ValidationVerdict((ArgumentFinding("", error.code, error.message),))
    except BadArguments as error:
        verdict = validators.ValidationVerdict(validators.schema_findings(error))
    findings = [finding.data() for finding in verdict.findings]
    return {
        "valid": verdict.valid,
        "findings": findings,
        "duration_ms": verdict.duration_ms,
        "notes": list(verdict.notes),
    }


def _no_command(definition: ToolDefinition, command: str) -> CommandError:
    from toolcrib.cli.definitions.tool_list import no_command

    missing = no_command(definition, command)
    return CommandError(
        missing.message, f"`toolcrib tools show {definition.id}` shows them", exit_code=1, code=missing.code
    )


# A call


async def _call(
    terminal: Terminal,
    wanted: DefinitionSelection,
    named: tuple[str, str],
    data: Mapping[str, Any],
    how: tuple[str | None, str | None, bool],
) -> int:
    from toolcrib.cli.call_follower import follow
    from toolcrib.cli.calls import open_session
    from toolcrib.cli.definitions.tool_tests import crib_with
    from toolcrib.cli.questions import user
    from toolcrib.types import By

    session, owner, yes = how
    source = selection.source_of(wanted)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(source.stop)
        [definition] = await selection.resolved(source, [named[0]])
        crib = crib_with(wanted, source)
        if crib.pipeline.engine is not None:
            crib.pipeline.engine.works = False
        await stack.enter_async_context(crib)
        tool = await _issued(crib, source, definition, named[1])
        opened = await open_session(crib, session, owner, None)
        called = await opened.submit(tool.id, dict(data), by=By("user", user()))
        return await follow(terminal, opened, called.id, yes=yes)


async def _issued(crib: Crib, source: FileSource, definition: ToolDefinition, command: str) -> Tool:
    """Return the tool of a command; a server may know more commands than its file."""
    from toolcrib.errors import ToolFailure

    id = f"{definition.id.lower()}.{command}"
    tool = crib.catalog.view(("*",)).names.get(id)
    if tool is None and definition.type == "mcp":
        try:
            await source.live(definition.id)
        except ToolFailure as error:
            raise CommandError(
                error.message, error.hint or "`toolcrib tools health` looks at it", exit_code=1
            ) from None
        tool = crib.catalog.view(("*",)).names.get(id)
    if tool is None:
        raise _no_command(definition, command)
    return tool
