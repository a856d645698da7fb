"""How many values a JSON text of a stranger may hold. Parsing makes an object of each, so bytes alone are no bound.

Sixteen megabytes of `1,1,1` are eight million objects, which take gigabytes and keep the event loop for many seconds;
sixteen megabytes of one text take no time. So parts are counted before anything is parsed.
"""

from __future__ import annotations

CHUNK = 256 * 1024


class PartCounter:
    """Counts the values of a JSON text that comes in chunks, without what stands inside of its strings."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.restart()

    def restart(self) -> None:
        """Begin with another text."""
        self._parts = self._quotes = 0
        self._in_string = False
        self._held = b""

    def exceeded_by(self, chunk: bytes) -> bool:
        """Count a chunk; says whether there are more parts now than may be."""
        text = self._held + chunk
        slashes = len(text) - len(text.rstrip(b"\\"))
        self._held = b"\\" if slashes % 2 else b""
        text = text[: len(text) - len(self._held)].replace(b"\\\\", b"").replace(b'\\"', b"")
        quotes = _count(text, b'"')
        self._quotes += quotes
        if self._quotes // 2 <= self._most:
            outside = b"".join(text.split(b'"')[self._in_string :: 2])
            self._parts += _count(outside, b",[{")
        self._in_string = self._quotes % 2 == 1
        return self._parts + self._quotes // 2 > self._most


def exceeds(text: bytes, most: int) -> bool:
    """Say whether a JSON text has more parts; one that cannot have so many is not looked at closely."""
    if len(text) <= most or _count(text, b'",[{') <= most:
        return False
    counter = PartCounter(most)
    return any(counter.exceeded_by(text[start : start + CHUNK]) for start in range(0, len(text), CHUNK))


def _count(text: bytes, wanted: bytes) -> int:
    return len(text) - len(text.translate(None, wanted))  # one pass, however often they stand there
