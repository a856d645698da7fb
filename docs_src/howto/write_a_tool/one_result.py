import asyncio
from typing import Annotated

from pydantic import Field

from toolcrib import Crib, ToolFailure, tool

RATES = {"EUR": 1.0, "CHF": 0.94, "USD": 1.08}


@tool(namespace="money", read_only=True, timeout=5, output_schema=float)
def convert(amount: Annotated[float, Field(gt=0)], to: str, origin: str = "EUR") -> float:
    """Convert an amount of money.

    Args:
        amount: How much, more than zero.
        to: The currency that is wanted, as three letters.
        origin: The currency of the amount.
    """
    for currency in (origin, to):
        if currency not in RATES:
            raise ToolFailure("not_found", f"Unknown currency: {currency}", hint=f"Known: {', '.join(RATES)}")
    return round(amount / RATES[origin] * RATES[to], 2)


async def main() -> None:
    async with Crib([convert]) as crib:
        session = await crib.open(owner="ada", namespaces=["money"])
        print((await session.call("money.convert", {"amount": 10, "to": "CHF"})).text)
        print((await session.call("money.convert", {"amount": 10, "to": "XYZ"})).text)
        print((await session.call("money.convert", {"amount": -1})).text)


asyncio.run(main())
