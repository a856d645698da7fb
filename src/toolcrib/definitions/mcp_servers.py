"""The MCP servers that definition files tell of. One is started by the first call that needs it, never by a listing."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from toolcrib.context import Context
from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.runners import environment
from toolcrib.definitions.values import mapping, text
from toolcrib.errors import BadTool, ToolFailure
from toolcrib.schema import nearest
from toolcrib.schema.redaction import without
from toolcrib.sources import OK, Health
from toolcrib.types import Result

if TYPE_CHECKING:
    from toolcrib.sources.mcp import McpClient, OfferedTool

PREFIX = "mcp__"
TRANSPORTS = ("stdio", "http", "sse", "streamable-http", "streamable_http")
START_S = 30.0
IDLE_S = 300.0
TALKING = ("httpx2", "mcp.client.sse", "mcp.client.streamable_http", "toolcrib.mcp")
"""The loggers that write down addresses, of which some hold a key."""


class _Hush(logging.Filter):
    """Takes the values that addresses hold out of what is logged."""

    masks: tuple[str, ...] = ()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, with secrets masked."""
        message = record.getMessage()
        if self.masks and (masked := without(self.masks, message)) != message:
            record.msg, record.args = masked, ()
        return True

    def keep(self, values: Mapping[str, str]) -> None:
        """Takes these out from now on."""
        self.masks = tuple(sorted({*self.masks, *environment.masks(values)}, key=len, reverse=True))
        for name in TALKING:
            logging.getLogger(name).addFilter(self)  # which adds it once


_hush = _Hush()


@dataclass(slots=True, eq=False)
class _Held:
    """A server, where it is, what it offered last, and how many calls use it now."""

    id: str
    place: Any
    key: Any
    server: McpClient
    offered: Sequence[OfferedTool] | None = None
    users: int = 0
    retired: bool = False


class Servers:
    """One server for each file; another one where its settings have changed.

    `on_change` is called when the tools of one changed; what it returns is awaited.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        values: Mapping[str, Mapping[str, str]],
        on_change: Callable[[str], Awaitable[None]],
    ) -> None:
        self._environ = environ
        self._values = values
        self._on_change = on_change
        self._running: dict[str, _Held] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def offered(self, definition: ToolDefinition) -> Sequence[OfferedTool] | None:
        """Return the tools of the server of a file, if they were ever listed."""
        held = self._running.get(definition.id)
        return None if held is None or held.place != _place(definition) else held.offered

    def health(self, definition: ToolDefinition) -> Health:
        """How the server of a file is, if it was ever needed."""
        held = self._running.get(definition.id)
        return OK if held is None else held.server.health()

    async def ask(self, definition: ToolDefinition) -> Sequence[OfferedTool]:
        """What the server offers; it is started for that.

        Raises:
            ToolFailure: `unavailable`.
        """
        with self._used(definition) as held:
            return await self._listed(held)

    async def call(
        self,
        definition: ToolDefinition,
        name: str,
        values: Mapping[str, Any],
        ctx: Context,
        *,
        repeatable: bool = False,
    ) -> Result:
        """Has the server run one of its tools.

        Raises:
            ToolFailure: it failed; `unavailable`, the server cannot be reached; `not_found`, it has no such tool.
        """
        with self._used(definition) as held:
            names = [one.name for one in held.offered or await self._listed(held)]
            if name not in names:
                close = nearest(name, names)
                hint = f"similar: {', '.join(close)}" if close else None
                raise ToolFailure("not_found", f"The server of '{definition.id}' has no tool '{name}'", hint=hint)
            return await held.server.call(name, values, ctx, repeatable=repeatable)

    async def reconcile(self, definition: ToolDefinition, ctx: Context) -> Result | None:
        """What became of a call that a crash cut off, where the server can tell.

        Raises:
            ToolFailure: it failed, or the server cannot be reached.
        """
        with self._used(definition) as held:
            return await held.server.reconcile(ctx)

    def forget(self, id: str) -> None:
        """Stops the server of a file that is gone, once its calls are over."""
        held = self._running.pop(id, None)
        if held is not None:
            self._retire(held)

    async def close(self) -> None:
        """Stops all of them."""
        for held in self._running.values():
            self._let_go(held)
        self._running = {}
        if self._closing:
            await asyncio.wait(self._closing)

    # Which server

    @contextmanager
    def _used(self, definition: ToolDefinition) -> Iterator[_Held]:
        """The server of a file, for as long as it is used: one that was replaced meanwhile is stopped after that."""
        held = self._held(definition)
        held.users += 1
        try:
            yield held
        finally:
            held.users -= 1
            if held.retired:
                self._retire(held)

    def _held(self, definition: ToolDefinition) -> _Held:
        """The server of a file, which starts when it is used.

        Raises:
            ToolFailure: `unavailable`, a variable is not set, or the file does not say where the server is.
        """
        env = environment.values(environment.declared(definition), self._environ)
        place = _place(definition)
        url = (
            None if place.url is None else _with_query(place.url, definition, {**env, **self._query_values(definition)})
        )
        known, key = self._running.get(definition.id), (place, url, tuple(sorted(env.items())))
        if known is not None and known.key == key:
            return known
        _check_reachable(definition, place)
        held = _Held(definition.id, place, key, self._server(definition, place, url, env))
        if known is not None:
            held.offered = known.offered if known.place == place else None
            self._retire(known)
        held.server.changed = lambda tools: self._changed(held, tools)
        self._running[definition.id] = held
        return held

    def _query_values(self, definition: ToolDefinition) -> Mapping[str, str]:
        return self._values.get(definition.id, {})

    def _server(self, definition: ToolDefinition, place: _Place, url: str | None, env: Mapping[str, str]) -> McpClient:
        from toolcrib.sources.mcp import McpClient, McpClientSettings

        here = environment.for_program({}, self._environ).items()
        ours = {name: value for name, value in here if os.environ.get(name) != value}
        where: dict[str, Any] = {"url": url} if url is not None else {"command": place.argv, "env": {**ours, **env}}
        folder = None if definition.path is None else str(definition.path.parent)
        try:
            return McpClient(
                McpClientSettings(name=definition.id.lower(), cwd=folder, start_s=START_S, idle_s=IDLE_S, **where),
            )
        except BadTool as error:
            raise _unreachable(f"The server of '{definition.id}': {error.problem}") from None

    # What it offers

    async def _listed(self, held: _Held) -> Sequence[OfferedTool]:
        tools = await held.server.tools()
        if (known := self._heard(held, tools)) is not None:
            await known
        return tools

    def _changed(self, held: _Held, tools: Sequence[OfferedTool]) -> None:
        self._heard(held, tools)

    def _heard(self, held: _Held, tools: Sequence[OfferedTool]) -> Awaitable[None] | None:
        others, held.offered = held.offered != tools, tools
        return self._on_change(held.id) if others and not held.retired else None

    # The end of one

    def _retire(self, held: _Held) -> None:
        held.retired = True
        if not held.users:
            self._let_go(held)

    def _let_go(self, held: _Held) -> None:
        task = asyncio.get_running_loop().create_task(held.server.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


@dataclass(frozen=True, slots=True)
class _Place:
    url: str | None
    argv: tuple[str, ...]


def _place(definition: ToolDefinition) -> _Place:
    url = address_of(definition)
    return _Place(url, () if url is not None else command_of(definition))


def _check_reachable(definition: ToolDefinition, place: _Place) -> None:
    block = definition.specific
    transport, auth = text(block.get("transport")).lower() or "stdio", block.get("auth")
    if transport not in TRANSPORTS:
        raise _unreachable(f"The transport '{transport}' of '{definition.id}' is not supported")
    if place.url is not None and "oauth" in (auth, mapping(auth).get("type")):
        raise _unreachable(f"'{definition.id}' wants OAuth, which is not supported")
    if place.url is None and not place.argv:
        raise _unreachable(f"'{definition.id}' does not say how its server is started")


def _unreachable(message: str) -> ToolFailure:
    return ToolFailure("unavailable", message, retryable=False)


def query_parameters(definition: ToolDefinition) -> list[str]:
    """Return the names of the parameters that the address of a server has."""
    declared = definition.specific.get("query_parameters")
    return [text(mapping(one).get("name")) or text(one) for one in declared] if isinstance(declared, tuple) else []


def _with_query(url: str, definition: ToolDefinition, values: Mapping[str, str]) -> str:
    """An address with those of its query parameters that have a value: one that is configured, or a declared variable.

    No other variable is read: the file does not declare it.
    """
    parts = urlsplit(url)
    parameters = {name: values[name] for name in query_parameters(definition) if values.get(name)}
    _hush.keep(parameters)
    query = dict(parse_qsl(parts.query)) | parameters
    return urlunsplit(parts._replace(query=urlencode(query)))


def address_of(definition: ToolDefinition) -> str | None:
    """Where a remote server is; None for one that is a program."""
    block = definition.specific
    command = text(block.get("server_command")).strip()
    remote = command if command.lower().startswith(("http://", "https://")) else ""
    return text(mapping(block.get("connection")).get("url")).strip() or remote or None


def command_of(definition: ToolDefinition) -> tuple[str, ...]:
    """The argument array that starts the server; empty where there is none, or only the name of a transport."""
    block = definition.specific
    command, args = text(block.get("server_command")).strip(), block.get("server_args")
    if not command or command.lower() in (text(block.get("transport")).lower(), *TRANSPORTS):
        return ()
    try:
        return (*shlex.split(command), *(str(one) for one in (args if isinstance(args, tuple) else ())))
    except ValueError:
        return ()


def mcp_tool(command: Command) -> str:
    """The server's name of a command; `mcp__<server>__` before it is dropped."""
    named = text(command.fields.get("mcp_tool"))
    if named.startswith(PREFIX):
        named = named.removeprefix(PREFIX).partition("__")[2] or named
    return named or command.name


def lacking(definition: ToolDefinition, offered: Sequence[OfferedTool]) -> list[Command]:
    """The commands that a file lists and its server does not have."""
    there = {one.name for one in offered}
    return [one for one in definition.commands if one.listed and mcp_tool(one) not in there]
