"""`toolcrib install` and `uninstall`: a crib in the configuration of a desktop client or a coding agent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from toolcrib.cli.terminal import Choice, CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.cli.clients.catalog import ClientProgram, HookSettings, Launch
    from toolcrib.cli.clients.launch import Target
    from toolcrib.cli.clients.settings_file import SettingsFile

ClientArgument = Annotated[str, typer.Argument(metavar="CLIENT", help="Whose configuration, such as claude-code.")]
NameOption = Annotated[str | None, typer.Option("--name", help="What the client calls the server.")]
ProjectOption = Annotated[bool, typer.Option("--project", help="In the files of this folder, not in yours.")]


class Wish(NamedTuple):
    """What a person wants of an installation."""

    guard: bool
    project: bool
    name: str | None
    env: Sequence[str]
    values: bool


async def install(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    client: ClientArgument,
    guard: Annotated[
        bool, typer.Option("--guard", help="Install the guard as its hooks, in place of the server.")
    ] = False,
    project: ProjectOption = False,
    name: NameOption = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME", help="A variable that the server gets, by its name.")
    ] = None,
    values: Annotated[bool, typer.Option("--values", help="Write the values of variables, not their names.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Print what would be written, and write nothing.")] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not try whether it starts.")] = False,
) -> int:
    """Write the crib into the configuration of a client.

    What is there stays, with a backup beside it. It is tried first, as the client would start it; exit code 1 where it
    does not start, and nothing is written then.
    """
    from toolcrib.cli.clients.launch import target

    wish = Wish(guard, project, name, env or (), values)
    one, where = _client(client), target(terminal.crib, name)
    plan = _hook_plan(client, one, where, wish) if guard else _server_plan(one, where, wish)
    if show:
        _print(terminal, plan)
        return 0
    _warn(terminal, one, plan)
    tried = None if no_check else await _try(plan, one, terminal.crib)
    backup = plan.apply()
    if terminal.json:
        terminal.data(plan.report() | {"backup": str(backup) if backup else None, "tried": tried})
        return 0
    terminal.text(f"Added {plan.what} to {plan.path}", "green")
    if backup:
        terminal.say(f"What was there is in {backup}", "dim")
    for line in filter(None, (tried, plan.note)):
        terminal.say(line, "dim")
    return 0


async def uninstall(
    terminal: Terminal, client: ClientArgument, project: ProjectOption = False, name: NameOption = None
) -> int:
    """Take what `toolcrib install` wrote out of a client.

    With --crib only that crib, else every one. Where nothing else has changed, the file is as it was before.
    """
    one = _client(client)
    crib = None if terminal.crib.crib is None else _real(terminal.crib.crib)
    changed = {str(path): how for path, how in _removals(one, crib, name, project)}
    if terminal.json:
        terminal.data({"client": client, "files": changed})
    elif not changed:
        terminal.say(f"{one.title} has nothing of Toolcrib.")
    words = {"removed": "was made for it, and is gone", "restored": "is as it was before", "changed": "is without it"}
    for path, how in {} if terminal.json else changed.items():
        terminal.text(f"{path} {words[how]}", "green")
    return 0


def _real(path: str) -> str:
    return str(Path(path).resolve()) if Path(path).exists() else path


def _client(name: str) -> ClientProgram:
    from toolcrib.cli.clients.catalog import CLIENTS

    if name not in CLIENTS:
        raise CommandError(f"There is no client '{name}'", f"there are {', '.join(CLIENTS)}")
    return CLIENTS[name]


# What is written


Write = tuple[tuple[str | int, ...], Any]
"""A path in a file, and what is written there; a number adds to a list."""


class Plan(NamedTuple):
    """What an installation writes: pairs of a path in a file and its value."""

    path: Path
    form: Any
    what: str
    writes: tuple[Write, ...]
    removes: Sequence[tuple[str | int, ...]] = ()
    launch: Launch | None = None
    command: tuple[str, ...] = ()
    note: str = ""
    private: bool = False

    def file(self) -> SettingsFile:
        """Return the file as it is."""
        from toolcrib.cli.clients.settings_file import SettingsFile

        return SettingsFile(self.path, self.form)

    def apply(self) -> Path | None:
        """Write it; return the backup of what was there."""
        from toolcrib.cli.clients.catalog import holds_ours
        from toolcrib.cli.clients.settings_file import value_at

        file = self.file()
        fresh = not holds_ours(file.data)
        for path in self.removes:
            file.remove(path)
        for path, value in self.writes:
            # A list is added to at its end, which is elsewhere after an entry of ours was removed.
            *way, last = path
            file.put((*way, len(value_at(file.data, way) or ())) if isinstance(last, int) else path, value)
        return file.save(fresh=fresh, private=self.private)

    def report(self) -> dict[str, Any]:
        """Return what a program reads of it."""
        return {"path": str(self.path), "wrote": [list(path) for path, _ in self.writes]}


def _server_plan(one: ClientProgram, where: Target, wish: Wish) -> Plan:
    from toolcrib.cli.clients.catalog import is_ours
    from toolcrib.cli.clients.launch import needed_variables
    from toolcrib.cli.clients.settings_file import value_at

    settings = one.server
    path = _place(one, settings.path, settings.project, wish.project)
    names = [*dict.fromkeys((*needed_variables(where), *wish.env))]
    values = {name: os.environ[name] for name in names if name in os.environ} if wish.values else {}
    by_name = [name for name in names if name not in values]
    launch = where.launch(values, by_name)
    entry = (settings.key, where.name)
    plan = Plan(path, settings.form, where.name, ((entry, settings.data(launch)),), private=bool(values))
    old = value_at(plan.file().data, entry)
    if old is not None and not is_ours(old):
        raise CommandError(
            f"{path} has a server '{where.name}' that is another one", "choose another name with --name", exit_code=1
        )
    return plan._replace(launch=launch)


def _hook_plan(client: str, one: ClientProgram, where: Target, wish: Wish) -> Plan:
    from toolcrib.cli.clients.catalog import MODULE, hook_command

    hooks = one.hooks
    if hooks is None:
        raise CommandError(f"The guard has no hooks for {one.title}", f"install it without --guard: {client}")
    if wish.env or wish.values:
        raise CommandError("--env and --values are for the server", "leave them out, or --guard")
    if where.folder is None:
        raise CommandError("The guard needs a crib.yaml", "name its file: --crib /path/to/crib.yaml")
    path = _place(one, hooks.path, hooks.project, wish.project)
    # Nor is anything taken from where PYTHONPATH points: it may be the same folder, and the guard needs none.
    words = (sys.executable, "-E", *MODULE, "guard", hooks.client, "--crib", where.crib)
    group = hooks.group(hook_command(sys.platform, words))
    writes: list[Write] = [((key,), value) for key, value in hooks.extra.items()]
    writes += [(("hooks", event, 0), group) for event in hooks.events]
    plan = Plan(path, "json", "the guard", tuple(writes), command=words, note=hooks.note)
    return plan._replace(removes=_hook_places(plan.file(), hooks, None))


def _hook_places(file: SettingsFile, hooks: HookSettings, crib: str | None) -> list[tuple[str | int, ...]]:
    """Where hooks of ours stand, the last first."""
    from toolcrib.cli.clients.catalog import is_our_hook
    from toolcrib.cli.clients.settings_file import value_at

    listed = value_at(file.data, ("hooks",))
    return [
        ("hooks", event, number)
        for event, groups in (listed.items() if isinstance(listed, dict) else ())
        for number, group in reversed([*enumerate(groups if isinstance(groups, list) else ())])
        if is_our_hook(group, hooks.client, crib)
    ]


def _place(one: ClientProgram, path: Any, project: str | None, wanted: bool) -> Path:
    from toolcrib.cli.clients.catalog import Machine

    if not wanted:
        place: Path = path(Machine(sys.platform, Path.home(), os.environ))
        return place
    if project is None:
        raise CommandError(f"{one.title} has no such files in projects", "leave out --project")
    return Path.cwd() / project


# Trying and telling


async def _try(plan: Plan, one: ClientProgram, choice: Choice) -> str:
    """Start what was planned as the client does; what came of it.

    Raises:
        CommandError: it does not start.
    """
    from toolcrib.cli.clients.launch import try_out

    if plan.launch is not None:
        takes_names = one.server.reference is not None
        about = await try_out(plan.launch if takes_names else plan.launch._replace(names=()))
        return f"It starts, and has {len(about.tools)} tools."
    import asyncio

    from toolcrib.cli.config.loader import load_for_guard
    from toolcrib.errors import ToolcribError

    try:
        load_for_guard(Path(plan.command[-1]), choice.store)
    except (ToolcribError, OSError) as error:
        raise CommandError(f"{plan.command[-1]} cannot be used: {error}", "mend it first", exit_code=1) from None
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *plan.command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=Path.home(), env=_few_variables()
    )
    _, trouble = await process.communicate(b'{"hook_event_name": "SessionStart", "cwd": "/", "session_id": "try"}')
    if process.returncode:
        raise CommandError(f"The hook does not run: {trouble.decode(errors='replace').strip()}", "mend it", exit_code=1)
    return "The hook runs."


def _few_variables() -> dict[str, str]:
    from toolcrib.guard.relay import RESIDENT
    from toolcrib.sources.mcp.stdio import INHERITED

    return {name: os.environ[name] for name in INHERITED if name in os.environ} | {RESIDENT: "0"}


def _warn(terminal: Terminal, one: ClientProgram, plan: Plan) -> None:
    """Say which variables the server will not get."""
    if plan.launch is None or not plan.launch.names or terminal.json:
        return
    names = ", ".join(plan.launch.names)
    if one.server.reference is None:
        terminal.say(
            f"{one.title} takes no variables from your environment. The crib needs {names}: write them into the .env "
            "beside it, or install it with --values.",
            "yellow",
        )
    elif missing := [name for name in plan.launch.names if name not in os.environ]:
        terminal.say(f"Not set here, and needed where {one.title} starts: {', '.join(missing)}", "yellow")


def _print(terminal: Terminal, plan: Plan) -> None:
    from toolcrib.cli.clients.settings_text import fragment

    if plan.launch is not None:
        [(path, value)] = plan.writes
        text = fragment(plan.form, path, value)
    else:
        data: dict[str, Any] = {}
        for (key, *rest), value in plan.writes:
            if rest:
                data.setdefault(str(key), {})[rest[0]] = [value]
            else:
                data[str(key)] = value
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if terminal.json:
        terminal.data({"path": str(plan.path), "text": text})
        return
    terminal.say(str(plan.path), "dim")
    terminal.text(text.rstrip("\n"))


# Taking it out


def _removals(one: ClientProgram, crib: str | None, name: str | None, project: bool) -> list[tuple[Path, str]]:
    """Remove what is ours; the files that were changed, and how."""
    from toolcrib.cli.clients.catalog import is_ours
    from toolcrib.cli.clients.settings_file import SettingsFile

    made: dict[Path, SettingsFile] = {}
    doomed: list[tuple[Path, tuple[str | int, ...]]] = []
    if not project or one.server.project is not None:
        path = _place(one, one.server.path, one.server.project, project)
        file = made.setdefault(path, SettingsFile(path, one.server.form))
        servers = file.data.get(one.server.key)
        doomed += [
            (path, (one.server.key, key))
            for key, entry in (servers.items() if isinstance(servers, dict) else ())
            if is_ours(entry, crib) and name in (None, key)
        ]
    if one.hooks is not None and name is None:
        path = _place(one, one.hooks.path, one.hooks.project, project)
        file = made.get(path) or made.setdefault(path, SettingsFile(path, "json"))
        doomed += [(path, place) for place in _hook_places(file, one.hooks, crib)]
    for path, place in doomed:
        made[path].remove(place)
    changed = dict.fromkeys(path for path, _ in doomed)
    _forget_extra(one, made)
    return [(path, made[path].restore()) for path in changed]


def _forget_extra(one: ClientProgram, made: dict[Path, SettingsFile]) -> None:
    """Remove what the guard needs beside its hooks, where it was not there before and nothing else has need of it."""
    from toolcrib.cli.clients.settings_text import pruned

    extra = {} if one.hooks is None else dict(one.hooks.extra)
    for file in made.values():
        if extra and pruned(file.data) == pruned(file.original) | extra:
            for key in extra.keys() - file.original.keys():
                file.remove((key,))
