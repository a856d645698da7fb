import asyncio
import sys
from typing import Any

from toolcrib import Crib
from toolcrib.chain import Chain, ChainLimits, Chains, forge
from toolcrib.testing.chain import Anvil, anvil
from toolcrib.testing.services import ServiceError


def plan(bob: str) -> list[dict[str, Any]]:
    paying = {"to": bob, "value": "1000"}
    return [
        {"description": "Pay once", "calls": [{**paying, "note": "the first"}]},
        {"description": "Pay twice", "calls": [paying, {**paying, "value": "2000"}], "dependencies": [0]},
        {"description": "Pay the rest", "calls": [{**paying, "value": "3000"}], "dependencies": [0, 1]},
    ]


def sign(chain: Anvil, request: dict[str, Any]) -> dict[str, Any]:
    """Stands for the user's wallet, which shows the request and sends what the user agrees to."""
    sent = [{name: tx[name] for name in tx if name != "description"} for tx in request["transactions"]]
    return {"hashes": [chain.ask("eth_sendTransaction", tx) for tx in sent], "digest": request["digest"]}


async def main(chain: Anvil) -> None:
    limits = ChainLimits(tx_wei=5000, day_wei=10_000)
    chains = Chains([Chain(31337, "anvil", chain.url, local=True, propose=True)], limits=limits)
    granted = {"grants": {"allow": ["payments:initiate"]}}
    ada, bob = chain.accounts[:2]

    async with Crib([forge.tools(chains)], policy=granted) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["forge"])
        await session.set_user({"address": ada, "chainId": 31337, "isConnected": True})

        call = await session.submit("forge_execute", {"plan": plan(bob)})
        async for event in session.events(call=call.id):
            if event.kind == "output":
                step = event.data.value
                print(step.get("step"), step.get("phase", step["status"]))
            if event.kind == "waiting":
                question = event.data.question
                await session.answer(question.id, "accept", sign(chain, question.data))

        result = await session.result(call.id)
        print([len(group["hashes"]) for group in result.data["groups"]])


try:
    with anvil() as started:
        asyncio.run(main(started))
except ServiceError as error:
    sys.stderr.write(f"There is no chain here: {error}\n")
