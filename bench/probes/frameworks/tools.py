"""What the scripted models call: plain functions that leave traces in the folder of their probe."""

import asyncio
import os
import signal
import time
from pathlib import Path

DEADLINE_S = 0.3
LATE_S = 1.5


def place() -> Path:
    """Return the folder of the probe."""
    return Path(os.environ["PROBE_FOLDER"])


def effects() -> list[str]:
    """Return what was charged."""
    path = place() / "effects"
    return path.read_text().split() if path.exists() else []


def charge(cents: int) -> str:
    """Charge a card."""
    with (place() / "effects").open("a") as file:
        file.write(f"{cents}\n")
    if (place() / "kill").exists():
        (place() / "kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return "charged"


def charge_anew(cents: int, currency: str = "USD") -> str:
    """Charge a card, in any currency, of whoever asks."""
    return charge(cents)


charge_anew.__name__ = "charge"


def leak(cents: int) -> str:
    """Fail with a secret."""
    raise RuntimeError("cannot connect with password=hunter2")


def slow(cents: int) -> str:
    """Take longer than it may."""
    time.sleep(LATE_S)
    (place() / "late").touch()
    return "slow"


async def hold(cents: int) -> str:
    """Note how many run at once."""
    Holding.now += 1
    Holding.most = max(Holding.most, Holding.now)
    await asyncio.sleep(0.02)
    Holding.now -= 1
    return "held"


class Holding:
    """How many calls of `hold` run, and how many ran at once at the most."""

    now = most = 0


begun = asyncio.Event()
"""Set when `endless` runs."""


async def endless(cents: int) -> str:
    """Run until it is stopped."""
    begun.set()
    try:
        await asyncio.sleep(60)
    finally:
        (place() / "stopped").touch()
    return "ended"
