import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from toolcrib import By, Context, Crib, ToolFailure, tool


@dataclass
class Balance:
    address: str
    wei: str


@tool(namespace="ethereum", read_only=True, output_schema=Balance)
async def get_balance(ctx: Context, address: str, block: str = "latest") -> Balance:
    """Get the balance of an account.

    Args:
        address: The account, as 0x and 40 hex digits.
        block: The block, or "latest".
    """
    if not address.startswith("0x"):
        raise ToolFailure("invalid_arguments", f"Not an address: {address}")
    ctx.progress(f"asking for session {ctx.session}")
    return Balance(address, "0")


@tool(namespace="ethereum", background=True, wake="wake")
async def watch_balance(address: str) -> AsyncIterator[dict[str, Any]]:
    """Watch an account for a while."""
    for block in (1, 2):
        await asyncio.sleep(0.05)
        yield {"address": address, "block": block}


async def main() -> None:
    async with Crib([get_balance, watch_balance]) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["ethereum"])
        by_model = By("agent", "helper")
        arguments = {"topic": "Look up the balance", "address": "0xabc", "block": None}
        result = await session.call("get_balance", arguments, by=by_model)
        print(result.data)

        queued = await session.call("watch_balance", {"address": "0xabc"}, by=by_model)
        print(queued.data["status"], "-", queued.metadata["note"].partition(". ")[2])
        await session.result(queued.data["id"])

        for entry in await session.completed("model"):
            assert entry.result is not None
            print(entry.label, "-", entry.result.data)


asyncio.run(main())
