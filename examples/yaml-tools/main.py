"""A program as a tool, described in YAML: checked before it runs, and wrong calls are answered with the right one."""

import asyncio
from pathlib import Path

from toolcrib.cli import load


async def main() -> None:
    async with load(Path(__file__).with_name("crib.yaml"), store="memory:") as crib:
        session = await crib.open(owner="ada", namespaces=["calendar"])
        print((await session.call("calendar.month", {"year": 2026, "month": 2})).data.splitlines()[0].strip())
        print((await session.call("calendar.month", {"year": 2026, "month": 13})).text)


asyncio.run(main())
