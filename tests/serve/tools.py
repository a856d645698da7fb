"""Tools, prompts and resources for the tests of the MCP server."""

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib import Block, Context, ToolFailure, block, tool
from toolcrib.serve.mcp import McpLibrary, ask_client, elicit, roots, sample

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool(read_only=True)
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(read_only=True, output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]})
async def total(a: int, wrong: bool = False) -> dict[str, Any]:
    """Give an object."""
    return {"sum": "none"} if wrong else {"sum": a}


@tool(read_only=True)
async def pieces() -> list[Block]:
    """Give all kinds of content."""
    return [
        block("text", text="hello", audience=("model",)),
        block("image", data="AAAA", mime_type="image/png"),
        block("audio", data="AAAA", mime_type="audio/wav"),
        block("resource", uri="test://a", mime_type="text/plain", text="inside"),
        block("link", uri="test://b", name="b"),
        block("file", data="AAAA", mime_type="application/pdf", name="a b.pdf"),
    ]


@tool(read_only=True)
async def steps(ctx: Context, level: str = "info") -> str:
    """Tell how far it is, and write a log line."""
    ctx.activity("log", {"level": level, "data": "working"})
    for step in (1, 2, 2, 3):
        ctx.progress(None, loaded=step, total=3)
        await asyncio.sleep(0.11)
    ctx.output("nearly")
    await asyncio.sleep(0.11)
    return "done"


class Doors:
    """What a test waits for in a tool, and what a tool waits for in a test."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.left = asyncio.Event()
        self.go = asyncio.Event()


@tool(read_only=True)
async def hold(ctx: Context) -> str:
    """Wait until the test says so."""
    doors = ctx.deps[Doors]  # most cribs with this tool never call it, and have none
    doors.entered.set()
    try:
        await doors.go.wait()
    finally:
        doors.left.set()
    return "held"


@tool(read_only=True)
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.ask("What is your name?", schema=NAME, key="user_name")
    return f"Hello, {answer.value['name']}!"


@tool(destructive=True, requires_confirmation=True)
async def erase(what: str) -> str:
    """Erase something."""
    return f"erased {what}"


@tool(read_only=True)
async def several(ctx: Context) -> str:
    """Ask for three things at once."""
    given = await ask_client(ctx, user=elicit("Who?", NAME), model=sample("Say hi", 5), folders=roots())
    return " ".join(sorted(given))


@tool(read_only=True, background=True)
async def job(ctx: Context) -> str:
    """Ask for two names in the background."""
    given = await ask_client(ctx, first=elicit("First?", NAME), second=elicit("Second?", NAME))
    return " and ".join(given[name]["content"]["name"] for name in ("first", "second"))


@tool(read_only=True, background=True, repeat=None)
async def fails(how: str) -> str:
    """Fail in one way or another, and not at once."""
    await asyncio.sleep(0)
    if how == "broken":
        raise RuntimeError("secret")
    raise ToolFailure("failed", "no paint left")


@tool(read_only=True)
async def outer(ctx: Context) -> str:
    """Call a tool that asks."""
    inner = await ctx.call("default.greet")
    return f"inner said: {inner.data}"


TOOLS = [add, total, pieces, steps, hold, greet, erase, several, job, fails, outer]


def library() -> McpLibrary:
    made = McpLibrary()

    @made.prompt(complete={"topic": ["tea", "tools", "trees"]})
    async def explain(topic: str, style: str = "plain") -> list[Any]:
        """Explain something.

        Args:
            topic: What to explain.
        """
        return [f"Explain {topic}", {"role": "assistant", "content": block("text", text=style)}]

    @made.prompt
    async def asks(ctx: Context) -> str:
        """Ask before it is made."""
        answer = await ctx.ask("Who?", schema=NAME, key="who")
        return f"For {answer.value['name']}"

    @made.resource("note://today", name="today", mime_type="text/markdown")
    async def today() -> str:
        """What is to be done today."""
        return "# Today"

    @made.resource("pic://dot", name="dot", mime_type="image/png")
    def dot() -> bytes:
        """A dot."""
        return b"\x89PNG"

    @made.resource("user://{id}/data", name="user", complete={"id": lambda typed, others: [f"{typed}1", f"{typed}2"]})
    async def user(id: str) -> dict[str, str]:
        """A user."""
        return {"id": id}

    return made
