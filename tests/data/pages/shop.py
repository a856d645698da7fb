"""The tools that the commands on pages speak of."""

from toolcrib import tool


@tool(namespace="shop", read_only=True)
def look_up(order: str) -> dict[str, int]:
    """Look up an order."""
    return {"cents": 1200}


@tool(namespace="shop", read_only=True)
def find(order: str) -> str:
    """Find an order."""
    return order


@tool(namespace="shop", read_only=True)
def report() -> str:
    """Report on all orders."""
    return "none"


@tool(namespace="shop", effect="idempotent")
def refund(order: str = "7") -> str:
    """Refund an order."""
    return order


@tool(namespace="shop", effect="idempotent")
def remind(order: str) -> str:
    """Remind of an order."""
    return order
