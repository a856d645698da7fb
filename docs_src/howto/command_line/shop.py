"""The tools of a small shop, for `crib.yaml` beside this file."""

import asyncio

from toolcrib import Context, ToolFailure, tool

ORDERS = {"A-7": 1200, "B-2": 480}


@tool(namespace="shop", read_only=True, examples=[{"order": "A-7"}])
def look_up(order: str) -> dict[str, int]:
    """Look up an order.

    Args:
        order: The number of the order.
    """
    if order not in ORDERS:
        raise ToolFailure("not_found", f"No such order: {order}", hint=f"Known: {', '.join(ORDERS)}")
    return {"cents": ORDERS[order]}


@tool(namespace="shop", destructive=True)
def refund(order: str, cents: int) -> str:
    """Refund part of an order.

    Args:
        order: The number of the order.
        cents: How much.
    """
    return f"{order}: {cents} cents back"


@tool(namespace="shop", read_only=True)
async def export(ctx: Context, rows: int = 5) -> str:
    """Export orders, slowly."""
    for row in range(1, rows + 1):
        await asyncio.sleep(0.15)
        ctx.progress("exporting", loaded=row, total=rows)
    return f"{rows} rows"
