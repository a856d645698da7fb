import asyncio
import sys

from toolcrib import Crib
from toolcrib.chain import Chain, Chains, account, cast
from toolcrib.testing.chain import Anvil, anvil
from toolcrib.testing.services import ServiceError


async def main(chain: Anvil) -> None:
    chains = Chains([Chain(31337, "anvil", chain.url, local=True)])
    ada, bob = chain.accounts[:2]

    async with Crib([account.tools(chains), cast.tools(chains)]) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["account", "cast"])
        print((await session.call("get_account_info", {"address": ada})).data)

        paying = {"from": ada, "to": bob, "value": "1000"}
        print((await session.call("simulate_contract_call", paying)).data["moves"])
        print((await session.call("send_transaction", paying)).data["status"])
        print((await session.call("get_account_transaction_history", {"address": bob})).data["count"])


try:
    with anvil() as started:
        asyncio.run(main(started))
except ServiceError as error:
    sys.stderr.write(f"There is no chain here: {error}\n")
