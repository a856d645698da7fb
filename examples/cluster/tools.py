"""The tools that every node of the cluster has."""

from toolcrib import tool


@tool(namespace="shop", idempotent=True, timeout=30)
async def index(order: str) -> str:
    """Put an order into the search index; it may be repeated."""
    return f"{order} is found now"
