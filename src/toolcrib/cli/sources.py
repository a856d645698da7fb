"""`toolcrib sources`: the sources of a `toolcrib serve` that runs, for its administrators."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from toolcrib.cli.assignments import SetOption, assigned
from toolcrib.cli.command import command, group
from toolcrib.cli.mcp_control import KeyOption, UrlOption, ask_server
from toolcrib.cli.serve import TOKEN
from toolcrib.cli.terminal import CommandError, Terminal

app = group("sources", "Look after the sources of a server that runs.")
COLUMNS = ("Source", "Kind", "From", "State", "Tools", "Added by")

Name = Annotated[str, typer.Argument(help="What the source is called.")]
NewName = Annotated[str, typer.Argument(help="The namespace of its tools.")]
Where = Annotated[
    list[str],
    typer.Argument(metavar="URL | -- COMMAND...", help="Where the MCP server is, or after -- how it is started."),
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="KEY=REFERENCE", help="A variable of its process: where the secret is."),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="KEY=REFERENCE", help="A header of every request: where the secret is."),
]
OpenApiOption = Annotated[bool, typer.Option("--openapi", help="The address is that of an OpenAPI document.")]


@command(app, "list")
async def list_sources(terminal: Terminal, url: UrlOption = None, key_env: KeyOption = TOKEN) -> None:
    """List the sources of a running server, and how they are."""
    rows = (await ask_server(terminal, "GET", "/sources", url, key_env))["items"]
    if terminal.json:
        terminal.data(rows)
        return
    terminal.table(COLUMNS, [_row(row) for row in rows])


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    state = f"{row['status']}: {row['reason']}" if row.get("reason") else row["status"]
    return row["name"], row["kind"], row["origin"], state, str(row["tools"]), row.get("by") or ""


@command(app, "add")
async def add_source(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    name: NewName,
    where: Where,
    env: EnvOption = None,
    header: HeaderOption = None,
    openapi: OpenApiOption = False,
    trusted: Annotated[bool, typer.Option("--trusted", help="What it says of its tools is true.")] = False,
    account: Annotated[bool, typer.Option("--account", help="Each owner connects an account of their own.")] = False,
    share: Annotated[
        str | None, typer.Option("--share", metavar="all|owner|session", help="Who may share one process of it.")
    ] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", help="Seconds that a call may take.")] = None,
    more: SetOption = None,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not test it.")] = False,
    url: UrlOption = None,
    key_env: KeyOption = TOKEN,
) -> None:
    """Add an MCP server or an OpenAPI document to a running server.

    It is tested first, and nothing is left behind where that fails. It stays beyond a restart, and every process over
    the same store has it. Secrets are references, such as env:NAME, which the server has to allow.
    """
    body = _entry(name, where, env, header, openapi=openapi)
    body |= {"trusted": trusted, "account": account, "check": not no_check}
    body |= {key: value for key, value in (("share", share), ("timeout", timeout)) if value is not None}
    body |= assigned(more)
    form = await ask_server(terminal, "POST", "/sources", url, key_env, body)
    _tell(terminal, form)


@command(app, "test")
async def try_source(  # noqa: PLR0913 - the options of a command
    terminal: Terminal,
    name: NewName,
    where: Annotated[
        list[str] | None,
        typer.Argument(metavar="[URL | -- COMMAND...]", help="Where it would be. Without: a source that is there."),
    ] = None,
    env: EnvOption = None,
    header: HeaderOption = None,
    openapi: OpenApiOption = False,
    url: UrlOption = None,
    key_env: KeyOption = TOKEN,
) -> int:
    """Have a running server try a source, one that is there or another. Exit code 1 where it does not answer."""
    if where:
        body = _entry(name, where, env, header, openapi=openapi)
        test = await ask_server(terminal, "POST", "/source-tests", url, key_env, body)
    else:
        test = await ask_server(terminal, "POST", f"/sources/{quote(name)}/test", url, key_env)
    if terminal.json:
        terminal.data(test)
    elif test["ok"]:
        terminal.text(f"{name} answers, with {len(test['tools'])} tools", "green")
    else:
        terminal.trouble(CommandError(f"{name}: {test['problem']}", "check its address, command and secrets"))
    return 0 if test["ok"] else 1


@command(app, "disable")
async def disable_source(terminal: Terminal, name: Name, url: UrlOption = None, key_env: KeyOption = TOKEN) -> None:
    """Take the tools of a source away until it is enabled. Calls that it works on go on to their end."""
    _tell(terminal, await ask_server(terminal, "POST", f"/sources/{quote(name)}/disable", url, key_env))


@command(app, "enable")
async def enable_source(terminal: Terminal, name: Name, url: UrlOption = None, key_env: KeyOption = TOKEN) -> None:
    """Start a source that was disabled."""
    _tell(terminal, await ask_server(terminal, "POST", f"/sources/{quote(name)}/enable", url, key_env))


@command(app, "refresh")
async def refresh_source(terminal: Terminal, name: Name, url: UrlOption = None, key_env: KeyOption = TOKEN) -> None:
    """Have a running server list the tools of a source anew."""
    _tell(terminal, await ask_server(terminal, "POST", f"/sources/{quote(name)}/refresh", url, key_env))


@command(app, "remove")
async def remove_source(terminal: Terminal, name: Name, url: UrlOption = None, key_env: KeyOption = TOKEN) -> None:
    """Remove a source that was added. Calls that it works on go on to their end."""
    removed = await ask_server(terminal, "DELETE", f"/sources/{quote(name)}", url, key_env)
    terminal.result(removed, f"Removed {removed['name']}", "green")


def _entry(
    name: str, where: list[str], env: list[str] | None, header: list[str] | None, *, openapi: bool
) -> dict[str, Any]:
    """A source as it is sent to the server."""
    if openapi and len(where) > 1:
        raise CommandError(f"An address stands alone, without {where[1]}", "name the address of the document")
    place: dict[str, Any] = {"openapi": where[0]} if openapi else {"mcp": where[0] if len(where) == 1 else where}
    return {"name": name, **place, "env": _pairs(env, "--env"), "headers": _pairs(header, "--header")}


def _pairs(words: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for word in words or ():
        key, mark, value = word.partition("=")
        if not (key.strip() and mark and value.strip()):
            raise CommandError(f"{option} {word}: expected KEY=REFERENCE", f"write {option} KEY=env:NAME")
        pairs[key.strip()] = value.strip()
    return pairs


def _tell(terminal: Terminal, form: dict[str, Any]) -> None:
    if terminal.json:
        terminal.data(form)
    else:
        reason = f" ({form['reason']})" if form.get("reason") else ""
        terminal.text(f"{form['name']}: {form['status']}{reason}, {form['tools']} tools", "green")
