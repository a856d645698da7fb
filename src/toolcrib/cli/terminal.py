"""Where a command writes: rich on a terminal, plain text through a pipe, JSON on request.

Results go to standard output. Everything else (progress, streamed output, questions, errors) goes to
standard error, so that a pipe carries the result alone.
"""

from __future__ import annotations

import json as jsonlib
import logging
import os
import re
import shlex
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

Cell = str | tuple[str, str]
"""A text, or a text and its style."""

_DRAWS = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables by which rich takes a stream for a terminal that is none."""

_UNSEEN = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))} | {
    # Marks that break lines or turn the direction of writing.
    code: f"\\u{code:04x}"
    for code in (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}


class CommandError(Exception):
    """An error of a command: one line, with the next step beside it."""

    def __init__(self, message: str, advice: str, *, exit_code: int = 2, code: str = "usage") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.exit_code = exit_code
        self.code = code


def clean(text: str) -> str:
    """A text that cannot steer the terminal: control characters are shown, not sent."""
    return text.replace("\r\n", "\n").translate(_UNSEEN)


def compact(value: Any) -> str:
    """JSON in one line."""
    return jsonlib.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def exact(value: Any, indent: int | None = None) -> str:
    """The JSON that will run, with nothing in it that cannot be seen."""
    from toolcrib.schema.visible_json import visible_json

    return visible_json(value, indent)


def short(text: str, most: int = 80) -> str:
    """A text in one line, cut where it is longer than a line should be."""
    line = " ".join(clean(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


class Choice(NamedTuple):
    """The crib that a person named, and the store and the engine to take instead of its own."""

    crib: str | None = None
    store: str | None = None
    engine: str | None = None

    def words(self) -> tuple[str, ...]:
        """Return the choice as command-line options; a URL that may hold a password is left to the environment."""
        options = {"--crib": self.crib, "--store": self.store, "--engine": self.engine}
        return tuple(word for name, value in options.items() if value and "@" not in value for word in (name, value))


NO_CHOICE = Choice()


class Terminal:
    """The two streams of a command, and what the person wants to see on them."""

    def __init__(
        self, crib: Choice = NO_CHOICE, *, json: bool = False, debug: bool = False, together: bool = False
    ) -> None:
        self.crib = crib
        self.json = json
        self.debug = debug
        self.together = together
        self._results: TextIO | None = None
        self._log: logging.Logger | None = None

    def log_remarks(self, log: logging.Logger) -> None:
        """Has remarks logged from now on, where standard error is read by a program."""
        self._log = log

    def keep_output(self) -> None:
        """Keeps standard output for results: whatever else is printed from now on goes to standard error.

        That is true of tools, of modules that are imported, and of processes that either of them starts.
        """
        sys.stdout.flush()
        if _descriptor(sys.stdout) != 1:  # somebody replaced the stream of Python: that one is the whole output
            self._results, sys.stdout = sys.stdout, sys.stderr
            return
        self._results = open(  # noqa: SIM115 - it stays open to the end of the process
            os.dup(1), "w", encoding=sys.stdout.encoding, errors="backslashreplace", closefd=False
        )
        os.dup2(2, 1)

    def give_output_back(self) -> None:
        """Ends what `keep_output` began where that was in a stream of Python alone; a process stays as it is.

        A thread of a tool may outlive its command, and what it prints is no result.
        """
        if self._results is not None and _descriptor(self._results) is None:
            sys.stdout, self._results = self._results, None

    @property
    def results(self) -> TextIO:
        """Where results are written."""
        return self._results or sys.stdout

    @cached_property
    def out(self) -> Console:
        """Standard output."""
        return _console(self.results)

    @cached_property
    def err(self) -> Console:
        """Standard error, or standard output where all is to be read `together`."""
        return self.out if self.together else _console(sys.stderr)

    @cached_property
    def drawn(self) -> bool:
        """True if standard output is a terminal, or is to be written as for one."""
        return _may_be_terminal(self.results) and self.out.is_terminal

    @property
    def interactive(self) -> bool:
        """True if there is a person to ask."""
        return not self.json and sys.stdin is not None and sys.stdin.isatty() and self.err.is_terminal

    def command(self, *words: str) -> str:
        """A command to type next, on the same crib."""
        return shlex.join(("toolcrib", *self.crib.words(), *words))

    def data(self, value: Any) -> None:
        """One line of JSON on standard output."""
        print(compact(value), file=self.results, flush=True)

    def result(self, data: Any, text: str, style: str = "") -> None:
        """What a command did: as data with `--json`, else as a text."""
        if self.json:
            self.data(data)
        else:
            self.text(text, style)

    def pretty(self, value: Any) -> None:
        """A value for people: a text as it is, anything else as indented JSON, in colours on a terminal."""
        if isinstance(value, str):
            self.text(value)
        elif self.drawn:
            from rich.json import JSON

            self.out.print(JSON.from_data(value, ensure_ascii=False, default=str))
        else:
            self.text(jsonlib.dumps(value, ensure_ascii=False, indent=2, default=str))

    def text(self, text: str, style: str = "") -> None:
        """A text on standard output; through a pipe it arrives as it is."""
        if self.drawn:
            self.out.print(styled(text, style), soft_wrap=True)
        else:
            print(text, file=self.results, flush=True)

    def show(self, what: RenderableType) -> None:
        """Something drawn, on standard output."""
        self.out.print(what)

    def say(self, text: str, style: str = "") -> None:
        """A remark on standard error, or in the log."""
        if self._log is not None:
            self._log.info("%s", text)
            return
        try:
            self.err.print(styled(text, style), soft_wrap=True)
        except OSError:  # the terminal is gone, and nobody would read it
            if self.together:
                raise

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, indent: int = 0) -> None:
        """A table on a terminal; aligned columns, uncut and with no colours, through a pipe."""
        if self.drawn:
            fits = _least(columns, rows) + indent <= self.out.width
            self.out.print((_drawn if fits else _listed)(columns, rows, indent))
            return
        plain = [list(columns), *([_line(cell) for cell in row] for row in rows)]
        widths = [max(len(row[i]) for row in plain) for i in range(len(columns))]
        for row in plain:
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print(f"{'':{indent}}{line.rstrip()}", file=self.results, flush=True)

    def ready(self) -> None:
        """A server listens, and has told where; a program that has more to tell does it here."""

    def trouble(self, problem: CommandError) -> None:
        """An error, and what to do about it."""
        if self.json:
            error = {"code": problem.code, "message": problem.message, "hint": problem.advice}
            print(compact({"error": error}), file=sys.stderr, flush=True)
            return
        self.say(f"Error: {problem.message}", "red")
        self.say(f"Next:  {problem.advice}")


def styled(text: str, style: str = "") -> Text:
    """A text that holds no markup and no control characters."""
    from rich.text import Text

    return Text(clean(text), style=style)


def _line(cell: Cell) -> str:
    return " ".join(clean(cell if isinstance(cell, str) else cell[0]).split())


def _may_be_terminal(stream: Any) -> bool:
    """False where it is plain that a stream is none, so that nothing need be loaded that draws."""
    return any(name in os.environ for name in _DRAWS) or bool(hasattr(stream, "isatty") and stream.isatty())


def _descriptor(stream: Any) -> int | None:
    """The number of the file behind a stream; None where there is none."""
    try:
        number: int = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return number


def _console(stream: Any) -> Console:
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)


def _drawn(columns: Sequence[str], rows: Sequence[Sequence[Cell]], indent: int) -> RenderableType:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for i, name in enumerate(columns):
        # The first column names the thing, and a name that was cut cannot be typed.
        table.add_column(name, no_wrap=i == 0, overflow="fold")
    for row in rows:
        table.add_row(*(styled(*((cell,) if isinstance(cell, str) else cell)) for cell in row))
    return Padding(table, (0, 0, 0, indent))


def _least(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> int:
    """How wide a table has to be that breaks no word but a path."""
    lines = [columns, *([_line(cell) for cell in row] for row in rows)]
    words = [[len(word) for line in lines for word in re.split("[ /]", line[i])] for i in range(len(columns))]
    return sum(max(lengths) + 3 for lengths in words)


def _listed(columns: Sequence[str], rows: Sequence[Sequence[Cell]], indent: int) -> RenderableType:
    """What a narrow terminal shows instead of a table: a paragraph for each row, without what is empty."""
    from rich.padding import Padding
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            if _line(cell):
                table.add_row(name, styled(*((cell,) if isinstance(cell, str) else cell)))
        table.add_row()
    return Padding(table, (0, 0, 0, indent))
