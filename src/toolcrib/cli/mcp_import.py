"""`toolcrib mcp import`: the MCP servers of desktop clients and editors, which keep them in JSON with `mcpServers`."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from toolcrib.cli.terminal import CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.cli.config.mcp_entries import ServerEntry

_KEYS = ("mcpServers", "servers")
_URLS = ("url", "httpUrl", "serverUrl")
_TYPES = {"stdio": "command", "http": "url", "sse": "url", "streamable-http": "url", "streamablehttp": "url"}
_ENVIRONMENT = re.compile(r"\$\{env:(\w+)\}")
_OTHER = re.compile(r"\$\{(?!\w+\})[^}]*\}")


class DesktopServer(NamedTuple):
    """A server that a file names: the entry that it becomes, or why it cannot be one."""

    name: str
    path: Path
    entry: ServerEntry | None
    problem: str = ""


class _Unfit(Exception):
    """Why a server cannot be taken over."""


async def import_servers(
    terminal: Terminal,
    file: Annotated[
        Path | None, typer.Argument(help="JSON with mcpServers. Without it the usual places of clients are looked at.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Take over the MCP servers of desktop clients and editors.

    They are shown first, then written into crib.yaml.
    Exit code 1 where you say no, or where nobody can be asked and --yes is not said.
    """
    from toolcrib.cli.config import mcp_entries

    path = mcp_entries.file_of(terminal.crib)
    fit, rest = _sorted(_gathered(terminal, file), mcp_entries.names(path))
    if not terminal.json:
        _show_found(terminal, fit, rest)
    agreed = bool(fit) and (yes or (terminal.interactive and await _agrees(terminal)))
    if agreed:
        mcp_entries.add(path, fit.values())
    _tell_import(terminal, path, fit if agreed else {}, rest)
    return 0 if agreed or not fit else 1


def _gathered(terminal: Terminal, file: Path | None) -> list[DesktopServer]:
    if file is not None:
        servers = read(file, Path.cwd())
        if not servers:
            raise CommandError(f"{file} names no MCP servers", "name a JSON file with mcpServers", exit_code=1)
        return servers
    made: list[DesktopServer] = []
    for path in filter(Path.is_file, places(Path.home(), Path.cwd())):
        try:
            made += read(path, Path.cwd())
        except CommandError as problem:
            terminal.say(problem.message, "yellow")
    if not made:
        raise CommandError(
            "No client on this machine names MCP servers", "name a JSON file with mcpServers", exit_code=1
        )
    return made


def _sorted(servers: Sequence[DesktopServer], there: set[str]) -> tuple[dict[str, ServerEntry], list[dict[str, str]]]:
    """What can be added by its name, and why the rest cannot."""
    fit: dict[str, ServerEntry] = {}
    rest = []
    for one in servers:
        problem = one.problem
        if one.entry is not None and one.entry.name in there:
            problem = f"there is a server '{one.entry.name}' in the crib already"
        elif one.entry is not None and one.entry.name in fit:
            problem = f"'{one.entry.name}' stands above already"
        if one.entry is None or problem:
            rest.append({"name": one.name, "from": str(one.path), "problem": problem})
        else:
            fit[one.entry.name] = one.entry
    return fit, rest


def _show_found(terminal: Terminal, fit: dict[str, ServerEntry], rest: Sequence[dict[str, str]]) -> None:
    if fit:
        rows = [(one.name, one.mcp, ", ".join((*one.env, *one.headers))) for one in fit.values()]
        terminal.table(("Server", "Reached by", "With"), rows)
    for left in rest:
        terminal.say(f"Left out: {left['name']} of {left['from']}: {left['problem']}", "yellow")


async def _agrees(terminal: Terminal) -> bool:
    from toolcrib.cli.prompts import LeftOpen, pick

    try:
        return await pick(terminal, "Add them to the crib?", {"y": "yes", "n": "no"}) == "y"
    except LeftOpen:
        return False


def _tell_import(terminal: Terminal, path: Path, added: dict[str, ServerEntry], rest: Sequence[dict[str, str]]) -> None:
    if terminal.json:
        terminal.data({"path": str(path), "added": [one.data for one in added.values()], "left_out": rest})
        return
    if not added:
        terminal.say("Nothing was added. --yes adds them without asking.")
        return
    terminal.text(f"Added {', '.join(added)} to {path}", "green")
    if any("${" not in value for one in added.values() for value in (*one.env.values(), *one.headers.values())):
        terminal.say(
            f"{path} holds values of env or headers now; ${{NAME}} takes a secret from the environment.", "yellow"
        )
    terminal.say(f"See whether they answer: {terminal.command('mcp', 'list')}", "dim")


# The files


def places(home: Path, project: Path) -> list[Path]:
    """Where such files usually lie, those of the project first."""
    from toolcrib.cli.clients.catalog import Machine

    settings = Machine(sys.platform, home, os.environ).settings
    return [
        project / ".mcp.json",
        project / ".cursor" / "mcp.json",
        project / ".vscode" / "mcp.json",
        settings / "Claude" / "claude_desktop_config.json",
        home / ".claude.json",
        home / ".cursor" / "mcp.json",
        settings / "Code" / "User" / "mcp.json",
        home / ".codeium" / "windsurf" / "mcp_config.json",
        home / ".gemini" / "settings.json",
        home / ".lmstudio" / "mcp.json",
    ]


def read(path: Path, project: Path | None = None) -> list[DesktopServer]:
    """The servers that a file names, for all projects and for this one.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        data = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise CommandError(f"Cannot read {path}: {error.strerror}", "name the JSON file of an MCP client") from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path} is no JSON: {error}", "name the JSON file of an MCP client") from None
    return [_server(name, entry, path) for name, entry in _servers(data, project)]


def _servers(data: Any, project: Path | None) -> Iterator[tuple[str, Any]]:
    if not isinstance(data, Mapping):
        return
    for key in _KEYS:
        named = data.get(key)
        if isinstance(named, Mapping):
            yield from named.items()
    projects = data.get("projects")
    if project is not None and isinstance(projects, Mapping):
        yield from _servers(projects.get(str(project)), None)


def _server(name: str, value: Any, path: Path) -> DesktopServer:
    try:
        if not isinstance(value, Mapping):
            raise _Unfit("it is no description of a server")
        if value.get("disabled") is True:
            raise _Unfit("it is switched off there")
        return DesktopServer(name, path, _entry(name, value))
    except _Unfit as error:
        return DesktopServer(name, path, None, str(error))


def _entry(name: str, data: Mapping[str, Any]) -> ServerEntry:
    from toolcrib.cli.config.mcp_entries import ServerEntry
    from toolcrib.sources.mcp.settings import is_address, legal

    url = next((data[key] for key in _URLS if data.get(key)), None)
    kind = _TYPES.get(str(data.get("type", "stdio" if url is None else "http")).lower())
    if kind is None:
        raise _Unfit(f"nothing here speaks {data['type']!r}")
    if kind == "command":
        return ServerEntry(legal(name), _command(data), env=_texts(data, "env"))
    if not isinstance(url, str) or not is_address(url) or "${" in url:
        raise _Unfit("it has no http address that is known here")
    return ServerEntry(legal(name), url, headers=_texts(data, "headers"))


def _command(data: Mapping[str, Any]) -> str:
    words = [data.get("command"), *(data.get("args") or ())]
    if not words[0] or not all(isinstance(word, str | int | float) for word in words):
        raise _Unfit("it has no command")
    if data.get("cwd"):
        raise _Unfit("it starts in a folder of its own (cwd), which crib.yaml cannot say")
    line = shlex.join(map(str, words))
    if "${" in line:
        raise _Unfit("only the program that it was written for fills in the variables of its command")
    return line


def _texts(data: Mapping[str, Any], key: str) -> dict[str, str]:
    """Texts by name; what other programs call `${env:NAME}` is `${NAME}` here."""
    values = data.get(key) or {}
    if not isinstance(values, Mapping):
        raise _Unfit(f"its {key} is no mapping")
    made = {str(name): _ENVIRONMENT.sub(r"${\1}", str(value)) for name, value in values.items() if value is not None}
    for name, value in made.items():
        if _OTHER.search(value):
            raise _Unfit(f"only the program that it was written for fills in {key}.{name}")
    return {name: value for name, value in made.items() if value}
