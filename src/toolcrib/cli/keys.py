"""`toolcrib keys`: the API keys of a server, kept in the store of its crib. All servers over it know at once."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from toolcrib.cli.command import command, group
from toolcrib.cli.display.event_lines import moment, span
from toolcrib.cli.durations import seconds_of
from toolcrib.cli.questions import user
from toolcrib.cli.terminal import Cell, CommandError, Terminal

if TYPE_CHECKING:
    from toolcrib.serve.keyring import ApiKey, Keyring

app = group("keys", "Make, list and revoke the API keys of a server.")
COLUMNS = ("Key", "Name", "Owner", "Scopes", "Namespaces", "Made", "Last used", "State")
USUAL = ("read", "call", "answer")  # what a key may do that names no scopes


@asynccontextmanager
async def _ring(terminal: Terminal) -> AsyncIterator[Keyring]:
    """The keys of the crib's store, which is made if there is none."""
    from toolcrib.cli.store_choice import chosen_store, opened
    from toolcrib.serve.keyring import Keyring

    store = chosen_store(terminal.crib)
    if store.url.startswith("memory:"):
        advice = "name one that stays: store: sqlite:///crib.db in crib.yaml, or --store"
        raise CommandError("A store in memory keeps no keys", advice)
    async with opened(store, make=True):
        ring = Keyring(lambda: store, store.now or time.time)
        await ring.load()
        yield ring


@command(app, "add")
async def add_key(
    terminal: Terminal,
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="Whose sessions it opens.")],
    name: Annotated[str, typer.Option("--name", help="What people call the key; without it its owner's name.")] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", help="read, call, answer, metrics or admin; again for more. Without it: the first three."
        ),
    ] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Only these; without it what the server opens to all.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="After so long it opens nothing: 12h, 30d, 52w.")
    ] = None,
) -> None:
    """Make a key. It is shown now and never again: only its digest is kept."""
    until = None if expires is None else time.time() + _seconds(expires)
    if namespace:
        await _check_namespaces(terminal, namespace)
    async with _ring(terminal) as ring:
        first = not ring.keys
        key, kept = await ring.add(
            owner, by=user(), name=name, scopes=scope or (), namespaces=namespace, expires_at=until
        )
    if terminal.json:
        terminal.data({**_data(kept), "key": key})
        return
    terminal.text(key)
    terminal.say(f"This is key {kept.id} of {owner}. Keep it: it is not shown again.", "yellow")
    terminal.say("Clients send it as `Authorization: Bearer KEY`.", "dim")
    if first:
        terminal.say("A server that already runs without keys asks for one when it is started again.", "dim")


async def _check_namespaces(terminal: Terminal, names: Sequence[str]) -> None:
    """Make sure that a key opens something; while a source is away, nobody knows what it will bring.

    Raises:
        CommandError: no tool has one of the namespaces.
    """
    from toolcrib.cli.tools import stocked
    from toolcrib.serve.findings import unknown_namespaces

    async with stocked(terminal.crib) as crib:
        for name, close in unknown_namespaces(crib, names):
            message = f"No tool has the namespace '{name}'"
            if crib.registry.pending or crib.registry.unwell():
                terminal.say(f"{message}; sources that are away may bring it.", "yellow")
                continue
            known = ", ".join(crib.catalog.namespaces())
            advice = f"there are {known}" if close is None else f"did you mean '{close}'?"
            raise CommandError(message, advice, exit_code=1, code="not_found")


def _seconds(text: str) -> float:
    seconds = seconds_of(text)
    if seconds is None:
        raise CommandError(f"--expires {text!r} is no time", "write it as 12h, 30d or 52w")
    return seconds


@command(app, "list")
async def list_keys(terminal: Terminal) -> None:
    """List the keys; never the keys themselves."""
    async with _ring(terminal) as ring:
        keys = ring.keys
    if terminal.json:
        terminal.data([_data(key) for key in keys])
    elif keys:
        terminal.table(COLUMNS, [_row(key) for key in keys])
    else:
        terminal.say(f"No keys. `{terminal.command('keys', 'add', 'OWNER')}` makes one.")


@command(app, "revoke")
async def revoke_key(
    terminal: Terminal, key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, as `keys list` shows it.")]
) -> None:
    """Take a key away: from now on it opens nothing, on any server."""
    async with _ring(terminal) as ring:
        if all(key != one.id for one in ring.keys):
            advice = f"`{terminal.command('keys', 'list')}` shows their ids"
            raise CommandError(f"There is no key '{key}'", advice, exit_code=1, code="not_found")
        kept = await ring.revoke(key, by=user())
    terminal.result(_data(kept), f"Revoked {kept.id} of {kept.owner}.")


def _data(key: ApiKey) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(key)
    return {**data, "active": key.holds(time.time())}


def _row(key: ApiKey) -> Sequence[Cell]:
    now = time.time()
    if key.revoked_at is not None:
        state: Cell = ("revoked", "red")
    elif key.expires_at is not None:
        left = key.expires_at - now
        state = (f"expires in {span(left)}", "") if left > 0 else ("expired", "red")
    else:
        state = ("active", "green")
    used = "" if key.last_used is None else f"{span(now - key.last_used)} ago"
    spaces = "" if key.namespaces is None else ", ".join(key.namespaces)
    scopes = ", ".join(key.scopes or USUAL)
    return (key.id, key.name, key.owner, scopes, spaces, moment(key.created_at), used, state)
