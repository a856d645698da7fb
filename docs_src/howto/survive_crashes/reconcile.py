import asyncio
import os
import subprocess
import sys
from pathlib import Path

from toolcrib import Context, Crib, tool

BANK = Path("bank.txt")  # stands for a bank that remembers the key of each payment


def payments() -> list[str]:
    return BANK.read_text().splitlines() if BANK.exists() else []


def found(ctx: Context, cents: int) -> str | None:
    """Say what became of a payment: its receipt, or None where that can not be known."""
    return "receipt" if f"{ctx.call} {cents}" in payments() else None


@tool(effect="once", reconcile=found)
def pay(ctx: Context, cents: int) -> str:
    """Pay something."""
    with BANK.open("a") as bank:
        bank.write(f"{ctx.call} {cents}\n")
    if cents == 500:
        os._exit(1)  # the process dies after the payment, before its result is recorded
    return "receipt"


async def first_life() -> None:
    async with Crib([pay], store="sqlite:///pay.db") as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("pay", {"cents": 500})


async def second_life() -> None:
    async with Crib([pay], store="sqlite:///pay.db") as crib:
        session = await crib.open("s-1", owner="ada")
        (entry,) = await session.completed()
        assert entry.result is not None
        print(entry.status, entry.result.data)
        print("payments:", len(payments()))


if __name__ == "__main__":
    if "crash" in sys.argv:
        asyncio.run(first_life())
    else:
        subprocess.run([sys.executable, __file__, "crash"], check=False)
        asyncio.run(second_life())
