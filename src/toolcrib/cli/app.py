"""The commands, put together. A command's module is loaded when the command is named, or when all are listed."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from toolcrib.cli.command import (
    CribOption,
    DebugOption,
    EngineOption,
    JsonOption,
    StoreOption,
    command,
    group,
    leave,
    perform,
)
from toolcrib.cli.known_variables import misspelt
from toolcrib.cli.terminal import Choice, CommandError, Terminal

COMMANDS = {
    "init": "init:init",
    "demo": "toolcrib.demo.command:demo",
    "call": "calls:call",
    "answer": "calls:answer",
    "run": "run:run",
    "chat": "chat:chat",
    "why": "policy:why",
    "schema": "schema:schema",
    "stats": "stats:stats",
    "sweep": "store:sweep",
    "worker": "worker:worker",
    "serve": "serve:serve",
    "tools": "tools:app",
    "agents": "agents:app",
    "sessions": "sessions:app",
    "schedules": "schedules:app",
    "approvals": "approvals:app",
    "audit": "audit:app",
    "policy": "policy:app",
    "store": "store:app",
    "cluster": "cluster:app",
    "mcp": "mcp:app",
    "sources": "sources:app",
    "guard": "guard:guard",
    "install": "install:install",
    "uninstall": "install:uninstall",
    "keys": "keys:app",
    "connect": "accounts:connect",
    "accounts": "accounts:app",
}
"""Each command and each group of commands: its module, by its whole name or its name here, and what of it is meant."""

_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""What a command line that fits no command raises; typer exports only what is made of it."""

SERVERS = ("worker", "serve", "demo")
"""The commands that run for long."""


class _LazyCommands(MutableMapping[str, Any]):
    """Commands by their names, each made when it is first looked up."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name, self._places[name])
        return self._made[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._places.setdefault(name, "")
        self._made[name] = value

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _made(name: str, place: str) -> Any:
    """Return the command or the group that stands at a place."""
    module, _, attribute = place.partition(":")
    whole = module if module.startswith("toolcrib.") else f"toolcrib.cli.{module}"
    value = getattr(importlib.import_module(whole), attribute)
    if isinstance(value, typer.Typer):
        return typer.main.get_group(value)
    alone = group(name, "")
    command(alone, name, serves=name in SERVERS)(value)
    return typer.main.get_group(alone).commands[name]


class _Commands(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands(COMMANDS)


app = typer.Typer(
    name="toolcrib",
    cls=_Commands,
    help="Run and watch the tools of a crib.",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from toolcrib import __version__

        print(f"toolcrib {__version__}")
        raise typer.Exit


@app.callback()
def _shared(  # noqa: PLR0913 - the options that every command takes
    ctx: typer.Context,
    crib: CribOption = None,
    store: StoreOption = None,
    engine: EngineOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run what the crib.yaml of this folder names, without being asked.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if trust:
        os.environ["TOOLCRIB_TRUST"] = "1"
    for name, meant in misspelt():
        print(f"The variable {name} does nothing: did you mean {meant}?", file=sys.stderr)
    ctx.obj = {"crib": crib, "store": store, "engine": engine, "json": json, "debug": debug}
    if ctx.invoked_subcommand is None:
        from toolcrib.cli.overview import overview

        terminal = Terminal(Choice(crib, store, engine), json=json, debug=debug)
        raise typer.Exit(perform(terminal, lambda: overview(terminal)))


def run() -> None:
    """Runs the command that the arguments name."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character shows its code
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(prog_name="toolcrib", standalone_mode=False)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 1
    except typer.Abort:
        code = 1
    except _USAGE_ERROR as error:
        code = _explain(error)
    leave(code if isinstance(code, int) else 0)


def _explain(error: Any) -> int:
    """Tell of words that fit no command as of any other error; a group that was named alone shows its help."""
    text = error.format_message()
    if text.startswith("Usage:"):
        error.show()
        return int(error.exit_code)
    path = "toolcrib" if error.ctx is None else error.ctx.command_path
    problem = CommandError(text.rstrip("."), f"`{path} --help` shows what there is", exit_code=error.exit_code)
    Terminal(Choice(None), json="--json" in sys.argv).trouble(problem)
    return problem.exit_code
