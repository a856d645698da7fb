"""A source as an administrator describes it while the server runs, and what the server allows of that."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta, Struct, to_builtins

from toolcrib.errors import BadTool, Refused
from toolcrib.limits import RATE
from toolcrib.secret_references import SCHEMES, is_reference
from toolcrib.sources import Source
from toolcrib.types import Limits

Line = Annotated[str, Meta(min_length=1, max_length=4096)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_SECRET = re.compile(r"(?i)(key|token|secret|passw(or)?d|signature|credential)s?=[^$\s]")
_SERVER = ("share", "connections", "start_s", "idle_s", "revision", "tasks", "prefix")
_ADDRESS = r"^https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._/-]*)?$"
_REFERENCES = {"additionalProperties": {"pattern": f"^({'|'.join(map(re.escape, SCHEMES))})"}}
_NONE: dict[str, Any] = {"type": "null"}
_EMPTY = {"maxProperties": 0}
_OF_SERVERS = (*_SERVER, "limits", "breaker")
SHAPES: dict[str, Any] = {
    "properties": {"env": _REFERENCES, "headers": _REFERENCES},
    "oneOf": [
        {
            "title": "An MCP server by its address",
            "required": ["mcp"],
            "properties": {"mcp": {"type": "string", "pattern": _ADDRESS}, "openapi": _NONE, "env": _EMPTY},
        },
        {
            "title": "An MCP server by its command",
            "required": ["mcp"],
            "properties": {
                "mcp": {"type": "array", "items": {"type": "string", "pattern": r"^[^=:@]+$"}},
                "openapi": _NONE,
                "headers": _EMPTY,
            },
        },
        {
            "title": "An OpenAPI document by its address",
            "required": ["openapi"],
            "properties": {
                "openapi": {"type": "string", "pattern": _ADDRESS},
                "mcp": _NONE,
                "env": _EMPTY,
                "account": {"const": False},
                **dict.fromkeys(_OF_SERVERS, _NONE),
            },
        },
    ],
}
"""What a source is, for those who read the description of the API. `source_of` takes more forms of the same."""


class SourceRules(NamedTuple):
    """What administrators may add: nothing at all unless `allowed`, commands with `programs`.

    `secrets` are globs of the references that they may use; without any, none.
    """

    allowed: bool = True
    programs: bool = False
    secrets: tuple[str, ...] = ()


class SourceLimits(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Bounds of each tool of a source, as `limits` of an entry in `crib.yaml` has them."""

    timeout_s: Seconds | None = None
    output_bytes: Annotated[int, Meta(ge=1)] | None = None
    concurrency: Annotated[int, Meta(ge=1)] | None = None
    wait_s: Seconds | None = None
    idle_timeout: Seconds | None = None
    rate: Annotated[str, Meta(max_length=32, extra_json_schema={"pattern": RATE})] | None = None


class SourceEntry(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A source to add: an MCP server by its address or its command, or an OpenAPI document by its address.

    The values of `env` and `headers` are references to secrets, such as `env:NAME`. The other settings are those of an
    entry in `crib.yaml`.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
    mcp: Line | Annotated[list[Line], Meta(min_length=1, max_length=256)] | None = None
    openapi: Line | None = None
    trusted: bool = False
    env: Annotated[dict[str, Line], Meta(max_length=64)] = {}
    headers: Annotated[dict[str, Line], Meta(max_length=64)] = {}
    timeout: Seconds | None = None
    share: Literal["all", "owner", "session"] | None = None
    connections: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    start_s: Seconds | None = None
    idle_s: Seconds | None = None
    revision: Literal["auto", "older"] | None = None
    tasks: bool | None = None
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,32}$")] | None = None
    account: bool | Line = False
    limits: SourceLimits | None = None
    breaker: Annotated[int, Meta(ge=0, le=1000)] | None = None
    """After so many failures in a row of a call it is refused for a while; 0 never."""

    @property
    def command(self) -> list[str]:
        """The words of its command, or its address alone.

        Raises:
            Refused: `invalid_arguments`, these are no words.
        """
        if not isinstance(self.mcp, str):
            return list(self.mcp or ())
        if self.mcp.startswith(("http://", "https://")):
            return [self.mcp]
        try:
            return shlex.split(self.mcp)
        except ValueError as error:
            raise _wrong(f"mcp is no command: {error}", "quote its words as a shell wants it, or send a list") from None


def _wrong(message: str, hint: str) -> Refused:
    return Refused("invalid_arguments", message, hint)


def source_of(entry: SourceEntry, rules: SourceRules) -> Source:
    """Return the source that an entry describes; it is not started.

    Raises:
        Refused: `invalid_arguments`, it describes none; `denied`, the server does not allow it.
    """
    if not rules.allowed:
        raise Refused(
            "denied", "This server lets nobody add sources", "say serve: {sources: {allowed: true}} in crib.yaml"
        )
    if (entry.mcp is None) == (entry.openapi is None):
        raise _wrong("A source is either mcp or openapi", "send {mcp: ADDRESS OR COMMAND} or {openapi: ADDRESS}")
    _check_secrets({**entry.env, **entry.headers}, rules)
    try:
        return _server(entry, rules) if entry.openapi is None else _document(entry, entry.openapi)
    except BadTool as error:
        raise _wrong(f"{error.field}: {error.problem}", "change the settings of the source") from None


def _check_secrets(values: Mapping[str, str], rules: SourceRules) -> None:
    """Refuses a secret that stands in the entry itself, which would be kept in the log, and references of others."""
    for name, value in values.items():
        if not is_reference(value):
            places = ", ".join(SCHEMES)
            raise _wrong(
                f"The value of {name} is no reference to a secret",
                f"name where it is ({places}); what is sent here is kept in the log",
            )
        if not any(fnmatchcase(value, pattern) for pattern in rules.secrets):
            raise Refused(
                "denied",
                f"This server does not let added sources use {value}",
                "list it under serve: {sources: {secrets: [...]}} in crib.yaml, as a glob",
            )


def _check_words(words: Iterable[str]) -> None:
    """Refuses an address or arguments in which a secret stands, as far as that can be seen."""
    for word in words:
        parts = urlsplit(word) if "://" in word else None
        if _SECRET.search(word) or (parts is not None and (parts.username or parts.password)):
            raise _wrong(
                "A secret stands in the address or the command",
                "send it in headers or env, as a reference; what is sent here is kept in the log",
            )


def _server(entry: SourceEntry, rules: SourceRules) -> Source:
    from toolcrib.sources.mcp import Mcp
    from toolcrib.sources.mcp.settings import is_address

    command = entry.command
    if not command:
        raise _wrong("mcp is empty", "send an address or a command")
    _check_words(command)
    reached = len(command) == 1 and is_address(command[0])
    if not reached and not rules.programs:
        raise Refused(
            "denied",
            "This server lets nobody add sources that are programs",
            "say serve: {sources: {programs: true}} in crib.yaml, or name an address",
        )
    if reached and entry.env:
        raise _wrong("An address has no process to give env to", "send headers, or a command")
    if not reached and entry.headers:
        raise _wrong("A command takes no headers", "send env, or an address")
    more: dict[str, Any] = {key: value for key in _SERVER if (value := getattr(entry, key)) is not None}
    more |= {"env": entry.env, "headers": entry.headers, "account": entry.account}
    return Mcp(*command, name=entry.name, trusted=entry.trusted, limits=_limits(entry), **more)


def _limits(entry: SourceEntry) -> Limits:
    bounds: dict[str, Any] = {} if entry.limits is None else to_builtins(entry.limits)
    if entry.timeout is not None:
        bounds["timeout_s"] = entry.timeout
    if entry.breaker is not None:
        bounds["repeat"] = entry.breaker or None
    try:
        return Limits(**bounds)
    except ValueError as error:
        raise _wrong(f"limits: {error}", "change the limits of the source") from None


def _document(entry: SourceEntry, address: str) -> Source:
    from toolcrib.sources.openapi import OpenApi
    from toolcrib.sources.openapi.loader import is_address

    if not is_address(address):
        raise _wrong("openapi is no address", "send one that begins with http:// or https://")
    _check_words([address])
    if entry.env or entry.account or any(getattr(entry, key) is not None for key in _OF_SERVERS):
        raise _wrong("An OpenAPI document takes name, trusted, headers and timeout", "leave the other settings out")
    return OpenApi(address, namespace=entry.name, trusted=entry.trusted, headers=entry.headers, timeout=entry.timeout)
