"""The script of `text-stats.yaml`: the command is its argument, the arguments come as JSON on standard input."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any


def count(text: str) -> dict[str, int]:
    """How many characters, words, sentences and lines a text has."""
    return {
        "characters": len(text),
        "words": len(_words(text)),
        "sentences": len(re.findall(r"[^.!?\s][^.!?]*", text)),
        "lines": len(text.splitlines()),
    }


def frequent(text: str, top: int = 10, shortest: int = 4) -> dict[str, list[dict[str, Any]]]:
    """The words that a text uses most often; of equals the one that comes first."""
    counts = Counter(word.lower() for word in _words(text) if len(word) >= shortest)
    return {"words": [{"word": word, "count": times} for word, times in counts.most_common(top)]}


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", text)  # noqa: RUF001 - people write both


COMMANDS: dict[str, Callable[..., Any]] = {"count": count, "frequent": frequent}

if __name__ == "__main__":
    print(json.dumps(COMMANDS[sys.argv[1]](**json.load(sys.stdin))))  # noqa: T201 - that is how it answers
