"""A section of the report: a table that can be drawn for a terminal, for a page, and as data."""

from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Section:
    """One table. `cells` are rows of text; `data` is what was measured, for programs."""

    name: str
    title: str
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The measurements and the notes."""
        return {"name": self.name, "title": self.title, "notes": list(self.notes), "data": self.data}

    def as_markdown(self) -> str:
        """A heading, the table and the notes."""
        rule = ["---"] + ["---:"] * (len(self.columns) - 1)
        lines = [_line(self.columns), _line(rule), *(_line(row) for row in self.cells)]
        return "\n".join([f"### {self.title}", "", *lines, *(f"\n{note}" for note in self.notes)])

    def draw(self, console: Console) -> None:
        """For a terminal; plain where the output is a file or a pipe."""
        shape = box.ROUNDED if console.is_terminal else box.MARKDOWN
        table = Table(title=self.title, title_justify="left", title_style="bold", box=shape)
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left", no_wrap=not number)
        for row in self.cells:
            table.add_row(*row, style="bold green" if row[0].startswith("toolcrib") else None)
        console.print(table)
        for note in self.notes:
            console.print(note, style="dim", highlight=False, soft_wrap=True)
        console.print()


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
