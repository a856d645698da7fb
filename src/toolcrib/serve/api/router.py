"""The table of routes: method, path, what a route takes and gives, and who answers. The OpenAPI document is made of it.

It is a tree of path segments in two dictionaries; with some forty routes no framework would find one sooner.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec

from toolcrib.serve.api.errors import ApiError, nowhere
from toolcrib.serve.asgi import JSON, Header

if TYPE_CHECKING:
    from toolcrib.serve.api.request import ApiRequest


class ApiReply(NamedTuple):
    """A whole answer."""

    body: bytes
    status: int = 200
    headers: tuple[Header, ...] = (JSON,)


Handler = Callable[["ApiRequest"], Awaitable[ApiReply | None]]
"""Answers a request; None where it has sent its answer itself, as a stream does."""


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that the API does.

    `right` is what a principal needs for it; with None nobody is asked who they are. `query` and `body` are what it
    takes; `gives` is what comes back, by status. `streams`: it answers with events to who accepts them; `reads`: its
    handler reads a body of lines of JSON. `demands` is what else holds of the body, as JSON Schema.
    """

    method: str
    path: str
    handler: Handler
    does: str
    right: str | None = "read"
    query: type[msgspec.Struct] | None = None
    body: Any = None
    gives: Mapping[int, Any] = field(default_factory=dict)
    streams: bool = False
    lines: bool = False
    reads: bool = False
    demands: Mapping[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        """The parts of the path that differ from request to request."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


_ANY, _HERE = 0, 1


class Table:
    """Finds the route of a request."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._tree: dict[Any, Any] = {}
        for route in self.routes:
            node = self._tree
            for part in route.path.split("/")[1:]:
                node = node.setdefault(_ANY if part.startswith("{") else part, {})
            node.setdefault(_HERE, {})[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, list[str]]:
        """The route, and the values of what differs in its path. `path` is as it was sent.

        Raises:
            ApiError: 404 or 405, there is none.
        """
        node: Any = self._tree
        values: list[str] = []
        for part in path.split("/")[1:]:
            inner = node.get(part)
            if inner is None:
                inner = node.get(_ANY)
                if inner is None or not part or "%00" in part:  # no name holds a NUL, and not every store takes one
                    raise nowhere()
                values.append(unquote(part) if "%" in part else part)
            node = inner
        if _HERE not in node:
            raise nowhere()
        route = node[_HERE].get(method)
        if route is None:
            allowed = ", ".join(sorted(node[_HERE]))
            headers = ((b"allow", allowed.encode()),)
            raise ApiError("method_not_allowed", f"This path takes {allowed}, not {method}", headers=headers)
        return route, values
