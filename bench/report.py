"""A run of the benchmarks as a whole: for a file, for a terminal, and for a page."""

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.peers import ROOT
from bench.section import Section

PIPE_WIDTH = 140


def report(sections: Sequence[Section], *, quick: bool) -> dict[str, Any]:
    """What was measured, when and where."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "machine": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "sections": [section.as_json() for section in sections],
    }


def draw(sections: Sequence[Section]) -> None:
    """The tables on standard output."""
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    for section in sections:
        section.draw(console)


def markdown(made: dict[str, Any], sections: Sequence[Section]) -> str:
    """The tables for a page, under the time and the machine."""
    machine = made["machine"]
    head = f"Measured {made['at'][:10]} on {machine['cores']} cores with Python {machine['python']}."
    smoke = " A smoke run: the numbers are rough." if made["quick"] else ""
    return "\n\n".join([head + smoke, *(section.as_markdown() for section in sections)])


def parser(prog: str, description: str | None, names: tuple[str, ...]) -> argparse.ArgumentParser:
    """The options that every run of benchmarks takes."""

    def some(text: str) -> tuple[str, ...]:
        wanted = tuple(name.strip() for name in text.split(",") if name.strip())
        if unknown := [name for name in wanted if name not in names]:
            raise argparse.ArgumentTypeError(f"no section {', '.join(unknown)}; there are {', '.join(names)}")
        return wanted

    made = argparse.ArgumentParser(prog=prog, description=description)
    made.add_argument("--only", type=some, default=names, metavar="NAMES", help=f"some of {','.join(names)}")
    made.add_argument("--quick", action="store_true", help="a smoke run: short turns, small numbers")
    made.add_argument("--no-peers", action="store_true", help="only the limits and our own rows")
    made.add_argument("--json", action="store_true", help="print the report as JSON instead of tables")
    page = ROOT / "docs" / "benchmarks.md"
    made.add_argument(
        "--write-docs", type=Path, nargs="?", const=page, metavar="PAGE", help="put the tables into docs/benchmarks.md"
    )
    return made
