"""Definition files as the command line finds and shows them: those of `--root` and `--pack`, else of the project."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from toolcrib.cli.completion import complete_definition
from toolcrib.cli.terminal import Cell, Choice, CommandError, Terminal, short

if TYPE_CHECKING:
    from toolcrib.cli.config.sources import Files
    from toolcrib.crib import Crib
    from toolcrib.definitions.definition import Command, ToolDefinition
    from toolcrib.definitions.roots import DefinitionRoot
    from toolcrib.definitions.source import FileSource
    from toolcrib.yaml import YamlProblem

RootOption = Annotated[
    list[str] | None,
    typer.Option("--root", metavar="DIR", help="Take the definition files of this folder alone, again for more."),
]
PackOption = Annotated[
    list[str] | None, typer.Option("--pack", metavar="NAME", help="The files of this pack come first, again for more.")
]
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Ids of tools.", autocompletion=complete_definition)
]
Target = Annotated[
    str, typer.Argument(metavar="ID|FILE", help="A tool, or its file.", autocompletion=complete_definition)
]

SHIPPED = Path(__file__).parents[2] / "definitions" / "shipped"
STATUSES = {"ok": "green", "degraded": "yellow", "invalid": "red", "not_a_tool": "dim"}
SEVERITIES = {"error": "red", "warning": "yellow", "info": "dim"}


class DefinitionSelection(NamedTuple):
    """Which definition files are meant: those of the crib and the usual places, unless roots or packs are named."""

    choice: Choice
    roots: Sequence[str] = ()
    packs: Sequence[str] = ()
    soft_checks: bool = False

    @property
    def named(self) -> bool:
        """True if roots or packs were named."""
        return bool(self.roots or self.packs)

    @property
    def has_crib(self) -> bool:
        """True if there is a crib, or somebody says so."""
        return self.choice.crib is not None or self.config is not None

    @property
    def project(self) -> Path:
        """The folder of the configuration file; without one, the working directory."""
        file = self.config
        return Path.cwd() if file is None else file.resolve().parent

    @property
    def config(self) -> Path | None:
        """The configuration file, if there is one."""
        from toolcrib.cli.config.document import NAME

        file = Path(self.choice.crib or NAME)
        return file if file.is_file() else None


def wanted(terminal: Terminal, root: Sequence[str] | None, pack: Sequence[str] | None) -> DefinitionSelection:
    """What the options say."""
    return DefinitionSelection(terminal.crib, root or (), pack or ())


@asynccontextmanager
async def opened(wanted: DefinitionSelection) -> AsyncIterator[FileSource]:
    """The definition files that are wanted, and let go of again.

    Raises:
        CommandError: a root is not there.
        Refused: a pack is not there.
    """
    source = source_of(wanted)
    try:
        yield source
    finally:
        await source.stop()


def source_of(wanted: DefinitionSelection) -> FileSource:
    """The same, for one who stops it."""
    from toolcrib.cli.config.sources import file_source

    return file_source(settings(wanted), wanted.project)


def settings(wanted: DefinitionSelection) -> Files:
    """All roots in their order, with what the configuration says of packs, values and the registry."""
    from toolcrib.cli.config.sources import Files
    from toolcrib.definitions.roots import DefinitionRoot, pack_roots, projects_of, rooted

    configured = _configured(wanted)
    own = rooted(DefinitionRoot(_root(root, wanted.project), soft_checks=wanted.soft_checks) for root in wanted.roots)
    trusted = tuple(name for files in configured for name in files.trusted_packs)
    places = [wanted.project, *projects_of(own)]
    first = [root for pack in dict.fromkeys(wanted.packs) for root in pack_roots(pack, places, trusted)]
    if not wanted.packs:
        first = [root for files in configured for pack in files.packs for root in _pack(pack, places, trusted)]
    usual = [root for files in configured for root in files.roots] + list(usual_roots(wanted.project))
    return Files(
        (*first, *(own or rooted(usual))),
        registry=next((files.registry for files in configured if files.registry is not None), None),
        values={id: values for files in configured for id, values in files.values.items()},
        workspace=next((files.workspace for files in configured), None),
    )


def unread(wanted: DefinitionSelection) -> list[str]:
    """What keeps sources of the configuration from being read, each with its line."""
    from toolcrib.cli.config.loader import unread_sources

    config = wanted.config
    return [] if config is None else [f"{config.name}:{one.place}: {one.message}" for one in unread_sources(config)]


def _pack(pack: str, places: list[Path], trusted: Sequence[str]) -> Sequence[DefinitionRoot]:
    """The folders of a pack that the configuration names; where there is none, loading the crib says so."""
    from toolcrib.definitions.roots import pack_roots
    from toolcrib.errors import Refused

    try:
        return pack_roots(pack, places, trusted)
    except Refused:
        return ()


def usual_roots(project: Path) -> tuple[DefinitionRoot, ...]:
    """Where files are looked for that nobody named: in the project, in the user's configuration, in the package."""
    from toolcrib.definitions.roots import default_roots

    user = Path(typer.get_app_dir("toolcrib")).parent
    return default_roots(project, user, SHIPPED)


def _configured(wanted: DefinitionSelection) -> list[Files]:
    from toolcrib.cli.config.loader import files

    if wanted.config is not None:
        return files(wanted.config)
    return [] if wanted.choice.crib is None or wanted.roots else _of_object(wanted.choice)


def _of_object(choice: Choice) -> list[Files]:
    from toolcrib.cli.config.sources import Files
    from toolcrib.cli.crib_choice import chosen
    from toolcrib.definitions.source import FileSource

    crib = chosen(choice)
    place = Path(crib.folders.workspace)
    sources = [source for source in crib.registry.sources if isinstance(source, FileSource)]
    return [Files(source.library.roots, workspace=place) for source in sources]


def _root(text: str, project: Path) -> Path:
    path = project / Path(text).expanduser()
    if not path.exists():
        raise CommandError(f"There is no folder {path}", "a relative --root starts at the folder of crib.yaml")
    return path


def crib_of(wanted: DefinitionSelection) -> Crib:
    """The crib that is chosen; where there is none, an empty one."""
    from toolcrib.cli.crib_choice import chosen
    from toolcrib.crib import Crib

    store = wanted.choice.store or "memory:"
    return chosen(wanted.choice) if wanted.has_crib else Crib(store=store, workspace=wanted.project)


# What they hold


async def resolved(source: FileSource, ids: Iterable[str] | None) -> list[ToolDefinition]:
    """The usable definitions of these ids, or all that there are.

    Raises:
        CommandError: there is none of an id.
    """
    from toolcrib.definitions.library import UnresolvedTool

    if not ids:
        return [one for one in await source.list() if one.status in ("ok", "degraded")]
    results = await source.resolve_many(ids)
    for one in results.values():
        if isinstance(one, UnresolvedTool):
            raise CommandError(
                one.message, one.hint or "`toolcrib tools list` shows what there is", exit_code=1, code=one.code
            )
    return [one for one in results.values() if not isinstance(one, UnresolvedTool)]


async def path_of(source: FileSource, target: str) -> Path:
    """The file that somebody named: by its path, or by the id of its tool, which may be invalid.

    Raises:
        CommandError: there is none.
    """
    if is_path(target):
        return there(target)
    for one in await source.list():
        if one.id == target and one.path is not None:
            return one.path
    [definition] = await resolved(source, [target])
    raise CommandError(f"'{definition.id}' has no file", "name a definition file")


def there(target: str) -> Path:
    """A file, or folder, that somebody named.

    Raises:
        CommandError: it is not there.
    """
    path = Path(target).absolute()
    if not path.exists():
        raise CommandError(f"There is no file {target}", "name a definition file, or the id of a tool")
    return path


def is_path(target: str) -> bool:
    """True if it names a file or folder, and no tool."""
    return "/" in target or target.endswith((".yaml", ".yml", ".json")) or Path(target).exists()


async def as_served(source: FileSource, definition: ToolDefinition) -> ToolDefinition:
    """The definition with the commands that its server has, which is started for that."""
    from toolcrib.definitions.definition import Command
    from toolcrib.errors import ToolFailure
    from toolcrib.yaml import YamlProblem

    if definition.type != "mcp" or definition.status not in ("ok", "degraded"):
        return definition
    try:
        made = await source.live(definition.id)
    except ToolFailure as error:
        problem = YamlProblem("UNAVAILABLE", "warning", error.message, fix=error.hint)
        return dataclasses.replace(definition, problems=(*definition.problems, problem))
    served = tuple(definition.command(tool.name) or Command(tool.name, tool.description) for tool in made)
    return dataclasses.replace(await source.resolve(definition.id), commands=served)


# As data


def entry(definition: ToolDefinition) -> dict[str, Any]:
    """A definition in a list."""
    return {
        "id": definition.id,
        "type": definition.type,
        "version": definition.version,
        "schema_version": definition.schema_version,
        "status": definition.status,
        "commands": [command.name for command in definition.commands if command.broken is None],
        "path": None if definition.path is None else str(definition.path),
        "shadows": [str(path) for path in definition.shadows],
        "problems": [dataclasses.asdict(problem) for problem in definition.problems],
    }


def whole(definition: ToolDefinition) -> dict[str, Any]:
    """A definition with all that its file says, keys that nobody knows included.

    What the file says at a key that tells something else here stands in `written`.
    """
    from toolcrib.yaml import thaw

    written = thaw(definition.tool)
    described = {
        **entry(definition),
        "reason": definition.reason,
        "trusted": definition.trusted,
        "sha256": definition.sha256,
        "commands": [as_data(command) for command in definition.commands],
        "extra": thaw(definition.extra),
    }
    return {**written, **described, "written": {key: written[key] for key in (*described, "written") if key in written}}


def as_data(command: Command) -> dict[str, Any]:
    """A command with all that its file says of it."""
    from toolcrib.yaml import thaw

    return {
        **thaw(command.fields),
        "name": command.name,
        "description": command.description,
        "input_schema": thaw(command.input_schema),
        "effect": command.effect,
        "broken": command.broken,
    }


# In words


def near(path: Path | None) -> str:
    """A path as somebody would type it here: from the working directory on, where it lies below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path is not None and path.is_relative_to(here) else path)


def table(terminal: Terminal, definitions: Sequence[ToolDefinition]) -> None:
    """A line for each definition, and below what is wrong with them."""
    columns = ("Id", "Type", "Version", "Schema", "Status", "Commands", "File")
    terminal.table(columns, [_row(one) for one in definitions])
    for one in definitions:
        for problem in one.problems:
            if problem.severity == "error":
                terminal.text(problem_line(one, problem), SEVERITIES[problem.severity])


def _row(one: ToolDefinition) -> Sequence[Cell]:
    status = one.status if one.trusted else f"{one.status}, not trusted"
    shadowing = f" (replaces {', '.join(map(str, one.shadows))})" if one.shadows else ""
    names = short(", ".join(command.name for command in one.commands if command.broken is None), 60)
    return (
        one.id,
        one.type or "?",
        one.version,
        str(one.schema_version),
        (status, STATUSES[one.status]),
        names,
        f"{near(one.path)}{shadowing}",
    )


def problem_line(definition: ToolDefinition, problem: YamlProblem) -> str:
    """A problem in one line, with its place and what would mend it."""
    file = near(definition.path)
    place = f"{file}:{problem.line}:{problem.column}" if problem.line else file
    fix = f" ({problem.fix})" if problem.fix else ""
    return f"{place}: {problem.severity} {problem.code}: {problem.message}{fix}"


def show(terminal: Terminal, definition: ToolDefinition) -> None:
    """A definition for people."""
    from toolcrib.definitions.knowledge import topics

    terminal.text(f"{definition.id} {definition.version}", "bold")
    terminal.text(f"{definition.name}: {definition.description}\n")
    trust = "" if definition.trusted else ", not trusted"
    facts = {
        "Type": definition.type or "?",
        "Status": f"{definition.status}{trust}",
        "Schema": f"{definition.schema_version} ({definition.reason})",
        "File": near(definition.path),
        "Replaces": ", ".join(map(str, definition.shadows)),
        "Validators": ", ".join(one.id for one in definition.validators),
        "Helpers": ", ".join(one.id for one in definition.helpers),
        "Processors": ", ".join(one.id for one in definition.processors),
        "Topics": ", ".join(topics(definition)),
    }
    for name, value in facts.items():
        if value:
            terminal.text(f"{name:<13} {value}")
    if definition.commands:
        terminal.text("\nCommands", "bold")
        rows = [
            (f"{definition.id}.{one.name}", one.effect or "", one.broken or one.description)
            for one in definition.commands
        ]
        terminal.table(("Command", "Effect", "What it does"), rows, indent=2)
    for problem in definition.problems:
        terminal.text(problem_line(definition, problem), SEVERITIES[problem.severity])


def show_command(terminal: Terminal, definition: ToolDefinition, command: Command) -> None:
    """A command for people: its arguments, and what is known of it."""
    from toolcrib.cli.display.schemas import arguments
    from toolcrib.definitions.knowledge import tool_help
    from toolcrib.yaml import thaw

    terminal.text(f"{definition.id}.{command.name}", "bold")
    terminal.text(command.description or f"A command of {definition.name}")
    parameters = list(arguments(thaw(command.input_schema) or {}))
    if parameters:
        rows = [(one.name, one.type, "yes" if one.required else "", one.default, one.description) for one in parameters]
        terminal.table(("Name", "Type", "Required", "Default", "Description"), rows, indent=2)
    names = [one.name for one in parameters]
    terminal.text(f"\n{tool_help(definition, command.name, parameters=names)}")
