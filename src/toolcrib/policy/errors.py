"""What can be wrong with a value that is to be judged, and with a rule that is to judge."""

from __future__ import annotations

from toolcrib.errors import ToolcribError


class UnfitArgument(ValueError):
    """An argument that cannot be judged: its call is `invalid_arguments`, with this message."""


class BadRule(ToolcribError):
    """A grant, pattern or rule that does not load; it never simply fails to match."""

    def __init__(
        self, what: str, problem: str, *, position: int | None = None, line: int | None = None, file: str | None = None
    ) -> None:
        where = "".join(f"{part}:" for part in (file, line) if part is not None)
        at = "" if position is None else f" at {position + 1}"
        super().__init__(f"{where}{' ' if where else ''}{what!r}{at}: {problem}")
        self.what = what
        self.problem = problem
        self.position = position
        self.line = line
        self.file = file
