import asyncio

from toolcrib import Crib, tool


@tool(read_only=True)
async def sleep(seconds: float) -> str:
    """Sleep for some seconds."""
    await asyncio.sleep(seconds)
    return f"slept {seconds:g} s"


@tool(destructive=True)
def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"{disk} is empty"


async def log_out() -> str:
    async with Crib([sleep, wipe], store="sqlite:///closing.db") as crib:
        session = await crib.open(owner="ada")
        await session.submit("sleep", {"seconds": 0.8})
        await session.submit("sleep", {"seconds": 60})
        await session.submit("wipe", {"disk": "old"})
        print(await session.close(timeout=2))
        return session.id


async def log_in(id: str) -> None:
    async with Crib([sleep, wipe], store="sqlite:///closing.db") as crib:
        session = await crib.open(id, owner="ada")
        for entry in await session.completed("model"):
            assert entry.result is not None
            print(entry.status, "-", entry.result.text)
            await session.consume("model", entry.seq)
        print("not seen yet:", len(await session.completed("model")))
        for question in await session.questions():
            print("still open:", question.prompt)
            await session.answer(question.id, "accept")
            print((await session.result(question.call)).data)


asyncio.run(log_in(asyncio.run(log_out())))
