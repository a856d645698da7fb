"""Names: for people to read, and the ones that were probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

WORD_BORDER = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
ALIKE = 0.6
LONGEST = 128  # comparing takes time by the square of the length, and a model chooses the name


def title(name: str) -> str:
    """Make a readable title of a name: `get_current_time` and `GetCurrentTime` give `Get current time`."""
    words = " ".join(WORD_BORDER.sub(" ", name).split()).lower()
    return words[:1].upper() + words[1:]


def nearest(name: str, candidates: Iterable[str], n: int = 3) -> list[str]:
    """List up to `n` candidates that look like the name, the closest first."""
    scored = [(-_likeness(name, candidate), candidate) for candidate in dict.fromkeys(candidates)]
    return [candidate for score, candidate in sorted(scored, key=lambda pair: pair[0]) if score][:n]


def _likeness(name: str, candidate: str) -> float:
    """Compare two names: 1 for the same, 0 for nothing alike."""
    wanted, known = name[:LONGEST].lower(), candidate[:LONGEST].lower()
    matcher = difflib.SequenceMatcher(None, wanted, known)
    if matcher.real_quick_ratio() >= ALIKE and (ratio := matcher.ratio()) >= ALIKE:
        return ratio
    return ALIKE / 2 if len(wanted) > 2 and wanted in known else 0


def one_line(text: str) -> str:
    """A label: one line of at most 120 characters."""
    return " ".join(text.split())[:120].rstrip()
