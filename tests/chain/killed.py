"""Usage: killed <send|forge> <node> <store> [plan]. A process that its parent kills at the worst moment."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.chain.place import GRANTED, MAKER, NAMESPACES, OTHER, USER, kits
from toolcrib import Crib
from toolcrib.chain import Chain, Chains, cast


async def _send(url: str, store: str) -> None:
    """Sends a transaction, and never hears that it was mined."""
    sent = asyncio.Event()

    async def for_ever(*given: Any) -> Any:
        sent.set()
        await asyncio.Event().wait()

    cast._mined = for_ever  # type: ignore[assignment]
    async with Crib(kits(Chains([Chain(1, "ethereum", url, local=True)])), store=f"sqlite:///{store}") as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["cast"])
        call = await session.submit("send_transaction", {"from": OTHER, "to": MAKER, "value": "5"})
        await sent.wait()
        print(call.id, flush=True)
        await asyncio.Event().wait()


async def _forge(url: str, store: str, plan: str) -> None:
    """Starts a plan, and tells its call once the wallet is asked."""
    chains = Chains([Chain(1, "ethereum", url, local=True, propose=True)])
    async with Crib(kits(chains), store=f"sqlite:///{store}", policy=GRANTED) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=NAMESPACES)
        await session.set_user({"address": USER, "chainId": 1, "isConnected": True})
        call = await session.submit("forge_execute", {"plan": json.loads(Path(plan).read_text("utf-8")), "chain_id": 1})
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                print(call.id, flush=True)
                await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_send(*sys.argv[2:]) if sys.argv[1] == "send" else _forge(*sys.argv[2:]))
