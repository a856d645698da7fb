"""The limit: pydantic-core's validate_json, the function, to_json, and nothing else."""

from typing import Any

from order import Order
from protocol import Call, plain, serve
from pydantic import TypeAdapter
from pydantic_core import to_json
from typing_extensions import TypedDict


class AddArguments(TypedDict):
    """The arguments of `add`."""

    a: int
    b: int


class OrderArguments(TypedDict):
    """The arguments of `order`."""

    order: Order


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def take(order: Order) -> Order:
    """Take an order and give it back."""
    return order


def bare(function: Any, arguments: type) -> Call:
    """Bind a function to the validator of its arguments."""
    validate = TypeAdapter(arguments).validator.validate_json

    async def call(text: bytes) -> bytes:
        return to_json(await function(**validate(text)))

    return call


if __name__ == "__main__":
    serve({"add": plain(bare(add, AddArguments)), "order": plain(bare(take, OrderArguments))})
