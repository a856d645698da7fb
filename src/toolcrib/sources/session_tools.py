"""Tools that look at the session they run in. They are ordinary tools, and see no other session."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from toolcrib.context import Context
from toolcrib.errors import Refused, ToolFailure
from toolcrib.schema import nearest
from toolcrib.sources.functions import as_tool
from toolcrib.tool import Tool, canonical

T = TypeVar("T")


async def call_status(ctx: Context, id: str) -> dict[str, Any]:
    """Tell where a call stands: its status, its last output and how long it has run.

    Args:
        id: The id of the call.
    """
    entry, last, now = await _found(_present(ctx.this_session)._look(id))
    started = entry.started_at or entry.accepted_at
    return {
        "id": entry.id,
        "tool": entry.tool,
        "label": entry.label,
        "status": entry.status,
        "last_output": last,
        "seconds": round((entry.done_at or now) - started, 3),
    }


async def cancel_call(ctx: Context, id: str) -> dict[str, bool]:
    """Stop a call that is running or waiting.

    Args:
        id: The id of the call.
    """
    return {"cancelled": await _found(_present(ctx.this_session).cancel(id))}


async def read_output(ctx: Context, id: str, offset: int = 0, limit: int = 8192) -> str:
    """Read a piece of an output that was too large for its result.

    Args:
        id: The id of the output, as the result says it.
        offset: The first byte.
        limit: How many bytes at the most.
    """
    piece: str = await _found(_present(ctx.this_session).output(id, offset, limit))
    return piece


async def tool_help(ctx: Context, tool: str, topic: str | None = None) -> str:
    """Tell what is known about a tool: notes, examples, pitfalls; with a topic, what is known about that.

    Args:
        tool: The name of the tool.
        topic: What to read more about; the help of the tool names its topics.
    """
    description: Tool | None = _present(ctx.this_session).tool(tool)
    if description is None:
        close = nearest(tool, [*_present(ctx.this_session)._view.names])
        hint = f"similar: {', '.join(close)}" if close else None
        raise ToolFailure("not_found", f"Unknown tool: {tool}", hint=hint)
    return _told(description) if description.knowledge.help is None else description.knowledge.help(topic)


def _told(tool: Tool) -> str:
    """What a tool without a help of its own says of itself."""
    used = (f"Example: {canonical(dict(example.arguments)).decode()}" for example in tool.knowledge.examples)
    minded = (f"Mind: {wrong.hint}" for wrong in tool.knowledge.anti_patterns)
    return "\n".join([tool.description or f"{tool.id} says nothing of itself.", *used, *minded])


def _present(session: T | None) -> T:
    if session is None:
        raise ToolFailure("unavailable", "There is no session: no crib runs this tool")
    return session


async def _found(work: Any) -> Any:
    try:
        return await work
    except Refused as error:
        raise ToolFailure(error.code if error.code == "not_found" else "failed", error.message) from None


@cache
def builtins() -> tuple[Tool, ...]:
    """The built-in tools, made when the first crib is."""
    shared: dict[str, Any] = {"namespace": "builtin", "source": "builtin", "repeat": None}
    return (
        as_tool(call_status, read_only=True, **shared),
        as_tool(cancel_call, idempotent=True, **shared),
        as_tool(read_output, read_only=True, **shared),
        as_tool(tool_help, read_only=True, **shared),
    )
