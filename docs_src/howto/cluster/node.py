import asyncio
import os

from toolcrib import Crib, tool
from toolcrib.engine.nats import Nats


@tool(namespace="shop", idempotent=True)
async def index(order: str) -> str:
    """Put an order into the search index."""
    return f"{order} is found now"


async def main() -> None:
    store, engine = os.environ["TOOLCRIB_STORE"], os.environ["TOOLCRIB_ENGINE"]
    async with (
        Crib([index], store=store, engine=Nats(engine, work=False)) as api,
        Crib([index], store=store, engine=engine),  # the same tools: a worker
    ):
        session = await api.open(owner="ada", namespaces=["shop"])
        print((await session.call("index", {"order": "A-7"})).text)


asyncio.run(main())
