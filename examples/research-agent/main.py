"""An agent that answers from the tools of an MCP server."""

import asyncio
from pathlib import Path

from toolcrib.cli import load


async def main() -> None:
    async with load(Path(__file__).parent / "crib.yaml", store="memory:") as crib:
        session = await crib.open(owner="ada", namespaces=["*"])
        outcome = await session.send("Why are there tides?")
        async for event in session.events(follow=False):
            if event.kind == "accepted":
                print("called", event.data.tool)
        print(outcome.answer)
        print("note:", session.state.snapshot()["note"])


asyncio.run(main())
