import asyncio

from toolcrib import Context, Crib, Refused, tool


@tool
async def choose(ctx: Context) -> str:
    """Ask for a colour, and do not wait long."""
    answer = await ctx.ask("Which colour?", expires_s=0.2)
    return str(answer.value)


async def main() -> None:
    async with Crib([choose]) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("choose")
        print((await session.result(call.id)).text)
        try:
            await session.answer(f"{call.id}-1", "accept", "red")
        except Refused as refused:
            print(refused.code, "-", refused.message)


asyncio.run(main())
