import asyncio

from toolcrib import ToolFailure, testing, tool


@tool(namespace="money", read_only=True)
def convert(amount: float, to: str) -> float:
    """Convert euros."""
    if to != "CHF":
        raise ToolFailure("not_found", f"Unknown currency: {to}")
    return round(amount * 0.94, 2)


async def test_a_known_currency_is_converted() -> None:
    result = await testing.run(convert, {"amount": 10, "to": "CHF"})
    assert result.data == 9.4


async def test_an_unknown_currency_is_not_found() -> None:
    result = await testing.run(convert, {"amount": 10, "to": "XYZ"})
    assert str(result.failure) == "[not_found] Unknown currency: XYZ"


async def test_the_amount_must_be_a_number() -> None:
    result = await testing.run(convert, {"amount": "much", "to": "CHF"})
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments"


if __name__ == "__main__":
    asyncio.run(test_a_known_currency_is_converted())
    asyncio.run(test_an_unknown_currency_is_not_found())
    asyncio.run(test_the_amount_must_be_a_number())
