"""Where the data of a policy come from, so that whatever is wrong with them is told with its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.policy.errors import BadRule

Place = tuple[str | int, ...]


def _unknown(place: Place) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class DataOrigin:
    """Where the data come from: the file, the line of a rule by its number (from 1), and that of any other place."""

    file: str | None = None
    line_of: Callable[[int], int | None] = lambda number: None
    line_at: Callable[[Place], int | None] = _unknown

    def below(self, key: str) -> DataOrigin:
        """The origin of the policy that stands under a key of the same file."""
        return DataOrigin(
            self.file,
            lambda number: self.line_at((key, "rules", number - 1)),
            lambda place: self.line_at((key, *place)),
        )

    def bad(self, what: str, problem: str, number: int | None = None, position: int | None = None) -> BadRule:
        """An error that names the place."""
        key = tuple(what.removeprefix("policy.").split("."))
        line = self.line_at(key) if number is None else self.line_of(number)
        return BadRule(what, problem, position=position, line=line, file=self.file)


ANYWHERE = DataOrigin()
