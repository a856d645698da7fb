import asyncio

from toolcrib import Context, testing, tool


@tool(namespace="shop", destructive=True)
async def refund(ctx: Context, order: str, cents: int) -> str:
    """Refund part of an order."""
    ctx.progress("talking to the bank")
    why = await ctx.ask("Why?", schema={"type": "string"})
    return f"{order}: {cents} cents back, because: {why.value}"


async def test_the_tool_by_itself() -> None:
    ctx = testing.context(answers={"Why?": "it broke"})
    result = await testing.run(refund, {"order": "A-7", "cents": 500}, ctx)
    assert result.data == "A-7: 500 cents back, because: it broke"
    assert ctx.progress_log == [{"status": "running", "message": "talking to the bank"}]


async def test_the_tool_in_a_crib() -> None:
    async with testing.crib(refund) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        async with testing.answers(session, {"confirm": "accept", "Why?": "it broke"}):
            result = await session.call("refund", {"order": "A-7", "cents": 500})
        assert result.ok


async def test_nobody_answers() -> None:
    async with testing.crib(refund) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        call = await session.submit("refund", {"order": "A-7", "cents": 500})
        await crib.clock.advance(24 * 3600)
        assert str((await session.result(call.id)).failure) == "[timeout] Nobody answered within 24 h"


if __name__ == "__main__":
    for test in (test_the_tool_by_itself, test_the_tool_in_a_crib, test_nobody_answers):
        asyncio.run(test())
        print(test.__name__, "passed")
