"""Names: for people to read, and the ones that were probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

WORD_BORDER = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
LONGEST = 128  # comparing takes time by the square of the length, and a model chooses the name


def title(name: str) -> str:
    """Make a readable title of a name: `get_current_time` and `GetCurrentTime` give `Get current time`."""
    words = " ".join(WORD_BORDER.sub(" ", name).split()).lower()
    return words[:1].upper() + words[1:]


def nearest(name: str, candidates: Iterable[str], n: int = 3) -> list[str]:
    """List up to `n` candidates that look like the name, the closest first."""
    asked = name[:LONGEST].lower()
    known = {candidate[:LONGEST].lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(asked, known, n) if asked else []
    parts = [key for key in known if len(asked) > 2 and key not in close and asked in key]
    return [known[key] for key in (close + parts)[:n]]
