import asyncio

from toolcrib import Change, Context, Crib, Result, tool


@tool
def add_to_cart(ctx: Context, sku: str) -> Result:
    """Put something into the cart."""
    cart = [*ctx.state.get("cart", []), sku]
    changes = [Change("set", "cart", cart), Change("add", "visits", 1)]
    return Result({"items": len(cart)}, changes=changes)


@tool(read_only=True)
def show_cart(ctx: Context) -> dict[str, object]:
    """Show the cart."""
    return dict(ctx.state)


async def main() -> None:
    async with Crib([add_to_cart, show_cart], state_keys={"visits": "add"}) as crib:
        session = await crib.open(owner="ada")
        print((await session.call("add_to_cart", {"sku": "tea"})).data)
        print((await session.call("add_to_cart", {"sku": "cup"})).data)
        print((await session.call("show_cart")).data)

        both = await asyncio.gather(*(session.call("add_to_cart", {"sku": "jam"}) for _ in range(2)))
        print(sorted(result.ok for result in both), [result.metadata["unsaved"] for result in both if not result.ok])
        print((await session.call("show_cart")).data)


asyncio.run(main())
