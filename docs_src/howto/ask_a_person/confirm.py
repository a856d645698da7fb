import asyncio

from toolcrib import Crib, Refused, tool


@tool(namespace="shop", destructive=True)
def refund(order: str, cents: int) -> str:
    """Refund part of an order."""
    return f"{order}: {cents} cents back"


async def main() -> None:
    async with Crib([refund]) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        for _ in range(3):
            await session.submit("refund", {"order": "A-7", "cents": 500})
        first, second, third = await session.questions()
        print(first.prompt, dict(first.arguments))

        await session.answer(first.id, "accept", actor="bob")
        print((await session.result(first.call)).text)

        await session.answer(second.id, "decline", actor="bob", reason="Too much")
        print((await session.result(second.call)).text)

        try:
            await session.answer(third.id, "accept", arguments={"order": "A-7", "cents": "lots"})
        except Refused as refused:
            print(refused.code, "-", refused)
        await session.answer(third.id, "accept", arguments={"order": "A-7", "cents": 100}, actor="bob")
        print((await session.result(third.call)).text)


asyncio.run(main())
