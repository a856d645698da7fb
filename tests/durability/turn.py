"""One model turn with three calls that wait: for an approval, for input, for the client. Arguments: store, effects."""

import asyncio
import sys

from tests.durability.effects import append, heard, say
from toolcrib import Context, Crib, Refused, tool

STORE, EFFECTS = sys.argv[1:]
PICK = {"name": "pick", "description": "Pick a colour in the browser.", "output_schema": {"type": "object"}}


@tool(destructive=True)
async def delete() -> str:
    """Delete everything."""
    append(EFFECTS, "delete")
    return "deleted"


@tool
async def greet(ctx: Context) -> str:
    """Greet somebody."""
    name = (await ctx.ask("Name?")).value
    append(EFFECTS, "greet")
    return f"hello {name}"


async def main() -> None:
    crib = Crib([delete, greet], store=STORE)
    await crib.start()
    session = await crib.open("s", owner="ada", namespaces=["default"])
    while True:
        match await heard():
            case ["submit"]:
                await session.offer([PICK])
                calls = [await session.submit(name, turn="t-1") for name in ("delete", "greet", "client.pick")]
                async for event in session.events():
                    if event.kind == "waiting" and event.call == calls[1].id:
                        break
                say([call.id for call in calls])
            case ["questions"]:
                say([[question.id, question.kind] for question in await session.questions()])
            case ["answer", question, value]:
                try:
                    say((await session.answer(question, "accept", value)).action)
                except Refused as error:
                    say(error.code)
            case ["result", call]:
                result = await session.result(call)
                say(result.data if result.failure is None else result.failure.code)


asyncio.run(main())
