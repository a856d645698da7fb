import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from toolcrib import Crib, ToolFailure, tool


@dataclass
class Item:
    sku: str
    qty: Annotated[int, Field(ge=1)] = 1


@tool(namespace="shop", read_only=True)
def price(items: list[Item], shipping: Literal["slow", "fast"] = "slow") -> dict[str, int]:
    """Work out the price of an order, in cents.

    Args:
        items: What is ordered.
        shipping: How it is sent.
    """
    if any(item.sku == "sold-out" for item in items):
        raise ToolFailure("failed", "That item is sold out", hint="Leave it out, or ask for another.")
    return {"cents": sum(250 * item.qty for item in items) + (900 if shipping == "fast" else 0)}


async def main() -> None:
    async with Crib([price]) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        good = await session.call("shop.price", {"items": [{"sku": "tea", "qty": 2}]})
        print(good.ok, good.data)

        text = await session.call("price", '{"items": [{"sku": "tea", "qty": "3"}], "shipping": "fast"}')
        print(text.ok, text.data)

        wrong = await session.call("price", {"items": [{"sku": "tea", "qty": 0}, {"qty": "two"}], "shiping": "fast"})
        print(wrong.text)

        refused = await session.call("price", {"items": [{"sku": "sold-out"}]})
        print(refused.text)

        unknown = await session.call("prise", {})
        print(unknown.text)


asyncio.run(main())
