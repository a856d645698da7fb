import asyncio

from toolcrib import Context, Crib, tool


@tool(namespace="mail", open_world=True)
async def send(ctx: Context, to: str, text: str) -> str:
    """Send a mail."""
    signature = await ctx.ask("How do you want to sign?", schema={"type": "string", "minLength": 1})
    await ctx.step("send", lambda: deliver(to, f"{text}\n{signature.value}"))
    return f"sent to {to}"


async def deliver(to: str, text: str) -> None:
    print(f"delivering to {to}: {text!r}")


async def main() -> None:
    async with Crib([send]) as crib:
        session = await crib.open(owner="ada", namespaces=["mail"])
        call = await session.submit("mail.send", {"to": "bob", "text": "Hello"})
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                question = event.data.question
                print(question.kind, "-", question.prompt)
                await session.answer(question.id, "accept", "Ada" if question.kind == "input" else None)
        print((await session.result(call.id)).data)


asyncio.run(main())
