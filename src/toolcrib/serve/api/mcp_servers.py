"""The MCP servers behind a running crib: what they write, and how to list their tools anew or start them again."""

from __future__ import annotations

from msgspec import Struct

from toolcrib.serve.api.errors import missing
from toolcrib.serve.api.request import ApiRequest, json_reply
from toolcrib.serve.api.router import ApiReply, Route
from toolcrib.sources.mcp import Mcp


class McpServerForm(Struct):
    """An MCP server: how it is, how many processes or connections of it there are, and how many tools it has."""

    name: str
    status: str
    reason: str
    connections: int
    tools: int


class McpLogForm(Struct):
    """The end of what the processes of a server wrote to their standard error, one text for each."""

    name: str
    lines: list[str]


def _server(request: ApiRequest) -> Mcp:
    for source in request.api.crib.registry.sources:
        if isinstance(source, Mcp) and source.name == request.path[0]:
            return source
    raise missing("MCP server")


async def _form(source: Mcp) -> McpServerForm:
    health, client = source.health_of(None), source.server
    return McpServerForm(source.name, health.status, health.reason, client.connections, len(await client.tools()))


async def refresh(request: ApiRequest) -> ApiReply:
    """Lists the tools of a server anew."""
    source = _server(request)
    await source.refresh()
    return json_reply(await _form(source))


async def restart(request: ApiRequest) -> ApiReply:
    """Ends all processes and connections of a server, and begins anew."""
    source = _server(request)
    await source.restart()
    return json_reply(await _form(source))


async def log(request: ApiRequest) -> ApiReply:
    """What a server wrote to its standard error."""
    source = _server(request)
    return json_reply(McpLogForm(source.name, source.server.log_texts()))


ROUTES = [
    Route(
        "POST",
        "/v1/mcp/{server}/refresh",
        refresh,
        "Lists the tools of an MCP server anew.",
        "admin",
        gives={200: McpServerForm},
    ),
    Route(
        "POST",
        "/v1/mcp/{server}/restart",
        restart,
        "Ends all processes of an MCP server and starts it again; calls under way end as if it had died.",
        "admin",
        gives={200: McpServerForm},
    ),
    Route(
        "GET",
        "/v1/mcp/{server}/log",
        log,
        "The end of what the processes of an MCP server wrote to their standard error, without secrets.",
        "admin",
        gives={200: McpLogForm},
    ),
]
