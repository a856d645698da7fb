"""The same work in a session of this process, and in one of a server."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolcrib import Crib, Session, tool
from toolcrib.client import RemoteCrib, RemoteSession
from toolcrib.serve.http import Site, server


@tool(namespace="shop", destructive=True)
async def refund(order: str, cents: int) -> dict[str, object]:
    """Refund part of an order."""
    return {"order": order, "cents": cents}


async def work(session: Session | RemoteSession) -> None:
    call = await session.submit("shop.refund", {"order": "A-7", "cents": 500})
    async for event in session.events(call=call.id):
        if event.kind == "waiting":
            await session.answer(event.data.question.id, "accept", arguments={"order": "A-7", "cents": 50})
    result = await session.result(call.id)
    print(result.ok, result.data, result.metadata["edited"])


async def embedded() -> None:
    async with Crib([refund]) as crib:
        await work(await crib.open("s-1", owner="anyone", namespaces=["shop"]))


async def remote(url: str) -> None:
    async with RemoteCrib(url) as crib:
        await work(await crib.open("s-1", owner="anyone", namespaces=["shop"]))


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """A server as `toolcrib serve` starts it, for this example in the same process."""
    listener, ready = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    made = server(Site(Crib([refund]), namespaces=["shop"]), ready.set, loop="none")
    serving = asyncio.create_task(made.serve([listener]))
    await ready.wait()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    made.should_exit = True
    await serving
    listener.close()


async def main() -> None:
    await embedded()
    async with served() as url:
        await remote(url)


asyncio.run(main())
