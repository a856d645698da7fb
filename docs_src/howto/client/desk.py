"""Somebody at a desk: answers what comes up anywhere, and shows what an agent wants to be shown."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolcrib import Crib, Refused, tool
from toolcrib.client import RemoteCrib
from toolcrib.serve.http import Site, server
from toolcrib.serve.keyring import Keyring


@tool(namespace="shop", destructive=True)
async def refund(order: str, cents: int) -> str:
    """Refund part of an order."""
    return f"{order} {cents}"


async def answer_small_ones(crib: RemoteCrib) -> None:
    async for news in crib.watch_questions():
        asked = news.question
        if asked is not None and asked.kind == "confirm":
            small = asked.arguments["cents"] <= 100
            await crib.answer(asked, "accept" if small else "decline", reason="by amount")


async def show(title: str) -> dict[str, bool]:
    print("window:", title)
    return {"shown": True}


SHOW = {
    "name": "show",
    "description": "Show a window.",
    "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}},
}


@asynccontextmanager
async def served() -> AsyncIterator[tuple[str, str]]:
    """A server with keys, for this example in the same process, and a key of Ada."""
    crib = Crib([refund])
    keys = Keyring(lambda: crib.store, crib.pipeline.clock.now)
    listener, ready = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    made = server(Site(crib, guard=keys, namespaces=["shop"]), ready.set, loop="none")
    serving = asyncio.create_task(made.serve([listener]))
    await ready.wait()
    key, _ = await keys.add("ada", by="ops")
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", key
    made.should_exit = True
    await serving
    listener.close()


async def main() -> None:
    async with served() as (url, key):
        try:
            await RemoteCrib(url, key="tc_wrong").start()
        except Refused as refused:
            print(refused.code)
        async with RemoteCrib(url, key=key) as crib:
            session = await crib.open("s-1", owner="ada")
            await session.offer([SHOW])
            both = (answer_small_ones(crib), session.serve_client_tools({"show": show}))
            at_work = [asyncio.create_task(one) for one in both]
            for cents in (50, 5000):
                print((await session.call("refund", {"order": "A-7", "cents": cents})).text)
            print((await session.call("client.show", {"title": "hello"})).data)
            for task in at_work:
                task.cancel()
            await asyncio.wait(at_work)


asyncio.run(main())
