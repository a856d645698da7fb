"""A server made with the SDK. Run as `kit.py stdio`, or as `kit.py http <port>`, with `http2025` or `sse` as before."""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Annotated, Any

import uvicorn
from mcp import MCPError
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Image, MCPServer, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

warnings.simplefilter("ignore")
server = MCPServer("builtin")


class Sum(BaseModel):
    total: int


class Color(BaseModel):
    color: str


def choose() -> Elicit[Color]:
    return Elicit("Which color?", Color)


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def add(a: int, b: int = 1) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def refuse() -> str:
    """Fail."""
    raise ValueError("out of paint")


@server.tool(structured_output=False)
def picture() -> Image:
    """Draw a dot."""
    return Image(data=b"\x89PNG", format="png")


@server.tool(structured_output=False)
async def work(ctx: Context) -> str:
    """Take three steps."""
    for step in range(1, 4):
        await ctx.report_progress(step, 3, f"step {step}")
        await ctx.info(f"did {step}")
        await asyncio.sleep(0.12)
    return "worked"


@server.tool(structured_output=False)
async def paint(chosen: Annotated[ElicitationResult[Color], Resolve(choose)]) -> str:
    """Ask for a color."""
    return chosen.data.color if isinstance(chosen, AcceptedElicitation) else "nothing"


talking: list[asyncio.Future[None]] = []


@server.tool(structured_output=False)
async def talk(name: str, together: int, ctx: Context) -> str:
    """Say and ask things under a name, when so many others are about to do the same."""
    talking.append(asyncio.get_running_loop().create_future())
    if len(talking) == together:
        for one in talking:
            one.set_result(None)
        talking.clear()
    else:
        await talking[-1]
    await ctx.report_progress(1, 2, f"progress of {name}")
    await ctx.info(f"log of {name}")
    try:
        answer = await ctx.elicit(f"question of {name}", Color)
    except MCPError:
        return f"{name} was not asked"
    return f"{name}: {answer.data.color if answer.action == 'accept' else answer.action}"


@server.tool(structured_output=False)
async def sleep(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "slept"


@server.tool(structured_output=False)
def large(size: int) -> str:
    """Answer with much."""
    return "x" * size


@server.tool(structured_output=False)
def who(ctx: Context) -> str:
    """Tell what credentials came with the request."""
    return str((ctx.headers or {}).get("authorization"))


@server.tool(structured_output=False)
def connection(ctx: Context) -> str:
    """Tell which session of the protocol the request came with."""
    return str((ctx.headers or {}).get("mcp-session-id"))


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Offer one more tool."""
    server.add_tool(lambda: "grown", name="grown", description="New.")
    await ctx.notify_tools_changed()
    return "grew"


def older(app: Any) -> Any:
    """The same server as it was before the newest revision: it does not know how to be discovered."""

    async def without(scope: Any, receive: Any, send: Any) -> None:
        if any(name == b"mcp-method" and value == b"server/discover" for name, value in scope.get("headers", ())):
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body"})
        else:
            await app(scope, receive, send)

    return without


def main() -> None:
    kind, *rest = sys.argv[1:]
    if kind == "stdio":
        server.run("stdio")
    elif kind == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(rest[0]))
    elif kind == "http2025":
        uvicorn.run(older(server.streamable_http_app()), host="127.0.0.1", port=int(rest[0]))
    else:
        server.run("sse", host="127.0.0.1", port=int(rest[0]))


if __name__ == "__main__":
    main()
