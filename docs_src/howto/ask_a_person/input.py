import asyncio

from toolcrib import Context, Crib, Refused, tool

NAME = {"type": "string", "minLength": 1}


@tool
async def invite(ctx: Context, seats: int) -> list[str]:
    """Ask for a name for each seat."""
    names = []
    for seat in range(seats):
        answer = await ctx.ask("Who sits here?", schema=NAME, key=f"seat-{seat}", data={"seat": seat + 1})
        names.append(answer.value)
    return names


async def main() -> None:
    async with Crib([invite]) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("invite", {"seats": 2})
        guests = iter(["Bob", "Eve"])
        async for event in session.events(call=call.id):
            if event.kind != "waiting":
                continue
            question = event.data.question
            try:
                await session.answer(question.id, "accept", "")
            except Refused as refused:
                print(refused)
            print("seat", question.data["seat"])
            await session.answer(question.id, "accept", next(guests))
        print((await session.result(call.id)).data)


asyncio.run(main())
