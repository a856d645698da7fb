import asyncio
import sys

from toolcrib import Crib
from toolcrib.chain import Chain, Chains, ethereum, wallet
from toolcrib.chain.autosign import autosign
from toolcrib.testing import Artifact, anvil, shapes
from toolcrib.testing.chain import Anvil
from toolcrib.testing.services import ServiceError

VAULT = "0x" + "7a" * 20
ABI = [{"type": "function", "name": "open", "inputs": [{"name": "key", "type": "uint256"}]}]


async def main(chain: Anvil) -> None:
    ada, bob = chain.accounts[:2]
    vault = Artifact("Vault", ABI, {"Vault.sol": "contract Vault { ... }"})

    with shapes(chain.url, {VAULT: vault}) as web:
        chains = Chains([Chain(31337, "anvil", chain.url, local=True, propose=True)], **web.chains)
        granted = {"grants": {"allow": ["payments:initiate"]}}
        async with Crib([ethereum.tools(chains), wallet.tools(chains)], policy=granted) as crib:
            session = await crib.open("s-1", owner="ada", namespaces=["ethereum", "wallet"])
            await session.set_user({"address": ada, "chainId": 31337, "isConnected": True})

            found = await session.call("get_contract_abi", {"address": VAULT, "format": "signatures"})
            print(found.data["contracts"][0]["name"], web.seen["sourcify"])

            paying = {"to": bob, "value": "1000", "data": "0x", "description": "Pay Bob"}
            async with autosign(session, chains):
                print((await session.call("send_transaction_to_wallet", paying)).data["status"])


try:
    with anvil() as started:
        asyncio.run(main(started))
except ServiceError as error:
    sys.stderr.write(f"There is no chain here: {error}\n")
