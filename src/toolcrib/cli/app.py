"""The commands, put together."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from toolcrib.cli import (
    agents,
    approvals,
    audit,
    calls,
    chat,
    cluster,
    keys,
    mcp,
    policy,
    schema,
    serve,
    sessions,
    store,
    tools,
    worker,
)
from toolcrib.cli import (
    run as cli_run,
)
from toolcrib.cli.command import CribOption, DebugOption, EngineOption, JsonOption, StoreOption, command, leave
from toolcrib.cli.definitions import command_call, lint, migration, scaffold, tool_tests

app = typer.Typer(
    name="toolcrib",
    help="Run and watch the tools of a crib.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
command(app, "call")(calls.call)
command(app, "answer")(calls.answer)
command(app, "run")(cli_run.run)
command(app, "chat")(chat.chat)
command(app, "why")(policy.why)
command(app, "schema")(schema.schema)
command(app, "sweep")(store.sweep)
command(app, "worker", serves=True)(worker.worker)
command(app, "serve", serves=True)(serve.serve)
for name, function in (
    ("lint", lint.lint),
    ("test", tool_tests.try_out),
    ("call", command_call.call),
    ("health", tool_tests.health),
    ("migrate", migration.migrate),
    ("rollback", migration.rollback),
    ("diff", migration.diff),
    ("new", scaffold.new),
):
    command(tools.app, name)(function)
for part in (
    tools.app,
    agents.app,
    sessions.app,
    approvals.app,
    audit.app,
    policy.app,
    store.app,
    cluster.app,
    mcp.app,
    keys.app,
):
    app.add_typer(part)


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
    ctx.obj = {"crib": crib, "store": store, "engine": engine, "json": json, "debug": debug}


def run() -> None:
    """Runs the command that the arguments name."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character shows its code
            stream.reconfigure(errors="backslashreplace")
    code = 0
    try:
        app()
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 1
    leave(code)
