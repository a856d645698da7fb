import asyncio

from toolcrib import Crib, Session, tool


@tool(read_only=True)
async def sleep(seconds: float) -> str:
    """Sleep for some seconds."""
    await asyncio.sleep(seconds)
    return "awake"


@tool(destructive=True)
def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"{disk} is empty"


async def show(session: Session, at: int | None = None) -> None:
    lists = {
        "unresolved": await session.unresolved(at),
        "ongoing": await session.ongoing(at),
        "completed": await session.completed(at=at),
    }
    for name, entries in lists.items():
        print(name, [(entry.tool, entry.status) for entry in entries])


async def main() -> None:
    async with Crib([sleep, wipe], store="sqlite:///lists.db") as crib:
        session = await crib.open(owner="ada")
        await session.call("sleep", {"seconds": 0})
        await session.submit("wipe", {"disk": "old"})
        call = await session.submit("sleep", {"seconds": 60})
        async for event in session.events(call=call.id):
            if event.kind == "started":
                break
        await show(session)
        print("-- when the log had two events --")
        await show(session, at=2)
        await session.cancel(call.id)


asyncio.run(main())
