"""A call that goes on after an answer: what its validator says then counts, not what it said before."""

import asyncio

from toolcrib import ToolFailure, testing, tool


async def test_a_validator_is_asked_again_when_a_call_goes_on() -> None:
    ran, sold_out = list[str](), asyncio.Event()

    async def in_stock(item: str) -> None:
        if sold_out.is_set():
            raise ToolFailure("failed", f"{item} is sold out")

    @tool(effect="once", requires_confirmation=True, validate=in_stock)
    async def order(item: str) -> str:
        """Order something."""
        ran.append(item)
        return item

    async with testing.crib(order) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("order", {"item": "tea"})
        (question,) = await session.questions()
        sold_out.set()
        await session.answer(question.id, "accept")
        result = await asyncio.wait_for(session.result(call.id), 60)
        assert not result.ok
        assert ran == []
