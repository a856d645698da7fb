"""A tool that is told wrongly."""

from toolcrib import tool


@tool(examples=[{"ordr": "A-7"}])
def look_up(order: str) -> str:
    """Look up an order."""
    return order


@tool(read_only=True, examples=[{"order": "A-7"}])
def find(order: str) -> str:
    """Find an order."""
    return order
