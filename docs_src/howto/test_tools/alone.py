import asyncio

from toolcrib import Change, Context, Result, ToolFailure, testing, tool


@tool
async def check_out(ctx: Context, coupon: str | None = None) -> Result:
    """Pay for what is in the cart."""
    price = await ctx.call("shop.price", {"items": ctx.state.get("cart", [])})
    if not price.ok:
        raise ToolFailure("unavailable", "There is no price now")
    address = await ctx.ask("Where to?", schema={"type": "string"})
    receipt = await ctx.step("pay", lambda: ctx.deps.bank(price.data))
    return Result({"receipt": receipt, "to": address.value}, changes=[Change("delete", "cart")])


async def test_it_pays_what_the_cart_costs() -> None:
    ctx = testing.context(
        state={"cart": ["tea"]},
        tools={"shop.price": lambda items: 250 * len(items)},
        deps={"bank": lambda cents: f"paid {cents}"},
        answers={"Where to?": "Bern"},
    )
    result = await testing.run(check_out, {}, ctx)
    assert result.data == {"receipt": "paid 250", "to": "Bern"}
    assert list(result.changes) == [Change("delete", "cart")]
    assert ctx.calls == [("shop.price", {"items": ["tea"]})]
    assert ctx.steps == {"pay": "paid 250"}


async def test_a_step_that_ran_before_does_not_run_again() -> None:
    ctx = testing.context(
        tools={"shop.price": 250},
        deps={"bank": lambda cents: 1 / 0},
        answers={"Where to?": "Bern"},
        steps={"pay": "paid before"},
    )
    result = await testing.run(check_out, {}, ctx)
    assert result.data["receipt"] == "paid before"


async def test_it_does_not_pay_without_a_price() -> None:
    down = testing.context(tools={"shop.price": price_is_away})
    result = await testing.run(check_out, {}, down)
    assert str(result.failure) == "[unavailable] There is no price now"


def price_is_away(items: list[str]) -> int:
    raise ToolFailure("unavailable", "The price service is down")


async def test_declining_ends_the_call() -> None:
    ctx = testing.context(tools={"shop.price": 250}, answers={"Where to?": "decline"})
    result = await testing.run(check_out, {}, ctx)
    assert result.failure is not None
    assert result.failure.code == "declined"


if __name__ == "__main__":
    asyncio.run(test_it_pays_what_the_cart_costs())
    asyncio.run(test_a_step_that_ran_before_does_not_run_again())
    asyncio.run(test_it_does_not_pay_without_a_price())
    asyncio.run(test_declining_ends_the_call())
