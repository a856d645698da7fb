"""Lengths of time as people write them: `90s`, `15min`, `12h`, `7d`, `2w`."""

from __future__ import annotations

import re

PATTERN = r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)"
_PARTS = re.compile(PATTERN)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def seconds_of(text: str) -> float | None:
    """Return the seconds that a text means, or None if it is no length of time."""
    parts = _PARTS.fullmatch(text.strip())
    return None if parts is None else float(parts[1]) * _SECONDS[parts[2]]
