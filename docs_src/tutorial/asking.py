import asyncio

from toolcrib import Context, Crib, tool

SEATS = {"type": "integer", "minimum": 1, "maximum": 9}


@tool(namespace="trip")
async def book(ctx: Context, city: str) -> str:
    """Book a trip."""
    quote = await ctx.step("quote", lambda: ask_the_airline(city))
    seats = await ctx.ask(f"{city} costs {quote} a seat. How many seats?", schema=SEATS)
    return f"{seats.value} seats to {city} for {seats.value * quote}, booked by {seats.actor}"


async def ask_the_airline(city: str) -> int:
    print("asking the airline")
    return 120


async def before() -> str:
    async with Crib([book], store="sqlite:///trips.db") as crib:
        session = await crib.open(owner="ada", namespaces=["trip"])
        call = await session.submit("book", {"city": "Bern"})
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                print("asked:", event.data.question.prompt)
                break
        return session.id


async def after(id: str) -> None:
    async with Crib([book], store="sqlite:///trips.db") as crib:
        session = await crib.open(id, owner="ada")
        (question,) = await session.questions()
        await session.answer(question.id, "accept", 2, actor="bob")
        print((await session.result(question.call)).data)


session_id = asyncio.run(before())
print("-- the program ends here, and starts again --")
asyncio.run(after(session_id))
