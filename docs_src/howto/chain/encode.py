import asyncio

from toolcrib import Crib
from toolcrib.chain import Chain, Chains, ethereum

ADA = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


async def main() -> None:
    chains = Chains([Chain(1, "ethereum", rpc="https://node.example/v3/a-secret-key")])
    async with Crib([ethereum.tools(chains)]) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["ethereum"])

        paying = {"function_signature": "pay((address who, uint amount)[] list)", "arguments": [[[ADA, "5"]]]}
        data = (await session.call("encode_function_call", paying)).data
        print(data[:10], len(data))

        signature = "pay((address,uint256)[])"
        print((await session.call("decode_abi", {"data": data, "function_signature": signature})).data)

        wrong = {"function_signature": "pay(uint8)", "arguments": ["256"]}
        print((await session.call("encode_function_call", wrong)).failure)


print(ethereum.to_wei("1.5"), ethereum.from_wei(21_000, "gwei"), ethereum.chain_id("arb"))
asyncio.run(main())
