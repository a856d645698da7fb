"""`McpLibrary`: the prompts and resources that a program offers beside its tools.

A prompt or resource is a function, and getting or reading it is a call: it is checked, decided upon and logged like
any other, and it may ask. Therefore a library is a source, given to the crib; its functions live in the namespaces
`prompts` and `resources`, which the MCP server opens and does not list among the tools.
"""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload
from urllib.parse import unquote

from toolcrib.serve.mcp.content import block
from toolcrib.sources import Source
from toolcrib.sources.functions import as_tool
from toolcrib.tool import Tool
from toolcrib.types import Block, Result

Function = TypeVar("Function", bound=Callable[..., Any])

SOURCE = "library"
PROMPTS = "prompts"
RESOURCES = "resources"
LONGEST = 8192
_VARIABLE = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")

Completion = Sequence[str] | Callable[[str, Mapping[str, str]], Any]
"""What may stand for an argument: texts, or a function of what was typed and of the other arguments."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: how it is listed, and the tool that makes its messages."""

    name: str
    tool: Tool
    listed: Mapping[str, Any]
    complete: Mapping[str, Completion] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource or, where its address has variables, a template of resources."""

    uri: str
    tool: Tool
    listed: Mapping[str, Any]
    complete: Mapping[str, Completion] = field(default_factory=dict)
    pattern: re.Pattern[str] | None = None

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables of an address that it stands for, None for any other."""
        if self.pattern is None:
            return {} if uri == self.uri else None
        match = self.pattern.fullmatch(uri)
        return None if match is None else {name: unquote(value) for name, value in match.groupdict().items()}


class McpLibrary(Source):
    """Prompts and resources, which may come and go; give it to the crib as a source, and to the server."""

    name = SOURCE
    namespaces = (PROMPTS, RESOURCES)

    def __init__(self) -> None:
        self.prompts: dict[str, Prompt] = {}
        self.resources: dict[str, Resource] = {}
        self.listeners: list[Callable[[str], None]] = []
        self._changed: Callable[[Iterable[Tool]], None] | None = None

    @overload
    def prompt(
        self, function: Function, /, *, complete: Mapping[str, Completion] | None = None, **fields: Any
    ) -> Function: ...
    @overload
    def prompt(
        self, function: None = None, /, *, complete: Mapping[str, Completion] | None = None, **fields: Any
    ) -> Callable[[Function], Function]: ...
    def prompt(
        self,
        function: Any = None,
        /,
        *,
        complete: Mapping[str, Completion] | None = None,
        **fields: Any,
    ) -> Any:
        """Offers what a function gives as a prompt: a text, a block, or a list of texts, blocks and messages.

        A message is `{"role": ..., "content": text or block}`. Its arguments are those of the function.
        """
        if function is None:
            return lambda decorated: self.prompt(decorated, complete=complete, **fields)
        tool = _wrapped(function, _messages, namespace=PROMPTS, **fields)
        listed = {"name": tool.name, "description": tool.description, "arguments": _arguments(tool)}
        self.prompts[tool.name] = Prompt(tool.name, tool, _titled(listed, tool), complete or {})
        self._tell()
        return function

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        mime_type: str | None = None,
        complete: Mapping[str, Completion] | None = None,
        **fields: Any,
    ) -> Callable[[Function], Function]:
        """Offers what a function gives as a resource: a text, bytes, or other data, which is shown as JSON.

        Variables in the address, `{id}` or `{+path}` for one with slashes, are arguments of the function.
        """

        def take(function: Function) -> Function:
            called = name or function.__name__
            fit = _UNFIT.sub("_", called).lstrip(".-") or "resource"
            tool = _wrapped(function, _contents(mime_type), namespace=RESOURCES, name=fit, **fields)
            pattern = _pattern(uri)
            listed = {"uri" if pattern is None else "uriTemplate": uri, "name": called}
            listed["description"] = tool.description
            if mime_type is not None:
                listed["mimeType"] = mime_type
            self.resources[uri] = Resource(uri, tool, _titled(listed, tool), complete or {}, pattern)
            self._tell()
            return function

        return take

    def remove(self, name: str) -> None:
        """Takes a prompt, by its name, or a resource, by its address, from the library."""
        self.prompts.pop(name, None)
        self.resources.pop(name, None)
        self._tell()

    def updated(self, uri: str) -> None:
        """Tells who subscribed that a resource has changed."""
        for listener in self.listeners:
            listener(uri)

    def find(self, uri: str) -> tuple[Resource, dict[str, str]] | None:
        """The resource of an address, with the variables of its template; a very long one is none."""
        if len(uri) > LONGEST:
            return None
        exact = self.resources.get(uri)
        if exact is not None and exact.pattern is None:
            return exact, {}
        for resource in self.resources.values():
            variables = resource.match(uri)
            if variables is not None:
                return resource, variables
        return None

    async def start(self, changed: Callable[[Iterable[Tool]], None]) -> Iterable[Tool]:
        """Its functions as tools."""
        self._changed = changed
        return self._tools()

    async def stop(self) -> None:
        """There is nothing to let go of."""
        self._changed = None

    def _tools(self) -> list[Tool]:
        return [*(one.tool for one in self.prompts.values()), *(one.tool for one in self.resources.values())]

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed(self._tools())


def _wrapped(function: Callable[..., Any], shape: Callable[[Any], Any], **fields: Any) -> Tool:
    """The tool of a function, whose value is brought into the shape that the protocol wants."""
    tool = as_tool(function, source=SOURCE, **{"read_only": True, "output_schema": None, **fields})
    run: Any = tool.run

    async def shaped(ctx: Any, values: Mapping[str, Any]) -> Any:
        return shape(await run(ctx, values))

    def plainly_shaped(ctx: Any, values: Mapping[str, Any]) -> Any:
        return shape(run(ctx, values))

    return tool.but(run=shaped if tool.mode == "async" else plainly_shaped)


def _titled(listed: dict[str, Any], tool: Tool) -> dict[str, Any]:
    return {**listed, "title": tool.title} if tool.title else listed


def _arguments(tool: Tool) -> list[dict[str, Any]]:
    required = tool.input_schema.get("required", ())
    return [
        {"name": name, "required": name in required}
        | ({"description": what["description"]} if isinstance(what, Mapping) and "description" in what else {})
        for name, what in tool.input_schema.get("properties", {}).items()
    ]


def _pattern(uri: str) -> re.Pattern[str] | None:
    pieces, at = [], 0
    for match in _VARIABLE.finditer(uri):
        pieces.append(re.escape(uri[at : match.start()]))
        pieces.append(f"(?P<{match[2]}>{'.+' if match[1] else '[^/]+'})")
        at = match.end()
    return re.compile("".join([*pieces, re.escape(uri[at:])])) if pieces else None


def _messages(value: Any) -> Any:
    if isinstance(value, Result):
        return value
    items = value if isinstance(value, list | tuple) else [value]
    return {"messages": [_message(one) for one in items]}


def _message(content: Any) -> dict[str, Any]:
    role = "user"
    if isinstance(content, Mapping) and "role" in content:
        role, content = str(content["role"]), content["content"]
    if not isinstance(content, Mapping):
        content = {"type": "text", "text": str(content)}
    return {"role": role, "content": block(content) if isinstance(content, Block) else dict(content)}


def _contents(mime_type: str | None) -> Callable[[Any], Any]:
    def shape(value: Any) -> Any:
        if isinstance(value, Result):
            return value
        if isinstance(value, bytes):
            kind = mime_type or "application/octet-stream"
            return {"mimeType": kind, "blob": base64.b64encode(value).decode()}
        if isinstance(value, str):
            return {"mimeType": mime_type or "text/plain", "text": value}
        return {"mimeType": mime_type or "application/json", "json": value}

    return shape


async def completed(complete: Completion | None, typed: str, others: Mapping[str, str]) -> list[str]:
    """What may stand for an argument, beginning with what was typed where texts are given."""
    if complete is None:
        return []
    if not callable(complete):
        return [one for one in complete if one.startswith(typed)]
    value: Any = complete(typed, others)
    if inspect.isawaitable(value):
        value = await value
    return [str(one) for one in value]
