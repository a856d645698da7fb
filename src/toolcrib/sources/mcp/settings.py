"""How an MCP server is reached, and what it is called here."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from toolcrib.errors import BadTool, ToolFailure
from toolcrib.http.message import HEADER_NAME

Share = Literal["all", "owner", "session"]
"""What one process or connection of a server may be shared by."""
Revision = Literal["auto", "older"]
"""Which revision of the protocol a server is asked for: the newest that both know, or none but the older ones."""

MEGABYTE = 1024 * 1024
_VARIABLE = re.compile(r"[^=\x00\s]+")
_RUNNERS = frozenset({"npx", "uvx", "pipx", "bunx", "node", "deno", "bun", "python", "python3", "uv", "run", "exec"})


@dataclass(frozen=True, slots=True, kw_only=True)
class McpClientSettings:
    """A command that starts the server, or the address where it is.

    `env` is added to the few variables that every program gets. `headers` go with every HTTP request. With `tokens`
    each owner has a bearer token and a connection of its own, and an owner without one can call nothing. With `auth`
    each owner has what that returns for it, an `httpx2.Auth` such as the SDK's `OAuthClientProvider`. What is
    listed for the owner "" is for whoever has no credentials. A message over `message_bytes`, or with more values than
    `message_parts`, is not taken; of its tools `most_tools` are, of its prompts and resources `most_offers`.

    `share` says what one process or connection may be shared by: `all`, the sessions of one `owner`, or one `session`.
    Unless said, it is `owner` where each has credentials, else `session` for a server of an older revision, whose
    connection is a conversation, and `all` for the newest. There are at most `connections` of them, and each is ended
    after `idle_s` without a call. `revision` is `older` for a server that does not survive being asked for the newest.
    Without `tasks` it is not told that calls may become tasks. Clients of the crib see its tools and prompts as
    `name__tool`, or with `prefix` in place of `name__`; the prefix may be empty. `sampler` has a model take a turn
    where the server asks for one; without it the client that made the call is asked.

    Raises:
        BadTool: it has neither a command nor an address, or both; or it cannot be shared like that.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Callable[[str], Any] | None = field(default=None, repr=False)
    start_s: float = 30.0
    idle_s: float = 300.0
    share: Share | None = None
    connections: int = 32
    revision: Revision = "auto"
    tasks: bool = True
    message_bytes: int = 16 * MEGABYTE
    message_parts: int = 200_000
    most_tools: int = 1000
    most_offers: int = 1000
    prefix: str | None = None
    sampler: Callable[[Any, Mapping[str, Any]], Awaitable[dict[str, Any]]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise BadTool(self.name, "mcp", "a server has a command or an address, and not both", self.name)
        if self.url is not None and not is_address(self.url):
            raise BadTool(self.name, "mcp", f"{self.url!r} is no http address", self.name)
        if self.share not in (None, *get_args(Share)):
            raise BadTool(self.name, "share", f"{self.share!r} is none of {', '.join(get_args(Share))}", self.name)
        for key, names, legal_name in (("headers", self.headers, HEADER_NAME), ("env", self.env, _VARIABLE)):
            if bad := [name for name in names if not legal_name.fullmatch(name)]:
                raise BadTool(self.name, key, f"{bad[0]!r} is no name that can be sent", self.name)
        if self.share == "all" and self.personal:
            raise BadTool(self.name, "share", "credentials of owners cannot be shared by all", self.name)

    @property
    def personal(self) -> bool:
        """True if each owner has credentials of its own."""
        return bool(self.tokens) or self.auth is not None

    def credentials(self, owner: str) -> Credentials:
        """What says who asks.

        Raises:
            ToolFailure: `denied`, the owner has none.
        """
        headers = dict(self.headers)
        if self.tokens and owner:
            if owner not in self.tokens:
                raise ToolFailure("denied", f"There are no credentials of {owner} for {self.name}")
            headers["authorization"] = f"Bearer {self.tokens[owner]}"
        return Credentials(headers, None if self.auth is None else self.auth(owner))


class Credentials(NamedTuple):
    """What goes with every request of one owner."""

    headers: dict[str, str]
    auth: Any = None


def is_address(text: str) -> bool:
    """True if it is where a server can be reached, and no program."""
    return text.startswith(("http://", "https://")) and bool(urlsplit(text).hostname)


def name_of(words: tuple[str, ...]) -> str:
    """A name for the server of a command line or an address.

    It is never what the server calls itself: one that says it is `shell` would get what the rules give to `shell`.
    """
    if is_address(words[0]):
        return legal(urlsplit(words[0]).hostname or "")
    for word in words:
        name = re.split(r"[/\\]", word)[-1]
        if not word.startswith("-") and name not in _RUNNERS and legal(name) != "server":
            return legal(re.sub(r"(?<=.)@[^@]*$|\.(py|js|mjs|ts)$", "", name))
    return legal(words[0])


def legal(name: str) -> str:
    """The nearest thing that may be a namespace."""
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:32] or "server"
