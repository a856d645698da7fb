import asyncio
import os
import subprocess
import sys
import uuid
from pathlib import Path

from toolcrib import Context, Crib, tool

BANK = Path("bank.txt")  # stands for a bank that remembers the key of each payment


def payments() -> list[str]:
    return BANK.read_text().splitlines() if BANK.exists() else []


def found(ctx: Context, cents: int) -> str | None:
    """Say what became of a payment: its receipt, or None where that cannot be known."""
    return "receipt" if f"{ctx.id} {cents}" in payments() else None


@tool(effect="once", reconcile=found)
def pay(ctx: Context, cents: int) -> str:
    """Pay something."""
    with BANK.open("a") as bank:
        bank.write(f"{ctx.id} {cents}\n")
    if cents == 500:
        os._exit(1)  # the process dies after the payment, before its result is recorded
    return "receipt"


async def first_life(id: str) -> None:
    async with Crib([pay], store="sqlite:///pay.db") as crib:
        session = await crib.open(id, owner="ada")
        await session.call("pay", {"cents": 500})


async def second_life(id: str) -> None:
    async with Crib([pay], store="sqlite:///pay.db") as crib:
        session = await crib.open(id, owner="ada")
        (entry,) = await session.completed()
        assert entry.result is not None
        print(entry.status, entry.result.data)
        print("payments:", len(payments()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(first_life(sys.argv[1]))
    else:
        BANK.unlink(missing_ok=True)  # what an earlier run of this example has paid
        session_id = str(uuid.uuid4())
        subprocess.run([sys.executable, __file__, session_id], check=False)
        asyncio.run(second_life(session_id))
