"""One API node and two workers over PostgreSQL and NATS; the API node runs nothing itself.

`TOOLCRIB_STORE` and `TOOLCRIB_ENGINE` name the servers; without them some are started for this run.
"""

import asyncio
import os
import sys
from contextlib import AsyncExitStack, ExitStack

from tools import index

from toolcrib import Crib
from toolcrib.engine.nats import Nats
from toolcrib.testing.services import NatsServer, PostgresServer, ServiceError


async def main(store: str, engine: str) -> None:
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(Crib([index], store=store, engine=Nats(engine, work=False)))
        for _ in range(2):
            await stack.enter_async_context(Crib([index], store=store, engine=engine))
        session = await api.open(owner="ada", namespaces=["shop"])
        results = await asyncio.gather(*(session.call("index", {"order": f"A-{n}"}) for n in range(20)))
        print(sum(result.ok for result in results), "of 20 calls ran on the workers")


with ExitStack() as servers:
    try:
        store = os.environ.get("TOOLCRIB_STORE") or servers.enter_context(PostgresServer()).url
        engine = os.environ.get("TOOLCRIB_ENGINE") or servers.enter_context(NatsServer()).url
    except ServiceError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(3)
    asyncio.run(main(store, engine))
