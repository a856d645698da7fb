"""The process that the tour kills: it starts to print a label and never comes to an end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from toolcrib.demo import crib


async def print_for_ever(folder: Path, session: str, owner: str) -> None:
    """Calls a tool that takes a minute, which is longer than this process lives."""
    async with crib(folder) as desk:
        opened = await desk.open(session, owner=owner)
        await opened.call("desk.print_label", {"order": "B-1", "seconds": 60})


if __name__ == "__main__":
    asyncio.run(print_for_ever(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
