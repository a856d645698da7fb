import asyncio

from toolcrib import Crib, Session, tool


@tool(read_only=True)
async def fetch(page: int) -> str:
    """Fetch a page."""
    return f"page {page}"


async def deliver(session: Session, consumer: str) -> list[str]:
    """Give a consumer the results that it has not seen, each once."""
    texts = []
    for entry in await session.completed(consumer):
        assert entry.result is not None
        texts.append(entry.result.text)
        await session.consume(consumer, entry.seq)
    return texts


async def main() -> None:
    async with Crib([fetch], store="sqlite:///cursors.db") as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("fetch", {"page": 1})
        print("model", await deliver(session, "model"))
        await session.call("fetch", {"page": 2})
        print("model", await deliver(session, "model"))
        print("audit", await deliver(session, "audit"))
        print("audit", await deliver(session, "audit"))


asyncio.run(main())
