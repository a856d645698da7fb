"""Usage: chain <calls>. What a read tool adds to a JSON-RPC round trip, calldata beside `cast`, and many reads at once.

It starts anvil itself, and needs npm once to fetch it and `cast`.
"""

import asyncio
import json
import subprocess
import sys
import time
from statistics import median

import httpx

from toolcrib import Crib
from toolcrib.chain import Chain, Chains, cast
from toolcrib.chain.abi import encode_call
from toolcrib.testing.chain import ACCOUNTS, Anvil, Package, anvil, fetched

CAST = Package(
    "@foundry-rs/cast-linux-amd64",
    "1.7.1",
    "XUpTM2rwtkF8BJ02dae38NNZAx5QfycWRpdR2RmSgOJnasvXuvN58whDVLjQu8IDHEV/fCNIa49aE8V74pmDwQ==",
)
SIGNATURE = "transfer(address,uint256)"
ARGUMENTS = [ACCOUNTS[1], "1000000"]
MANY = 100


async def _read(chain: Anvil, calls: int) -> dict[str, float]:
    """Turn by turn, so that both have the same machine."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance", "params": [ACCOUNTS[0], "latest"]}
    chains = Chains([Chain(chain.chain_id, "anvil", chain.url)])
    tool, plain, at_once = [], [], []
    async with Crib([cast.tools(chains)]) as crib, httpx.AsyncClient(trust_env=False) as client:
        session = await crib.open("s", owner="bench", namespaces=["cast"])
        for _ in range(calls):
            start = time.perf_counter()
            assert (await client.post(chain.url, json=asked)).json()["result"]
            middle = time.perf_counter()
            assert (await session.call("get_account_balance", {"address": ACCOUNTS[0]})).ok
            plain.append(middle - start)
            tool.append(time.perf_counter() - middle)
        for _ in range(5):
            start = time.perf_counter()
            reads = (session.call("get_account_balance", {"address": ACCOUNTS[0]}) for _ in range(MANY))
            assert all(result.ok for result in await asyncio.gather(*reads))
            at_once.append(time.perf_counter() - start)
    found = {"round_trip_ms": median(plain), "tool_ms": median(tool), "added_ms": median(tool) - median(plain)}
    return {name: 1e3 * value for name, value in {**found, f"{MANY}_reads_ms": median(at_once)}.items()}


def _encoded(calls: int) -> dict[str, float]:
    program = str(fetched(CAST, "package/bin/cast"))
    words = [program, "calldata", SIGNATURE, *ARGUMENTS]
    ours, theirs = [], []
    for _ in range(max(10, calls // 20)):
        start = time.perf_counter()
        said = subprocess.run(words, capture_output=True, text=True, check=True, env={}).stdout.strip()
        theirs.append(time.perf_counter() - start)
        for _ in range(20):
            start = time.perf_counter()
            assert encode_call(SIGNATURE, ARGUMENTS) == said
            ours.append(time.perf_counter() - start)
    return {
        "encode_us": 1e6 * median(ours),
        "cast_us": 1e6 * median(theirs),
        "times": median(theirs) / median(ours),
    }


def main() -> None:
    """Prints what was found as JSON."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with anvil() as chain:
        print(json.dumps({**asyncio.run(_read(chain, calls)), **_encoded(calls)}))


if __name__ == "__main__":
    main()
