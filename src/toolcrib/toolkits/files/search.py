"""Names and lines that match a pattern, in time that a pattern cannot stretch.

Expressions are those of Rust's `regex` (through pydantic-core), which never goes back: there is no catastrophic one.
"""

from __future__ import annotations

import stat
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from toolcrib.errors import ToolFailure
from toolcrib.policy import globs, paths
from toolcrib.policy.errors import BadRule
from toolcrib.toolkits.files import content
from toolcrib.toolkits.files.root import RootFolder

TIME_S = 5.0
_LINE = 2000
_SHOWN = 300
_LARGEST = 10 * 1024 * 1024

Readable = Callable[[str], bool]


def denied(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """The test whether a plain path, or a folder on its way, has a name that one of the patterns means, in any case."""
    tests = [globs.text(_folded(pattern.rstrip("/"))) for pattern in patterns]
    return lambda path: any(test(_folded(name)) for name in path.split("/") for test in tests)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def named(pattern: str) -> Callable[[str], bool]:
    """The test of a glob over plain paths: one without a slash is about the name, `**` spans folders.

    Raises:
        ToolFailure: `invalid_arguments`, it is none.
    """
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ToolFailure("denied", "The pattern leads out of the folder")
    try:
        matches = paths.glob(pattern if "/" not in pattern else f"/{pattern}", paths.NOWHERE)
    except BadRule as error:
        raise ToolFailure("invalid_arguments", f"This is no pattern: {error.problem}") from None
    return lambda path: matches(f"/{path}")


def expression(pattern: str) -> Callable[[str], bool]:
    """The test whether an expression is found in a line.

    Raises:
        ToolFailure: `invalid_arguments`, it is none, or has what cannot be searched for in time.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        made = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        problem = str(error).strip().splitlines()[-1].strip()
        raise ToolFailure("invalid_arguments", f"This expression cannot be used: {problem[:200]}") from None
    return made.isinstance_python


class Search:
    """One search through files, which ends when its time is over."""

    def __init__(self, root: RootFolder, readable: Readable, most: int) -> None:
        self._root, self._readable, self._most = root, readable, most
        self._until = time.monotonic() + TIME_S
        self.matches: list[dict[str, Any]] = []
        self.files = 0
        self.ended: str | None = None

    def below(self, path: str, test: Callable[[str], bool], wanted: Callable[[str], bool]) -> None:
        """Looks through a file, or through all files of a folder."""
        for place in self._places(path):
            if self.ended is not None:
                return
            if self._late():
                self.ended = f"the time of {TIME_S:g} s"
            elif self._readable(place) and wanted(place):
                self._through(place, test)

    def _places(self, path: str) -> Iterator[str]:
        if path != "." and stat.S_ISREG(self._root.status(path).st_mode):
            yield path
            return
        with self._root.folder(path):
            pass  # says what is wrong with it
        yield from (place for place, status in self._root.walk(path) if stat.S_ISREG(status.st_mode))

    def _through(self, place: str, test: Callable[[str], bool]) -> None:
        try:
            text = content.text_of(content.read(self._root, place, _LARGEST))
        except (ToolFailure, OSError):
            return  # too large, gone, or no ordinary file
        self.files += text is not None
        for number, line in enumerate((text or "").splitlines(), 1):
            if number % 64 == 0 and self._late():
                self.ended = f"the time of {TIME_S:g} s"
                return
            if test(line[:_LINE]):
                if len(self.matches) >= self._most:
                    self.ended = f"{self._most} matches"
                    return
                self.matches.append({"path": place, "line": number, "text": line[:_SHOWN]})

    def _late(self) -> bool:
        return time.monotonic() > self._until
