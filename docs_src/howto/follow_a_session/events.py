import asyncio

from toolcrib import Crib, Session, tool


@tool(read_only=True)
async def fetch(page: int) -> str:
    """Fetch a page."""
    return f"page {page}"


async def read_until_done(session: Session, after: int) -> int:
    """Replay what is past `after`, then follow; where this reader stands now."""
    async for event in session.events(after=after):
        print(event.seq, event.kind, event.fields.get("data", ""))
        if event.kind == "done":
            return event.seq
    return after


async def main() -> None:
    async with Crib([fetch], store="sqlite:///events.db") as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("fetch", {"page": 1})
        last = await read_until_done(session, after=0)

    print("-- a restart --")
    async with Crib([fetch], store="sqlite:///events.db") as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("fetch", {"page": 2})
        await read_until_done(session, after=last)


asyncio.run(main())
