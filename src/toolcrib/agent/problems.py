"""What can be wrong with the definition of an agent: found all at once, each with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from toolcrib.errors import ToolcribError
from toolcrib.schema import nearest

Kind = Literal["missing", "wrong_type", "wrong_value", "unknown_value", "unknown_field"]
Path = tuple[str | int, ...]


class AgentProblem(NamedTuple):
    """One thing that is wrong: of which kind, where in the definition, and in words."""

    kind: Kind
    path: Path
    text: str

    @property
    def field(self) -> str:
        """The place as a dotted text."""
        return ".".join(map(str, self.path))


class BadAgent(ToolcribError):
    """Definitions of agents that do not hold, with everything that is wrong in them."""

    def __init__(self, problems: Iterable[AgentProblem], lines: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        self.lines = tuple(lines) or tuple(f"{problem.field}: {problem.text}" for problem in self.problems)
        super().__init__("\n".join(self.lines))


class ProblemCollector:
    """Gathers problems while a definition is read."""

    def __init__(self) -> None:
        self.problems: list[AgentProblem] = []

    def add(self, kind: Kind, path: Path, text: str) -> None:
        """Something is wrong there."""
        self.problems.append(AgentProblem(kind, path, text))

    def keys(self, table: Mapping[str, Any], known: Iterable[str], path: Path) -> None:
        """Each key that nobody knows, with the nearest that is known."""
        names = tuple(known)
        for key in table:
            if key not in names:
                self.add("unknown_field", (*path, key), f"unknown key '{key}'{meant(str(key), names)}")

    def raise_if_any(self) -> None:
        """Raises `BadAgent` with all of them."""
        if self.problems:
            raise BadAgent(self.problems)


def meant(name: str, known: Iterable[str]) -> str:
    """The name that was probably meant, as the end of a sentence."""
    close = nearest(name, known, 1)
    return f" (did you mean '{close[0]}'?)" if close else ""
