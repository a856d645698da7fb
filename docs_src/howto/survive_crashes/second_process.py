import asyncio
import sys

from toolcrib import Crib, tool

STORE = "sqlite:///shared.db?sync=full"


@tool(destructive=True)
def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"{disk} is empty"


async def ask() -> None:
    """One process asks, and follows its call to the end."""
    async with Crib([wipe], store=STORE) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("wipe", {"disk": "old"})
        async for event in session.events(call=call.id):
            print(event.kind, flush=True)
            if event.kind == "waiting":
                other = await asyncio.create_subprocess_exec(sys.executable, __file__, "answer")
        print((await session.result(call.id)).data)
        await other.wait()


async def answer() -> None:
    """Another one finds the question in the same file, answers it, and runs the call."""
    async with Crib([wipe], store=STORE) as crib:
        for question in await crib.questions():
            session = await crib.open(question.session, owner="ada")
            await session.answer(question.id, "accept", actor="bob")
            await session.result(question.call)


if __name__ == "__main__":
    asyncio.run(answer() if "answer" in sys.argv else ask())
