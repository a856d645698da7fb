"""The operations of a web service as tools: what deletes asks, and the key is never seen by a model."""

import asyncio
import threading
from pathlib import Path

from service import start

from toolcrib import Crib
from toolcrib.sources.openapi import OpenApi


async def main(url: str) -> None:
    document = Path(__file__).with_name("pets.yaml")
    pets = OpenApi(document, namespace="pets", base_url=url, auth={"key": "s3cret"}, trusted=True)
    # A private address is granted as it is, with its port; no pattern reaches one.
    policy = {"grants": {"allow": [f"net:egress:{url}"]}, "rules": [{"ask": "pets.dropPet"}]}
    async with Crib([pets], policy=policy) as crib:
        session = await crib.open(owner="ada", namespaces=["pets"])
        for tool in session.tools():
            print(tool.id, tool.does)
        print((await session.call("pets.getPet", {"id": 1})).data)
        print((await session.call("pets.getPet", {"id": "../admin"})).text)
        call = await session.submit("pets.dropPet", {"id": 1})
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                print(event.data.question.prompt)
                await session.answer(event.data.question.id, "accept", actor="bob")
        print((await session.result(call.id)).data)


with start() as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asyncio.run(main(f"http://127.0.0.1:{server.server_port}"))
    server.shutdown()
