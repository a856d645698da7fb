"""Reading a resource, getting a prompt and completing an argument as tools: they are checked, decided upon and logged.

They are in the namespace of the server and in no list of tools: MCP clients reach them by the methods of the protocol,
programs and rules of a policy by their names, `files.resources.read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.sources.mcp.results import own_meta
from toolcrib.sources.mcp.settings import legal
from toolcrib.tool import Tool
from toolcrib.types import Annotations, Limits, Result

if TYPE_CHECKING:
    from toolcrib.sources.mcp.server import McpClient

READ, GET, COMPLETE = "resources/read", "prompts/get", "completion/complete"


class _Method(NamedTuple):
    feature: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...]


_TEXT = {"type": "string"}
_OBJECT = {"type": "object"}
_METHODS = {
    READ: _Method("resources", "Read a resource.", {"uri": _TEXT}, ("uri",)),
    GET: _Method("prompts", "Get the messages of a prompt.", {"name": _TEXT, "arguments": _OBJECT}, ("name",)),
    COMPLETE: _Method(
        "completions",
        "Complete an argument of a prompt or a template of resources.",
        {"ref": _OBJECT, "argument": _OBJECT, "context": _OBJECT},
        ("ref", "argument"),
    ),
}


def tool_name(method: str) -> str:
    """What the tool of a method is called in the namespace of its server."""
    return method.replace("/", ".")


def method_of(tool: Tool | None) -> str | None:
    """The method that a tool stands for, if it is one of these."""
    declared = None if tool is None else tool.metadata.get("mcp")
    method = declared.get("method") if isinstance(declared, Mapping) else None
    return method if isinstance(method, str) else None


def request_tools(server: McpClient, *, trusted: bool, limits: Limits) -> Iterator[Tool]:
    """The tools for what a server has beside tools."""
    for method, what in _METHODS.items():
        if what.feature in server.features:
            yield _tool(server, method, what, trusted=trusted, limits=limits)


def _tool(server: McpClient, method: str, what: _Method, *, trusted: bool, limits: Limits) -> Tool:
    async def run(ctx: Any, values: Mapping[str, Any]) -> Result:
        return await _request(server, method, values, ctx)

    name = legal(server.settings.name)
    schema = {"type": "object", "properties": dict(what.properties), "required": list(what.required)}
    made: Tool = Tool(
        name=tool_name(method),
        namespace=name,
        description=what.description,
        input_schema=schema,
        annotations=Annotations(read_only=True, open_world=True),
        effect=None if trusted else "once",
        limits=limits,
        metadata={"listed": False, "mcp": {"server": name, "method": method}},
        run=run,
        upstream=name,
        source=name,
        trusted=trusted,
    )
    return made


async def _request(server: McpClient, method: str, values: Mapping[str, Any], ctx: Any) -> Result:
    raw = await server.request(method, dict(values), ctx)
    data = {name: value for name, value in raw.items() if name not in ("resultType", "_meta", "ttlMs", "cacheScope")}
    meta = own_meta(raw.get("_meta"))
    return Result({**data, "_meta": meta} if meta else data)
