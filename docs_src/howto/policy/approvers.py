import asyncio

from toolcrib import Crib, Refused, tool


@tool(namespace="shop")
async def refund(order: str, cents: int) -> str:
    """Pay money back."""
    return f"{order}: {cents} cents back"


POLICY = {
    "groups": {"finance": ["ann", "bob"]},
    "rules": [
        {
            "ask": "refund",
            "approvers": "finance",
            "quorum": 2,
            "escalate": {"after_s": 3600, "to": ["lead"]},
        }
    ],
}


async def main() -> None:
    async with Crib([refund], policy=POLICY) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        call = await session.submit("refund", {"order": "A-7", "cents": 90_000})
        (question,) = await session.questions()
        try:
            await session.answer(question.id, "accept", actor="ada")
        except Refused as refused:
            print(refused.message)
        await session.answer(question.id, "accept", actor="ann")
        print((await session.questions())[0].approved_by)
        await session.answer(question.id, "accept", actor="bob")
        print((await session.result(call.id)).text)


asyncio.run(main())
