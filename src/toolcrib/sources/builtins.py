"""Tools that look at the session they run in. They are ordinary tools, and see no other session."""

from __future__ import annotations

from functools import cache
from typing import Any

from toolcrib.context import Context
from toolcrib.errors import Refused, ToolFailure
from toolcrib.sources.functions import as_tool
from toolcrib.tools import Tool


async def call_status(ctx: Context, id: str) -> dict[str, Any]:
    """Tell where a call stands: its status, its last output and how long it has run.

    Args:
        id: The id of the call.
    """
    entry, last, now = await _found(ctx.host.session.look(id))
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
    return {"cancelled": await _found(ctx.host.session.cancel(id))}


async def read_output(ctx: Context, id: str, offset: int = 0, limit: int = 8192) -> str:
    """Read a piece of an output that was too large for its result.

    Args:
        id: The id of the output, as the result says it.
        offset: The first byte.
        limit: How many bytes at the most.
    """
    piece: str = await _found(ctx.host.session.output(id, offset, limit))
    return piece


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
    )
