import asyncio
import socket

import httpx

from toolcrib import Crib, tool
from toolcrib.serve.http import Site, server
from toolcrib.serve.keyring import Keyring


@tool(namespace="shop", read_only=True)
async def stock(article: str) -> int:
    """How many of an article are there."""
    return len(article)


async def main() -> None:
    crib = Crib([stock])
    keys = Keyring(lambda: crib.store, crib.pipeline.clock.now)
    site = Site(crib, guard=keys, namespaces=["shop"])
    listener = socket.create_server(("127.0.0.1", 0))
    ready = asyncio.Event()
    made = server(site, ready.set, loop="none")
    serving = asyncio.create_task(made.serve([listener]))
    await ready.wait()

    key, _ = await keys.add("ada", by="ops", name="laptop")
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}) as http:
        session = (await http.post("/sessions", json={"id": "s-1"})).json()
        print(session["owner"], session["namespaces"])
        result = (await http.post("/sessions/s-1/calls", json={"tool": "stock", "args": {"article": "tea"}})).json()
        print(result["ok"], result["data"])

    made.should_exit = True
    await serving
    listener.close()


asyncio.run(main())
