"""The example of the README: a refund that a person accepts before it runs."""

import asyncio

from toolcrib import Context, Crib, tool


class Bank:
    async def refund(self, order: str, cents: int) -> str:
        return f"{order}: {cents} cents back"


bank = Bank()


@tool(namespace="shop", destructive=True, timeout=20)
async def refund(ctx: Context, order: str, cents: int) -> dict[str, str]:
    """Refund part of an order."""
    ctx.progress("talking to the bank", 0.5)
    receipt = await ctx.step("pay", lambda: bank.refund(order, cents))
    return {"receipt": receipt}


async def main() -> None:
    async with Crib([refund], store="sqlite:///shop.db") as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["shop"])
        call = await session.submit("shop.refund", {"order": "A-7", "cents": 500})
        async for event in session.events(call=call.id):  # replays, follows, ends after done
            if event.kind == "waiting":
                await session.answer(event.data.question.id, "accept", actor="bob")
        result = await session.result(call.id)  # or: await session.call(...) in one step
        print(result.ok, result.data, result.failure)


asyncio.run(main())
