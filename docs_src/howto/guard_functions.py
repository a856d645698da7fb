import asyncio

from toolcrib import Crib
from toolcrib.adapters import guard, tools_as_functions


async def main() -> None:
    async with Crib(policy={"rules": [{"ask": "refund"}]}) as crib:
        session = await crib.open("chat-1", owner="ada")

        @guard(session)
        def refund(order: str, cents: int) -> str:
            """Refund part of an order."""
            return f"refunded {cents} of {order}"

        waits = await refund("A-7", 500, crib_key="order A-7")
        print(waits.partition(",")[0])
        [question] = await session.questions()
        await session.answer(question.id, "accept", actor="bob")
        print(await refund("A-7", 500, crib_key="order A-7"))
        print([function.__name__ for function in tools_as_functions(session)])


asyncio.run(main())
