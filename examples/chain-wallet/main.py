"""A plan of payments that a wallet signs group by group, within limits, on a chain of its own."""

import asyncio
import sys
from typing import Any

from toolcrib import Crib
from toolcrib.chain import Chain, ChainLimits, Chains, forge
from toolcrib.testing.chain import Anvil, anvil
from toolcrib.testing.services import ServiceError


def sign(chain: Anvil, request: dict[str, Any]) -> dict[str, Any]:
    """Stand for the wallet of the user, who looks at the request and agrees."""
    sent = [{name: tx[name] for name in tx if name != "description"} for tx in request["transactions"]]
    return {"hashes": [chain.ask("eth_sendTransaction", tx) for tx in sent], "digest": request["digest"]}


async def main(chain: Anvil) -> None:
    limits = ChainLimits(tx_wei=5000, day_wei=10_000)
    chains = Chains([Chain(31337, "anvil", chain.url, local=True, propose=True)], limits=limits)
    ada, bob = chain.accounts[:2]
    async with Crib([forge.tools(chains)], policy={"grants": {"allow": ["payments:initiate"]}}) as crib:
        session = await crib.open(owner="ada", namespaces=["forge"])
        await session.set_user({"address": ada, "chainId": 31337, "isConnected": True})
        for wei in ("1000", "6000"):
            plan = [{"description": "Pay Bob", "calls": [{"to": bob, "value": wei}]}]
            call = await session.submit("forge_execute", {"plan": plan})
            async for event in session.events(call=call.id):
                if event.kind == "waiting":
                    print("the wallet is asked to sign", wei, "wei")
                    await session.answer(event.data.question.id, "accept", sign(chain, event.data.question.data))
            result = await session.result(call.id)
            print(wei, "wei:", "paid" if result.ok else result.failure and result.failure.code)


try:
    with anvil() as started:
        asyncio.run(main(started))
except ServiceError as error:
    sys.stderr.write(f"There is no chain here: {error}\n")
    sys.exit(3)
