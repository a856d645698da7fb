"""What a foreign text may not tell: URLs, and the parts of our own that hold keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote, urlsplit

from toolcrib.chain.values import clean

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/+[^\s\"'<>)\]}]*")
SHORTEST = 6
"""A shorter part of a path, such as `v3`, is nobody's secret."""


class Scrubber:
    """Cuts every URL out of a text, and every part of the given ones."""

    def __init__(self, urls: Iterable[str], keys: Iterable[str] = ()) -> None:
        parts = {key for key in keys if key}
        for url in urls:
            parts |= _parts(url)
        self._parts = sorted(parts, key=len, reverse=True)

    def __call__(self, text: object, longest: int = 300) -> str:
        """A text that may be shown."""
        shown = _URL.sub("[url]", clean(text, 10_000))
        for part in self._parts:
            shown = re.sub(re.escape(part), "***", shown, flags=re.IGNORECASE)
        return clean(shown, longest)


def _parts(url: str) -> set[str]:
    parts = urlsplit(url)
    pieces = [*parts.path.split("/"), *(value for _, value in parse_qsl(parts.query))]
    pieces = [piece for piece in (*pieces, *map(unquote, pieces)) if len(piece) >= SHORTEST]
    sure = [parts.netloc.rpartition("@")[2], parts.username or "", parts.password or ""]
    return {piece for piece in (*pieces, *sure, *map(unquote, sure)) if piece}
