"""`toolcrib mcp`: the crib as an MCP server on standard input and output, and the MCP servers that it uses."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from toolcrib.cli import mcp_control, mcp_import
from toolcrib.cli.accounts import accounts_at_hand
from toolcrib.cli.assignments import SetOption, assigned
from toolcrib.cli.command import command
from toolcrib.cli.serve import stdio
from toolcrib.cli.terminal import Cell, CommandError, Terminal, short

if TYPE_CHECKING:
    from toolcrib.cli.config.mcp_entries import ServerEntry
    from toolcrib.crib import Crib
    from toolcrib.sources.mcp import Mcp, OfferedTool, ServerDescription


class _ServeByDefaultGroup(TyperGroup):
    """A group that serves where no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts `stdio` before options that stand alone."""
        if not args or (args[0].startswith("-") and args[0] not in ("--help", "-h")):
            args = ["stdio", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="mcp",
    cls=_ServeByDefaultGroup,
    help="Serve the crib to an MCP client, or manage the servers it uses.",
    rich_markup_mode=None,
)
command(app, "stdio", serves=True, speaks=True)(stdio)
command(app, "import")(mcp_import.import_servers)
command(app, "refresh")(mcp_control.refresh)
command(app, "restart")(mcp_control.restart)
command(app, "logs")(mcp_control.logs)

Where = Annotated[
    list[str],
    typer.Argument(metavar="URL | -- COMMAND...", help="Where the server is, or after -- how it is started."),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="KEY=VALUE", help="A variable of its process; KEY alone takes yours at every start."),
]
HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", metavar="KEY=VALUE", help="A header of every request.")
]


@command(app, "config")
async def show_config(
    terminal: Terminal,
    name: Annotated[str | None, typer.Option("--name", help="What the client shall call it.")] = None,
) -> None:
    """Print the settings with which a desktop client starts this crib."""
    from toolcrib.cli.clients.catalog import CLIENTS
    from toolcrib.cli.clients.launch import target

    where = target(terminal.crib, name)
    snippet = {"mcpServers": {where.name: CLIENTS["claude-desktop"].server.data(where.launch())}}
    terminal.result(snippet, json.dumps(snippet, indent=2, ensure_ascii=False))


@dataclass(frozen=True, kw_only=True)
class NewServer:
    """What `toolcrib mcp add` is options of a server."""

    name: Annotated[str, typer.Argument(help="The namespace of its tools.")]
    where: Where
    env: EnvOption = None
    header: HeaderOption = None
    trusted: Annotated[bool, typer.Option("--trusted", help="What it says of its tools is true.")] = False
    required: Annotated[bool, typer.Option("--required", help="The crib does not start without it.")] = False
    share: Annotated[
        str | None, typer.Option("--share", metavar="all|owner|session", help="Who may share one process of it.")
    ] = None
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds that a call may take.")] = None
    start_s: Annotated[float | None, typer.Option("--start-s", help="Seconds that a start may take.")] = None
    idle_s: Annotated[float | None, typer.Option("--idle-s", help="End it after so many seconds unused.")] = None
    connections: Annotated[int | None, typer.Option("--connections", help="How many processes at most.")] = None
    cwd: Annotated[str | None, typer.Option("--cwd", help="Where its process starts.")] = None
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="auto|older", help="Do not try the newest revision.")
    ] = None
    breaker: Annotated[
        int | None, typer.Option("--breaker", help="Refuse a call for a while after so many failures; 0 never.")
    ] = None
    more: SetOption = None

    def entry(self) -> ServerEntry:
        """Return the entry of `crib.yaml`, whose settings are not checked yet."""
        from toolcrib.cli.config.mcp_entries import ServerEntry

        names = ("required", "share", "timeout", "start_s", "idle_s", "connections", "cwd", "revision")
        settings = {name: getattr(self, name) for name in names if getattr(self, name)}
        if self.breaker is not None:
            settings["breaker"] = self.breaker or False
        env, headers = _pairs(self.env, "--env"), _pairs(self.header, "--header")
        return ServerEntry(self.name, _line(self.where), self.trusted, env, headers, settings | assigned(self.more))


@command(app, "add")
async def add_server(
    terminal: Terminal,
    options: NewServer,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not try it.")] = False,
) -> int:
    """Add an MCP server to crib.yaml, and show its tools.

    It is tried first. Exit code 1 where it does not answer; nothing is written then, unless you say --no-check.
    """
    from toolcrib.cli.config import mcp_entries
    from toolcrib.sources.mcp.settings import legal

    path, name, entry = mcp_entries.file_of(terminal.crib), options.name, options.entry()
    if legal(name) != name:
        raise CommandError(f"'{name}' cannot be a namespace", f"call it '{legal(name)}'")
    if name in mcp_entries.names(path):
        advice = "choose another name, or change that entry"
        raise CommandError(f"There is a server '{name}' in {path}", advice, exit_code=1)
    _at_odds(entry)
    entry.checked()
    server = entry.server(path.parent) if not no_check else None
    unasked = server is None or server.account is not None  # its tools are shown when somebody has connected
    state = None if server is None or unasked else await _probed(server)
    if state is not None and state.about is None:
        return _tell_away(terminal, path, state)
    mcp_entries.add(path, [entry])
    if terminal.json:
        report = {"name": name, "mcp": entry.mcp, "ok": None} if state is None else _state(state)
        terminal.data({"path": str(path), **report})
        return 0
    terminal.text(f"Added {name} to {path}", "green")
    if server is not None and server.account is not None:
        terminal.say(f"`{terminal.command('connect', server.account['name'])}` connects your account.", "dim")
    if state is not None and state.about is not None:
        _tools(terminal, state.about.tools)
    return 0


def _tell_away(terminal: Terminal, path: Path, state: _State) -> int:
    if terminal.json:
        terminal.data({"path": str(path), **_state(state)})
    else:
        advice = "mend its command or address; --no-check adds it all the same"
        terminal.trouble(CommandError(f"{state.problem}. Nothing was added to {path}", advice))
    return 1


@command(app, "remove")
async def remove_server(
    terminal: Terminal, name: Annotated[str, typer.Argument(help="What it is called in the crib.")]
) -> None:
    """Take an MCP server out of crib.yaml."""
    from toolcrib.cli.config import mcp_entries

    path = mcp_entries.file_of(terminal.crib)
    known = mcp_entries.names(path)
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise CommandError(f"There is no server '{name}' in {path}", f"there are: {listed}", exit_code=1)
    mcp_entries.remove(path, name)
    terminal.result({"path": str(path), "removed": name}, f"Removed {name} from {path}", "green")


@command(app, "list")
async def list_servers(
    terminal: Terminal,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not start them.")] = False,
) -> None:
    """List the MCP servers of the crib, and whether they answer."""
    from toolcrib.cli.crib_choice import chosen

    crib = chosen(terminal.crib)
    entries = _servers(crib)
    async with accounts_at_hand(crib):
        states = [_State(one) for one in entries] if no_check else await asyncio.gather(*map(_probed, entries))
    if terminal.json:
        terminal.data([_state(state) for state in states])
    elif not states:
        terminal.say(f"The crib has no MCP servers. Add one: {terminal.command('mcp', 'add', 'NAME', 'URL')}")
    else:
        terminal.table(("Server", "Reached by", "Trusted", "State"), [_row(state) for state in states])


@command(app, "inspect")
async def inspect_server(
    terminal: Terminal,
    server: Annotated[
        list[str], typer.Argument(metavar="NAME | URL | -- COMMAND...", help="A server of the crib, or any other.")
    ],
    env: EnvOption = None,
    header: HeaderOption = None,
) -> int:
    """Show the tools of an MCP server. Also their arguments and hints; exit code 1 where it is away."""
    source, crib = _meant(terminal, server, _pairs(env, "--env"), _pairs(header, "--header"))
    async with nullcontext() if crib is None else accounts_at_hand(crib):
        state = await _probed(source)
    if state.about is None:
        advice = "check its command or address"
        if state.account is not None:
            advice = f"`{terminal.command('connect', state.account)}`"
        elif "answered HTTP 401" in state.problem:
            advice = "it wants a key or a token: --header 'Authorization=Bearer ...'"
        raise CommandError(state.problem, advice, exit_code=1, code="unavailable")
    if terminal.json:
        terminal.data({**_state(state), **_whole(state.about)})
    else:
        _show(terminal, state.about)
    return 0


# What was typed


def _pairs(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse `KEY=VALUE`; a variable alone is read from the environment at every start."""
    made = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not key.strip() or (not separator and option != "--env"):
            raise CommandError(f"{option} {pair}: expected KEY=VALUE", f"write {option} KEY=VALUE")
        made[key.strip()] = value.strip() if separator else f"${{{key.strip()}}}"
    return {key: value for key, value in made.items() if value}


def _line(words: Sequence[str]) -> str:
    """A command or an address in one line; one word may be a whole command that was quoted."""
    from toolcrib.sources.mcp.settings import is_address

    if is_address(words[0]) and len(words) > 1:
        raise CommandError(f"An address stands alone, without {words[1]}", "name the address, or -- and a command")
    return words[0] if len(words) == 1 and not Path(words[0]).exists() else shlex.join(words)


def _at_odds(entry: ServerEntry) -> None:
    from toolcrib.sources.mcp.settings import is_address

    reached = is_address(entry.mcp)
    if reached and entry.env:
        raise CommandError("An address has no process to give --env to", "give it --header, or start it by a command")
    if not reached and entry.headers:
        raise CommandError("A command takes no --header", "give it --env, or name an address")


def _meant(
    terminal: Terminal, words: Sequence[str], env: dict[str, str], headers: dict[str, str]
) -> tuple[Mcp, Crib | None]:
    """The server of that name in the crib, else the one that is started or reached like that."""
    from toolcrib.cli.config.mcp_entries import ServerEntry
    from toolcrib.cli.crib_choice import chosen
    from toolcrib.schema import nearest
    from toolcrib.sources.mcp.settings import is_address, name_of

    line = _line(words)
    if len(words) == 1 and not is_address(line) and " " not in line.strip():
        crib = chosen(terminal.crib) if _has_crib(terminal) else None
        known = {} if crib is None else {one.name: one for one in _servers(crib)}
        if line in known:
            return known[line], crib
        if shutil.which(line) is None:
            close = nearest(line, known)
            advice = f"did you mean {' or '.join(close)}?" if close else "`toolcrib mcp list` shows what there is"
            raise CommandError(f"There is no MCP server and no program '{line}'", advice, exit_code=1, code="not_found")
    try:
        entry = ServerEntry(name_of(tuple(shlex.split(line))), line, False, env, headers)
    except ValueError as error:
        raise CommandError(f"This is no command: {error}", "name a server, an address, or -- and a command") from None
    _at_odds(entry)
    return entry.server(Path()), None


def _has_crib(terminal: Terminal) -> bool:
    from toolcrib.cli.config.document import NAME

    return terminal.crib.crib is not None or Path(NAME).is_file()


def _servers(crib: Crib) -> list[Mcp]:
    from toolcrib.sources.mcp import Mcp

    return [source for source in crib.registry.sources if isinstance(source, Mcp)]


# What servers say


class _State(NamedTuple):
    """A server, and its answer or why there was none."""

    source: Mcp
    about: ServerDescription | None = None
    problem: str = ""
    account: str | None = None

    @property
    def where(self) -> str:
        """Its command or its address."""
        settings = self.source.server.settings
        return settings.url or shlex.join(settings.command)


async def _probed(source: Mcp) -> _State:
    from toolcrib.cli.questions import user
    from toolcrib.errors import ToolFailure

    try:
        return _State(source, await source.server.about(user()))
    except ToolFailure as error:
        account = await source.wanted_account()
        problem = error.message if account is None else f"nobody has connected the account {account}"
        return _State(source, None, problem, account)
    finally:
        await source.server.close()


def _state(state: _State) -> dict[str, Any]:
    data: dict[str, Any] = {"name": state.source.name, "mcp": state.where, "trusted": state.source.trusted}
    if state.about is not None:
        return {**data, "ok": True, "revision": state.about.revision, "tools": [one.name for one in state.about.tools]}
    return {**data, "ok": False, "problem": state.problem} if state.problem else {**data, "ok": None}


def _row(state: _State) -> Sequence[Cell]:
    shown: Cell = ("not asked", "dim")
    if state.about is not None:
        shown = (f"{len(state.about.tools)} tools, revision {state.about.revision}", "green")
    elif state.problem:
        shown = (short(state.problem, 200), "red")
    return state.source.name, state.where, "yes" if state.source.trusted else "no", shown


def _whole(about: ServerDescription) -> dict[str, Any]:
    server = {"name": about.name, "version": about.version, "title": about.title, "instructions": about.instructions}
    tools = [
        {
            "name": one.name,
            "title": one.title,
            "description": one.description,
            "annotations": _hints(one),
            "input_schema": one.input_schema,
            "output_schema": one.output_schema,
        }
        for one in about.tools
    ]
    return {"server": server, "tools": tools, "prompts": about.prompts, "resources": about.resources}


def _hints(tool: OfferedTool) -> list[str]:
    names = ("read_only", "destructive", "idempotent", "open_world")
    return [name for name in names if getattr(tool.annotations, name)]


def _show(terminal: Terminal, about: ServerDescription) -> None:
    from toolcrib.cli.display.schemas import arguments, outline

    terminal.text(
        " ".join(filter(None, (about.title or about.name or "A server without a name", about.version))), "bold"
    )
    terminal.text(f"Revision      {about.revision}")
    counts = (("tools", len(about.tools)), ("prompts", about.prompts), ("resources", about.resources))
    terminal.text("Has           " + ", ".join(f"{'?' if n is None else n} {what}" for what, n in counts))
    if about.instructions:
        terminal.text(f"Instructions  {about.instructions}")
    for one in about.tools:
        hints = ", ".join(_hints(one)).replace("_", " ")
        terminal.text(f"\n{one.name}{f'  ({hints})' if hints else ''}", "bold")
        terminal.text(one.description or one.title or "")
        rows = [
            (a.name, a.type, "yes" if a.required else "", a.default, a.description) for a in arguments(one.input_schema)
        ]
        if rows:
            terminal.table(("Name", "Type", "Required", "Default", "Description"), rows, indent=2)
        if one.output_schema is not None:
            terminal.text(f"  gives back {outline(one.output_schema)}")


def _tools(terminal: Terminal, tools: Sequence[OfferedTool]) -> None:
    if not tools:
        terminal.say("It answers, and has no tools.")
        return
    rows = [(one.name, ", ".join(_hints(one)).replace("_", " "), short(one.description or "", 100)) for one in tools]
    terminal.table(("Tool", "Says", "What it does"), rows)
