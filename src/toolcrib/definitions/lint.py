"""What is wrong with a file, each thing with its place and what would mend it. One problem never hides another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from itertools import islice
from typing import Any

from toolcrib.definitions.definition import Status
from toolcrib.schema import nearest
from toolcrib.yaml import Path, Severity, YamlDocument, YamlProblem, spelled

_FIXES = {
    "INVALID_TYPE": "Write a mapping as lines with 'key: value', a list as lines with '- ', text in quotes",
    "INVALID_SCHEMA": "Write a JSON Schema, as in '{type: object, properties: {name: {type: string}}}'",
    "INVALID_TEMPLATE": "Write '{{name}}' for the value of an argument, and '{{name...}}' alone to spread a list",
}


class ToolProblems:
    """Collects the problems of one tool. Paths begin at the tool, which is at `base` in the document."""

    def __init__(self, document: YamlDocument, base: Path = ()) -> None:
        self.document = document
        self.base = base
        self.problems: list[YamlProblem] = list(document.problems)
        self.fatal = bool(document.problems)

    @property
    def status(self) -> Status:
        """What the problems make of the file."""
        if self.fatal:
            return "invalid"
        return "degraded" if any(problem.severity == "error" for problem in self.problems) else "ok"

    def at(self, *base: str | int) -> ToolProblems:
        """The same findings, with paths that begin elsewhere in the document."""
        other = copy(self)
        other.base = base
        return other

    def error(self, code: str, message: str, *path: str | int, fix: str | None = None) -> str:
        """Something is broken and off; gives the message back, for what is to say so when it is used."""
        return self._add("error", code, message, path, fix)

    def refuse(self, code: str, message: str, *path: str | int, fix: str | None = None) -> None:
        """The whole file is unusable."""
        self.fatal = True
        self._add("error", code, message, path, fix)

    def warning(self, code: str, message: str, *path: str | int, fix: str | None = None) -> None:
        """Something that works, and will surprise somebody."""
        self._add("warning", code, message, path, fix)

    def info(self, code: str, message: str, *path: str | int, fix: str | None = None) -> None:
        """Something worth knowing."""
        self._add("info", code, message, path, fix)

    def written(self, *path: str | int) -> str:
        """A scalar as the author wrote it."""
        node = self.document.node((*self.base, *path))
        return "" if node is None or node.written is None else node.written

    def place(self, *path: str | int) -> tuple[str, int, int]:
        """The path in the document, the line and the column of something."""
        whole = (*self.base, *path)
        return spelled(whole), *self.document.place(whole)

    def _add(self, severity: Severity, code: str, message: str, path: Path, fix: str | None) -> str:
        self.problems.append(YamlProblem(code, severity, message, *self.place(*path), fix or _FIXES.get(code)))
        return message


MOST_NAMES = 30
"""As many names are looked at to suggest one: more would take long in a file that is made for it."""


def one_of(value: Any, known: Iterable[str]) -> str:
    """What to write instead of a value that is none of the known ones."""
    names = tuple(islice(known, MOST_NAMES))
    close = names if len(names) == 1 else nearest(str(value), names, 1)
    return f"Write '{close[0]}'" if close else f"Write one of: {', '.join(names)}"


def kind(value: Any) -> str:
    """What sort of value it is, in words of the format."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "a number"
    return "a mapping" if isinstance(value, Mapping) else "a list"
