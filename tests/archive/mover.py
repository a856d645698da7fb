"""Moves a session into the archive, or brings it back, and is killed at a moment that its arguments name."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import Any

from toolcrib import Crib


def kill(*args: Any) -> None:
    """End at once, as in a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_around(owner: Any, name: str, after: bool) -> None:
    """Be killed before or after something is done for the first time."""
    do = getattr(owner, name)

    async def killed(*args: Any, **options: Any) -> Any:
        if after:
            await do(*args, **options)
        kill()

    setattr(owner, name, killed)


async def main(store: str, archive: str, moment: str) -> None:
    """Do it."""
    async with Crib(store=store, archive=archive, retention=timedelta(0)) as crib:
        assert crib.archiver is not None
        moments = {
            "before the file": (type(crib.archiver.files), "put", False),
            "after the file": (type(crib.archiver.files), "put", True),
            "after it left the store": (type(crib.archiver.index), "put_away", True),
            "before it is back": (type(crib.archiver.index), "bring_back", False),
            "after it is back": (type(crib.archiver.index), "bring_back", True),
        }
        kill_around(*moments[moment])
        if moment.endswith("back"):
            await crib.store.session("s-1")
        else:
            await crib.sweep()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
