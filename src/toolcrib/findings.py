"""`Finding`: something that was written and does nothing, or not what it looks like, with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: a stable code, how bad it is, in words, where it is written and what was probably meant.

    `about` says which part of a project it belongs to: `policy`, `tools`, `agents`, `keys` or `config`. `setting` is
    the place of a setting among those of its source: who knows where the source is described knows the line by it.
    """

    code: str
    severity: Severity
    message: str
    about: str = "policy"
    file: str | None = None
    line: int | None = None
    nearest: str | None = None
    setting: tuple[str | int, ...] | None = None

    @property
    def place(self) -> str:
        """The file and the line, as far as they are known."""
        if self.file is None:
            return "" if self.line is None else f"line {self.line}"
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The message with what was probably meant."""
        return self.message if self.nearest is None else f"{self.message}, did you mean '{self.nearest}'?"

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text

    def data(self) -> dict[str, Any]:
        """Its form in JSON; what is not known is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None and name != "setting"}


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once: errors first, then by place."""
    once = dict.fromkeys(findings)
    return sorted(once, key=lambda one: (_RANK[one.severity], one.file or "", one.line or 0))
