"""What the MCP clients that made calls can do, so that a server is asked for no more than its real client knows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

MOST = 10_000


class McpCaller(NamedTuple):
    """The client behind a call: the capabilities that it declared, and from which level on it wants log lines."""

    capabilities: Mapping[str, Any]
    level: str | None = None

    def can(self, name: str) -> bool:
        """True if it declared a capability."""
        return isinstance(self.capabilities.get(name), Mapping)

    def knows(self, extension: str) -> bool:
        """True if it declared an extension."""
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, Mapping) and extension in extensions


class McpCallers:
    """The clients of the newest calls. It is a hint: a call of which nothing is known is made for Toolcrib itself."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: OrderedDict[str, McpCaller] = OrderedDict()

    def note(self, call: str, caller: McpCaller) -> None:
        """Remembers who made a call, or goes on with it."""
        self._known[call] = caller
        self._known.move_to_end(call)
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def get(self, call: str) -> McpCaller | None:
        """The client of a call, if it is known."""
        return self._known.get(call)


callers = McpCallers()
