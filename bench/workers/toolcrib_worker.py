"""toolcrib: Session.call with the whole pipeline and the log, on the store that the first argument names."""

import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from order import Order
from protocol import Lane, Opener, serve

from toolcrib import Crib, tool


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(read_only=True)
async def take(order: Order) -> Order:
    """Take an order and give it back."""
    return order


def bound(name: str, store: str) -> Opener:
    """A lane of a new crib a run, so that no run pays for the log of another."""

    @asynccontextmanager
    async def lane() -> AsyncIterator[Lane]:
        with tempfile.TemporaryDirectory(dir=Path(__file__).parent.parent / "results") as folder:
            url = "memory:" if store == "memory" else f"sqlite:///{folder}/bench.db"
            async with Crib([add, take], store=url) as crib:
                session = await crib.open("bench", owner="bench")

                async def call(text: bytes) -> bytes:
                    return (await session.call(name, text)).json

                # A read is written behind its answer: waiting for that belongs to its cost.
                yield Lane(call, crib.store.flush)

    return lane


if __name__ == "__main__":
    serve({"add": bound("add", sys.argv[1]), "order": bound("take", sys.argv[1])}, "toolcrib")
