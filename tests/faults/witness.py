"""Files that Toolcrib does not know: one synced line for each effect and each acknowledgement."""

import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple


def append(path: Path, *words: Any) -> None:
    """Adds a line that is on disk when this returns; a kill leaves all of it or nothing."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{json.dumps(words)}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def lines(path: Path) -> list[list[Any]]:
    """All lines in the order in which they were added."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


class Effect(NamedTuple):
    """One run of a body, or of the function of a step."""

    kind: str
    n: str
    call: str
    attempt: int
    pid: int
    at: float
    session: str


class Witness:
    """The effects of one round. Times are those of the machine's monotonic clock, which all processes share."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "effects.jsonl"

    def saw(self, kind: str, n: str, ctx: Any) -> None:
        """An effect happens now."""
        append(self._path, kind, n, ctx.id, ctx.attempt, os.getpid(), time.monotonic(), ctx.session)

    def count(self) -> int:
        """How many there are."""
        return self._path.read_bytes().count(b"\n") if self._path.exists() else 0

    def effects(self) -> list[Effect]:
        """All of them."""
        return [Effect(*words) for words in lines(self._path)]
