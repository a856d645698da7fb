"""A server whose results have any size: `python -m tests.soak.server PORT STORE [KEPT_S]`. It says when it listens."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from toolcrib import Context, Crib, tool
from toolcrib.crib import WEEK
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.http import Site, server, settle

LIMITS = ServeLimits(idle_s=10.0, streams_each=10_000, requests_each=10_000)


@tool(read_only=True)
async def sized(size: int) -> str:
    """Return a text of that many characters."""
    return "x" * size


@tool(read_only=True)
async def length(text: str) -> int:
    """Count the characters of a text."""
    return len(text)


@tool(idempotent=True)
async def pieces(ctx: Context, size: int, count: int) -> str:
    """Put out that many texts of that many characters."""
    for _ in range(count):
        ctx.output("y" * size)
        await asyncio.sleep(0)
    return "done"


TOOLS = [sized, length, pieces]


def main() -> None:
    port, store, *kept = sys.argv[1:]
    crib = Crib(TOOLS, store=store, retention=timedelta(seconds=float(kept[0])) if kept else WEEK)
    site = Site(crib, limits=LIMITS)
    settle()
    ready = lambda: print("ready", flush=True)  # noqa: E731
    server(site, ready, host="127.0.0.1", port=int(port), log_level="error", loop="uvloop").run()


if __name__ == "__main__":
    main()
