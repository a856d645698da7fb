"""A tool that asks for a name, sends a mail in a step, and asks for a confirmation; told where to stop and be killed.

Arguments: the store, the file of mails, the point at which to stop (or `none`).
"""

import asyncio
import sys

from tests.durability.effects import append, heard, say
from toolcrib import Context, Crib, tool

STORE, MAILS, POINT = sys.argv[1:]


async def reached(point: str) -> None:
    """Says where it is, and goes no further if it is to be killed there."""
    if point == POINT:
        say(point)
        await asyncio.Event().wait()


@tool
async def greet(ctx: Context) -> str:
    """Greet somebody by mail."""
    await reached("start")
    name = (await ctx.ask("Name?", key="name", schema={"type": "string"})).value
    await reached("named")

    async def mail() -> str:
        await reached("before mail")
        append(MAILS, name)
        await reached("after mail")
        return f"mail to {name}"

    sent = await ctx.step("mail", mail)
    await reached("mailed")
    confirmed = await ctx.ask("Good?", kind="confirm", key="good", resume="pass")
    await reached("confirmed")
    return f"{sent}: {confirmed.action}"


async def main() -> None:
    crib = Crib([greet], store=STORE)
    await crib.start()
    session = await crib.open("s", owner="ada")
    say("ready")
    while True:
        match await heard():
            case ["submit"]:
                say((await session.submit("greet", key="one")).id)
            case ["answer", prompt, value]:
                (question,) = [asked for asked in await session.questions() if asked.prompt == prompt]
                await session.answer(question.id, "accept", value)
                say("answered")
            case ["waits for", prompt]:
                async for event in session.events():
                    if event.kind == "done" or (
                        event.kind == "waiting" and event.fields["question"]["prompt"] == prompt
                    ):
                        say(event.kind)
                        break
            case ["result", call]:
                result = await session.result(call)
                say(result.data if result.failure is None else result.failure.code)


asyncio.run(main())
