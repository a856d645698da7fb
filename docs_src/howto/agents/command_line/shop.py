"""The tools of the agents in `../team`, for `crib.yaml` beside this file."""

from toolcrib import tool


@tool(namespace="shop", read_only=True)
def find_order(order: str) -> dict[str, object]:
    """Look an order up."""
    return {"order": order, "cents": 1200}


@tool(namespace="shop", destructive=True, requires_confirmation=True)
def refund(order: str, cents: int) -> str:
    """Pay money back."""
    return f"{cents} cents for {order} are on their way"
