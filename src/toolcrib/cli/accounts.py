"""`toolcrib connect` and `toolcrib accounts`: the accounts that owners use services with."""

from __future__ import annotations

import asyncio
import sys
import time
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from getpass import getpass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.display.event_lines import moment, span
from toolcrib.cli.questions import user
from toolcrib.cli.terminal import CommandError, Terminal
from toolcrib.errors import Refused, ToolFailure

if TYPE_CHECKING:
    from toolcrib.accounts import Accounts, AuthorizationReply, ConnectedAccount
    from toolcrib.crib import Crib

app = group("accounts", "List and remove the accounts that owners connected.")
COLUMNS = ("Account", "Owner", "Scopes", "Connected", "Token")
VISIT_S = 600.0
_PAGE = b"<!doctype html><meta charset=utf-8><title>Toolcrib</title><p>%b You can close this window.</p>"
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The account, as crib.yaml or its source names it.")]
OwnerOption = Annotated[str | None, typer.Option("--owner", "-o", help="Whose account it is; without it yours.")]


@asynccontextmanager
async def _accounts(terminal: Terminal) -> AsyncIterator[Accounts]:
    """The accounts of the crib over its store, which is made if there is none. No source is started."""
    from toolcrib.cli.crib_choice import chosen
    from toolcrib.cli.store_choice import opened

    crib = chosen(terminal.crib)
    if crib.store.url.startswith("memory:"):
        advice = "name one that stays: store: sqlite:///crib.db in crib.yaml, or --store"
        raise CommandError("A store in memory keeps no accounts", advice)
    async with opened(crib.store, make=True):
        yield crib.accounts


@asynccontextmanager
async def accounts_at_hand(crib: Crib) -> AsyncIterator[None]:
    """What owners of a crib connected can be used meanwhile, though the crib is not started; its store is not made."""
    from toolcrib.cli.store_choice import missing, opened
    from toolcrib.store import open_store

    if not crib.accounts.settings:
        yield
        return
    store = crib.store if missing(crib.store) is None else open_store("memory:")
    crib.accounts.keep_in(store)
    async with opened(store):
        yield


async def connect(
    terminal: Terminal,
    name: NameArgument,
    owner: OwnerOption = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Rights to ask for beside the usual ones.")] = None,
    port: Annotated[int, typer.Option("--port", help="The port that the browser comes back to; any, unless said.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only show the address, and open no browser.")
    ] = False,
) -> None:
    """Connect an account, so that tools can act for you."""
    whose = owner or user()
    async with _accounts(terminal) as accounts:
        try:
            settings = accounts.named(name)
            if settings.grant == "key":
                known = await accounts.add_key(whose, name, await _key(terminal, name), by=user())
            elif not settings.personal:
                await accounts.token(whose, name)
                terminal.text(f"{name} needs nobody's consent, and a token for it could be had.")
                return
            else:
                begin = partial(accounts.begin, whose, name, by=user(), scope=scope)
                known = await accounts.finish(await _visited(terminal, begin, port, browser=not no_browser))
        except (Refused, ToolFailure) as error:
            raise CommandError(error.message, error.hint or "", exit_code=1, code=error.code) from None
    if terminal.json:
        terminal.data(_data(known))
    else:
        terminal.text(f"Connected {name} for {whose}.")
        terminal.say("Calls that waited for it go on where the crib is served, or when it is used next.", "dim")


async def _key(terminal: Terminal, name: str) -> str:
    if not sys.stdin.isatty():
        line: str = await asyncio.to_thread(sys.stdin.readline)
        return line.strip()
    return await asyncio.to_thread(getpass, f"Key for {name}: ")


async def _visited(
    terminal: Terminal,
    begin: Callable[[str], Awaitable[str]],
    port: int,
    *,
    browser: bool,
) -> AuthorizationReply:
    """Wait for a browser to come back to a port of this machine with what the server of the account gave it."""
    from toolcrib.accounts import AuthorizationReply

    came: asyncio.Future[AuthorizationReply] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                words = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            writer.close()
            return
        target = words[1].decode("ascii", "replace") if len(words) > 1 else ""
        fits = target.startswith("/callback?")
        body = _PAGE % (b"Thank you." if fits else b"There is nothing here.")
        head = f"HTTP/1.1 {'200 OK' if fits else '404 Not Found'}\r\ncontent-type: text/html\r\nconnection: close"
        writer.write(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()
        if fits and not came.done():
            came.set_result(AuthorizationReply.of(target))

    async with await asyncio.start_server(answer, "127.0.0.1", port) as server:
        back = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
        url = await begin(back)
        terminal.say(f"Visit this address, and agree there:\n  {url}", "bold")
        if browser and terminal.interactive:
            await asyncio.to_thread(webbrowser.open, url)
        try:
            async with asyncio.timeout(VISIT_S):
                return await came
        except TimeoutError:
            raise CommandError("Nobody came back from there in ten minutes", "connect it again", exit_code=1) from None


@command(app, "list")
async def list_accounts(
    terminal: Terminal,
    owner: Annotated[str | None, typer.Option("--owner", "-o", help="Only those of this owner.")] = None,
) -> None:
    """List connected accounts, and those that could be connected."""
    async with _accounts(terminal) as accounts:
        connected, known = await accounts.connected(owner), accounts.settings
    if terminal.json:
        terminal.data([_data(one) for one in connected])
        return
    if connected:
        terminal.table(COLUMNS, [_row(one) for one in connected])
    else:
        terminal.say("Nobody has connected an account.")
    free = [one.name for one in known if one.personal and one.name not in {two.account for two in connected}]
    for name in free:
        terminal.say(f"`{terminal.command('connect', name)}` connects {name}.", "dim")


@command(app, "remove")
async def remove_account(terminal: Terminal, name: NameArgument, owner: OwnerOption = None) -> None:
    """Remove an account: its tokens are deleted and revoked."""
    whose = owner or user()
    async with _accounts(terminal) as accounts:
        try:
            await accounts.remove(whose, name, by=user())
        except Refused as error:
            advice = f"`{terminal.command('accounts', 'list')}` shows them"
            raise CommandError(error.message, advice, exit_code=1, code=error.code) from None
    terminal.result({"account": name, "owner": whose, "removed": True}, f"Removed {name} of {whose}.")


def _data(known: ConnectedAccount) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(known)
    data.pop("secret", None)
    return data


def _row(known: ConnectedAccount) -> tuple[str, ...]:
    left = None if known.expires_at is None else known.expires_at - time.time()
    state = "stays" if left is None else f"for {span(left)}" if left > 0 else "is renewed at its next use"
    return (known.account, known.owner, " ".join(known.scopes), moment(known.connected_at), state)
