"""Usage: crib <port> <tools> <store>. A crib with that many tools, served."""

import sys
from typing import Any

from bench.probes.mcp.serving import serve
from bench.probes.place import place
from toolcrib import Crib, Tool, tool
from toolcrib.serve.http import Site


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _nothing(context: Any, values: Any) -> None:
    return None


def made(tools: int, store: str = "memory:") -> Crib:
    """A crib of `add` and others like it."""
    more = [Tool(name=f"tool_{number}", description="One of many.", run=_nothing) for number in range(tools - 1)]
    return Crib([add, *more], store=store)


if __name__ == "__main__":
    with place(sys.argv[3]) as url:
        serve(Site(made(int(sys.argv[2]), url)))
