"""The tools of an order desk, as a shop would write them.

The shop itself comes in as a dependency: `Crib([desk], deps={"shop": Shop(folder)})`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from toolcrib import Context, ToolFailure, tool

OrderId = Annotated[str, Field(description="The order's number, such as A-7.", pattern=r"^[A-Z]-\d+$")]
ADDRESS = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "minLength": 1},
        "city": {"type": "string", "minLength": 1},
        "country": {"type": "string", "enum": ["CH", "DE", "FR"], "default": "CH"},
    },
    "required": ["street", "city"],
}


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody bought."""

    id: str
    item: str
    cents: int
    city: str


ORDERS = {
    "A-7": Order("A-7", "a torque wrench", 12_900, "Bern"),
    "A-8": Order("A-8", "a set of feeler gauges", 2_450, "Lyon"),
    "B-1": Order("B-1", "a bench vice", 18_500, "Ulm"),
}


class Shop:
    """The world outside: orders, a book of what was done, and a courier whose line is bad.

    The book is a file, so that what was done is known after a crash, as it is in the world.
    """

    def __init__(self, folder: Path) -> None:
        self._book = folder / "book.jsonl"
        self._dropped = folder / "courier.txt"

    def order(self, id: str) -> Order:
        """An order by its number.

        Raises:
            ToolFailure: `not_found`.
        """
        if id not in ORDERS:
            raise ToolFailure("not_found", f"There is no order {id}", hint=f"Orders: {', '.join(ORDERS)}.")
        return ORDERS[id]

    def write(self, what: str, order: str, call: str) -> str:
        """Does something that cannot be undone; the number of its line in the book."""
        with self._book.open("a", encoding="utf-8") as book:
            book.write(json.dumps({"what": what, "order": order, "call": call}) + "\n")
        return f"{what}-{len(self.book())}"

    def book(self, call: str | None = None) -> list[dict[str, Any]]:
        """What was done, or what one call did."""
        lines = self._book.read_text("utf-8").splitlines() if self._book.exists() else []
        entries = [json.loads(line) for line in lines]
        return [entry for entry in entries if call in (None, entry["call"])]

    def cut_line(self) -> None:
        """Lets the courier's line drop the next two times."""
        self._dropped.unlink(missing_ok=True)

    def reach_courier(self) -> None:
        """Two of three times the courier's line drops.

        Raises:
            ToolFailure: `unavailable`.
        """
        dropped = int(self._dropped.read_text()) if self._dropped.exists() else 0
        self._dropped.write_text(str((dropped + 1) % 3))
        if dropped < 2:
            raise ToolFailure("unavailable", "The courier's line dropped", hint="It works every third time.")


@tool(namespace="desk", read_only=True, deps=["shop"], examples=[{"order": "A-7"}])
async def look_up(order: OrderId, shop: Shop) -> Order:
    """Look up an order."""
    return shop.order(order)


@tool(namespace="desk", read_only=True, open_world=True, deps=["shop"], examples=[{"order": "A-8"}])
async def track(order: OrderId, shop: Shop) -> dict[str, str]:
    """Ask the courier where a parcel is."""
    shop.reach_courier()
    return {"order": order, "place": f"on its way to {shop.order(order).city}"}


@tool(namespace="desk", read_only=True, timeout=30, examples=[{"rows": 5}])
async def export(
    ctx: Context,
    rows: Annotated[int, Field(ge=1, le=1000, description="How many rows.")] = 12,
    pause: Annotated[float, Field(ge=0, le=1, description="Seconds between two rows.")] = 0.12,
) -> AsyncIterator[dict[str, Any]]:
    """Export the orders of the year, row by row."""
    orders = list(ORDERS.values())
    for row in range(1, rows + 1):
        ctx.progress(f"row {row} of {rows}", loaded=row, total=rows)
        await asyncio.sleep(pause)
        order = orders[row % len(orders)]
        yield {"row": row, "order": order.id, "cents": order.cents}


@tool(
    namespace="desk",
    destructive=True,
    requires_confirmation=True,
    timeout=20,
    deps=["shop"],
    examples=[{"order": "A-7", "cents": 500}],
    anti_patterns=[("more than was paid", "Look the order up first: it says what was paid.")],
)
async def refund(
    ctx: Context,
    order: OrderId,
    cents: Annotated[int, Field(ge=1, description="How much, in cents.")],
    shop: Shop,
) -> dict[str, Any]:
    """Pay money back for an order."""
    paid = shop.order(order).cents
    if cents > paid:
        raise ToolFailure("failed", f"{cents} cents are more than was paid ({paid})")
    ctx.progress("talking to the bank", 0.5)
    # A step is written down before the next line runs, so nothing can pay twice for this call.
    receipt = await ctx.step("pay", lambda: shop.write("payment", order, ctx.id))
    return {"order": order, "cents": cents, "receipt": receipt}


@tool(namespace="desk", deps=["shop"], examples=[{"order": "A-8"}])
async def readdress(ctx: Context, order: OrderId, shop: Shop) -> dict[str, Any]:
    """Send a parcel to another address, which a person is asked for."""
    parcel = shop.order(order)
    answer = await ctx.ask(f"Where shall {parcel.item} ({order}) go instead of {parcel.city}?", schema=ADDRESS)
    receipt = await ctx.step("tell", lambda: shop.write("address", order, ctx.id))
    return {"order": order, "address": answer.value, "receipt": receipt}


@tool(namespace="desk", timeout=120, deps=["shop"], examples=[{"order": "B-1", "seconds": 5}])
async def print_label(
    ctx: Context,
    order: OrderId,
    shop: Shop,
    seconds: Annotated[float, Field(ge=0, le=60, description="How long the printer takes.")] = 2,
) -> dict[str, Any]:
    """Print the label of a parcel; the printer cannot be asked what it has printed."""
    shop.order(order)
    receipt = shop.write("label", order, ctx.id)
    ctx.progress("the printer is at work", 0.5)
    await asyncio.sleep(seconds)
    return {"order": order, "receipt": receipt}
