"""Notes of the agent, kept in the state of its session."""

from toolcrib import Change, Context, Result, tool


@tool(namespace="notes", idempotent=True)
async def keep(ctx: Context, note: str) -> Result:
    """Keep a note."""
    return Result("kept", changes=[Change("set", "note", note)])
