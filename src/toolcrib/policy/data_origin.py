"""Where the data of a policy come from, so that whatever is wrong with them is told with its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from toolcrib.findings import Finding
from toolcrib.policy.errors import BadRule

Place = tuple[str | int, ...]


def _unknown(place: Place) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class DataOrigin:
    """Where the data come from: the file, the line of a rule by its number (from 1), and that of any other place.

    `findings` are what was noticed when it was read, `sources` the sources that it describes, each with its place.
    """

    file: str | None = None
    line_of: Callable[[int], int | None] = lambda number: None
    line_at: Callable[[Place], int | None] = _unknown
    findings: tuple[Finding, ...] = ()
    sources: tuple[tuple[object, Place], ...] = ()

    def located(self, finding: Finding, source: object) -> Finding:
        """The finding of a source with the line of the setting that it is about, where that stands in the file."""
        place = next((place for one, place in self.sources if one is source), None)
        if place is None or finding.setting is None or finding.file is not None:
            return finding
        line = self.line_at((*place, *finding.setting)) or self.line_at(place)
        return replace(finding, file=self.file, line=line)

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
