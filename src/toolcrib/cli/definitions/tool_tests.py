"""`toolcrib tools test` and `health`: whether definition files do what they say, and whether their tools are well."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.definitions import selection
from toolcrib.cli.definitions.selection import DefinitionSelection, Ids, PackOption, RootOption
from toolcrib.cli.terminal import CommandError, Terminal, short

if TYPE_CHECKING:
    from toolcrib.crib import Crib
    from toolcrib.definitions.definition import ToolDefinition
    from toolcrib.definitions.examples import CommandExample, ExampleReport
    from toolcrib.definitions.source import FileSource
    from toolcrib.session import Session
    from toolcrib.tool import Tool
    from toolcrib.types import Result

HEALTH = {"healthy": "green", "unhealthy": "red", "unknown": "yellow"}


async def try_out(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    ids: Ids = None,
    live: Annotated[
        bool, typer.Option("--live", help="Run the examples against the real tools, those that only read.")
    ] = False,
    allow_effects: Annotated[
        bool, typer.Option("--allow-effects", help="With --live: also those that change something.")
    ] = False,
    cases: Annotated[
        str | None, typer.Option("--cases", metavar="FILE.jsonl", help="Replay recorded cases instead of the examples.")
    ] = None,
    soft_checks: Annotated[
        bool,
        typer.Option(
            "--soft-checks", help="With --root or --cases: let checks beside a function only warn, as others did."
        ),
    ] = False,
    root: RootOption = None,
    pack: PackOption = None,
) -> int:
    """Test definition files by their examples.

    They are held against the validators; those accepted run against a stand-in that answers as they say.
    With --live, questions of the policy are answered with yes; what it denies stays denied. Exit code 1 where an
    example does not go as it says.
    """
    if allow_effects and not live:
        raise CommandError("--allow-effects is for real tools", "say --live too")
    wanted = selection.wanted(terminal, root, pack)._replace(soft_checks=soft_checks)
    recorded = None if cases is None else _recorded(cases)
    async with AsyncExitStack() as stack:
        if recorded is not None:
            source = await stack.enter_async_context(selection.opened(wanted))
            reports = await _replayed(source, recorded, ids or (), soft_checks)
        elif live:
            source = selection.source_of(wanted)
            crib = await stack.enter_async_context(in_memory(wanted, source))
            reports = [await _live(crib, source, one, allow_effects) for one in await selection.resolved(source, ids)]
        else:
            source = await stack.enter_async_context(selection.opened(wanted))
            reports = [await _stood_in(source, one) for one in await selection.resolved(source, ids)]
    if terminal.json:
        terminal.data({"tools": [report.data() for report in reports]})
    else:
        _show(terminal, reports)
    return 1 if any(report.failed for report in reports) else 0


async def health(terminal: Terminal, ids: Ids = None, root: RootOption = None, pack: PackOption = None) -> int:
    """Look whether the tools of definition files are well. They are really asked.

    Exit code 1 where one is not.
    """
    if not terminal.debug:  # the table says it
        logging.getLogger("toolcrib.files").setLevel(logging.ERROR)
    async with selection.opened(selection.wanted(terminal, root, pack)) as source:
        definitions = await selection.resolved(source, ids)
        reports = await asyncio.gather(*(source.health(one.id) for one in definitions))
    if terminal.json:
        terminal.data({"tools": [report.data() for report in reports]})
    else:
        rows = [(one.id, (one.status, HEALTH[one.status]), one.level or "", one.reason) for one in reports]
        terminal.table(("Id", "Status", "Level", "Why"), rows)
    return 1 if any(report.status == "unhealthy" for report in reports) else 0


# Cribs for that


def crib_with(wanted: DefinitionSelection, source: FileSource) -> Crib:
    """The crib that is chosen, or an empty one, with the source instead of the definition files that it has."""
    from toolcrib.definitions.source import FileSource

    crib = selection.crib_of(wanted)
    others = [one for one in crib.registry.sources if not isinstance(one, FileSource)]
    crib.registry.sources = [*others, source]
    return crib


def in_memory(wanted: DefinitionSelection, source: FileSource) -> Crib:
    """The same over an empty store."""
    from toolcrib.store import open_store

    crib = crib_with(wanted, source)
    crib.store = crib.pipeline.store = open_store("memory:")
    crib.pipeline.engine = None
    return crib


# Examples


async def _stood_in(source: FileSource, definition: ToolDefinition) -> ExampleReport:
    """The examples with a stand-in for the tool, which answers as they say."""
    from toolcrib.crib import Crib
    from toolcrib.definitions import tool_builder

    tools = {tool.name: tool for tool in tool_builder.tools(definition, source.resources)}

    async def run(example: CommandExample) -> str | None:
        if example.command not in tools:
            return None
        tool = _stand_in(source, definition, tools[example.command], example)
        async with Crib([tool]) as crib:
            return _reason(
                example, await _called(await crib.open("s", owner="test", namespaces=("*",)), tool.id, example)
            )

    return await source.test(definition.id, run)


def _stand_in(source: FileSource, definition: ToolDefinition, tool: Tool, example: CommandExample) -> Tool:
    """The tool, with the answer of an example instead of what it really does; what shapes results stays."""
    from toolcrib.definitions import transforms
    from toolcrib.errors import ToolFailure
    from toolcrib.yaml import thaw

    async def run(ctx: Any, values: Any) -> Any:
        recorded = example.fields
        if "error" in recorded:
            raise ToolFailure("failed", example.message or "It failed", retryable=False)
        shaped = await transforms.after(definition, tool.name, thaw(recorded.get("output")), source.sandboxes)
        if shaped.warnings:
            raise ToolFailure("failed", shaped.warnings[0], retryable=False)
        return shaped.data

    plain: dict[str, Any] = {
        "effect": "read",
        "capabilities": (),
        "trusted": True,
        "source": "files",
        "renew": None,
        "resumes": False,
    }
    return tool.but(run=run, **plain)


async def _live(crib: Crib, source: FileSource, definition: ToolDefinition, effects: bool) -> ExampleReport:
    """The examples with the real tool."""
    from toolcrib.cli.questions import user
    from toolcrib.errors import ToolFailure

    try:
        tools = {tool.name: tool for tool in await source.live(definition.id)}
    except ToolFailure as error:
        raise CommandError(error.message, error.hint or "`toolcrib tools health` looks at it", exit_code=1) from None

    async def run(example: CommandExample) -> str | None:
        tool = tools.get(example.command)
        if tool is None or (tool.does != "read" and not effects):
            return None
        session = await crib.open(crib.pipeline.new_id(), owner=user(), namespaces=("*",))
        return _reason(example, await _called(session, tool.id, example))

    return await source.test(definition.id, run)


async def _called(session: Session, tool: str, example: CommandExample) -> Result:
    """Return the result of a call; its confirmations are accepted."""
    from toolcrib.cli.questions import user
    from toolcrib.types import By
    from toolcrib.yaml import thaw

    call = await session.submit(tool, thaw(example.input), by=By("user", user()))
    async for event in session.events():
        if event.kind == "waiting":
            question = event.fields["question"]
            await session.answer(question["id"], "accept" if question["kind"] == "confirm" else "decline", actor=user())
        if event.kind == "done" and event.call == call.id:
            break
    return await session.result(call.id)


def _reason(example: CommandExample, result: Result) -> str | None:
    """Why a call did not end as its example says."""
    failure = result.failure
    if "error" not in example.fields:
        return None if failure is None else f"{failure.code}: {failure.message}"
    if failure is None:
        return f"it succeeded, but it must fail: {example.message}"
    return None if example.message in failure.message else f"it failed otherwise than told: {failure.message}"


# Recorded cases


def _recorded(name: str) -> list[dict[str, Any]]:
    try:
        lines = Path(name).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Cannot read {name}: {error}", "--cases takes a file with a JSON object a line") from None
    cases = []
    for number, line in enumerate(lines, 1):
        try:
            case = json.loads(line) if line.strip() else None
        except ValueError as error:
            raise CommandError(f"{name}:{number}: this is no JSON: {error}", "write a JSON object a line") from None
        if case is not None and not isinstance(case, dict):
            raise CommandError(f"{name}:{number}: expected a JSON object, got {short(line, 40)}", "write one a line")
        cases += [case] if case is not None else []
    return cases


async def _replayed(
    source: FileSource, cases: list[dict[str, Any]], ids: Sequence[str], soft_checks: bool
) -> list[ExampleReport]:
    """The cases by tool; those that bring their own definition go by an empty id."""
    from toolcrib.definitions.definition import ToolDefinition
    from toolcrib.definitions.examples import replay

    named = list(dict.fromkeys(str(case.get("tool") or "") for case in cases))
    known = await source.resolve_many(name for name in named if name)
    usable = {id: one for id, one in known.items() if isinstance(one, ToolDefinition)}
    reports = []
    for name in named if not ids else [name for name in named if name in ids]:
        some = [case for case in cases if str(case.get("tool") or "") == name]
        reports.append(replace(await replay(some, usable.get, source.sandboxes, soft_checks=soft_checks), id=name))
    return reports


def _show(terminal: Terminal, reports: Sequence[ExampleReport]) -> None:
    for report in reports:
        for failed in report.failed:
            terminal.text(f"✗ {report.id}.{failed.command} {failed.scenario}: {failed.reason}", "red")
        for validator in report.untouched:
            terminal.text(f"  {report.id}: no example touches the validator {validator}", "yellow")
        for slow in report.slow:
            terminal.text(f"  {report.id}: {slow}", "yellow")
    rows = [
        (one.id, str(one.passed), (str(len(one.failed)), "red" if one.failed else ""), str(one.unchecked))
        for one in reports
    ]
    terminal.table(("Id", "Passed", "Failed", "Unchecked"), rows)
