"""The variables of the environment that Toolcrib reads, so that one that is misspelt does not pass in silence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches

PREFIX = "TOOLCRIB_"
KNOWN = (
    *("ALLOW_ROOT", "CRIB", "DEMO", "DEMO_RPC", "ENGINE", "GUARD_FOLDER", "GUARD_IDLE_S", "GUARD_RESIDENT"),
    *("SECRET_KEY", "SERVER_PLACE", "STORE", "TEST_NATS", "TEST_POSTGRES", "TOKEN", "TRUST", "WAIT"),
)
ALIKE = 0.8


def misspelt() -> Iterator[tuple[str, str]]:
    """Yield each variable that is almost one of ours, and that one."""
    for name in os.environ:
        if (close := meant(name)) is not None:
            yield name, close


def meant(name: str) -> str | None:
    """The variable of ours that a name is almost; None where it is one, or is like none."""
    own = name.removeprefix(PREFIX)
    close = [] if own == name or own in KNOWN else get_close_matches(own, KNOWN, 1, ALIKE)
    return f"{PREFIX}{close[0]}" if close else None
