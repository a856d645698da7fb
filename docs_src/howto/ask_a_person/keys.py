import asyncio

from toolcrib import Crib, Refused, tool


@tool(requires_confirmation=True)
def pay(cents: int) -> str:
    """Pay something."""
    return f"paid {cents}"


async def main() -> None:
    async with Crib([pay], store="sqlite:///keys.db") as crib:
        session = await crib.open(owner="ada")

        first = await session.submit("pay", {"cents": 5}, key="order-A-7")
        again = await session.submit("pay", {"cents": 5}, key="order-A-7")
        print("one call:", first.id == again.id)

        (question,) = await session.questions()
        one = await session.answer(question.id, "accept", actor="bob", key="click-1")
        two = await session.answer(question.id, "accept", actor="bob", key="click-1")
        print("one answer:", one == two)
        try:
            await session.answer(question.id, "decline", actor="eve", key="click-2")
        except Refused as refused:
            print(refused.code, "-", refused)
        print((await session.result(first.id)).data)


asyncio.run(main())
