"""Which requirements of the specification are done, each in our own words and each held by a marked test.

`python -m tests.requirements` prints what is done and what is open; with names (`contract aomi.open`) it lists the
open ids under them. `test_requirements.py` checks the manifest both ways: what stands here has a test, what a test
names stands here.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.shared import SHARED

# One dict per first word of the ids, lines in the order of the specification.

CONTRACT: dict[str, str] = {
    "contract.ctx.8": "A context outside a crib records all that a tool tells it, in order.",
}

SESSIONS: dict[str, str] = {  # aomi.*
    "aomi.guide.1": "The guide defines, registers and calls a first tool in three steps, in at most 10 lines.",
    "aomi.guide.2": "The guide has a tool of each kind and a test, each a file that is run.",
    "aomi.guide.3": "The guide has the table of namespaces and a checklist from the name to the test.",
    "aomi.guide.4": "A page maps every part of an Aomi tool to what it is here.",
    "aomi.table.2": "The view names the namespaces and tools of the last opened, namespaces or tools_changed.",
    "aomi.table.3": "The view lists what the model has not consumed, in order of completion, as Ok or Err.",
    "aomi.table.4": "Sessions are found by owner and by last use through an index.",
}

STORE: dict[str, str] = {
    "store.4": "Readers see committed events once each, without gaps, across processes and reconnects.",
    "store.8": "session_tool_state is a view that plain SQL reads.",
}

ENGINE: dict[str, str] = {}

CHAPTERS: dict[str, dict[str, str]] = {"contract": CONTRACT, "aomi": SESSIONS, "store": STORE, "engine": ENGINE}

DONE: dict[str, str] = {id: words for chapter in CHAPTERS.values() for id, words in chapter.items()}


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as the one that would fail without these requirements; ids are literal strings."""
    return pytest.mark.requirement(*ids)


class Entry(NamedTuple):
    """One requirement as the specification lists it."""

    id: str
    level: str  # core or full


def read_spec(folder: Path = SHARED / "spec") -> list[Entry]:
    """Read the ids of every chapter, in order; an empty list says that the specification is absent."""
    pattern = re.compile(r"\*\*([a-z][\w-]*(?:\.[\w-]+)+)\*\* \[(core|full)\]")
    return [Entry(*found) for path in sorted(folder.glob("*.md")) for found in pattern.findall(path.read_text("utf-8"))]


def table(entries: Iterable[Entry]) -> list[str]:
    """Count done and open requirements, one line for each first word of the ids."""
    counts = Counter((entry.id.partition(".")[0], entry.level, entry.id in DONE) for entry in entries)
    lines = [f"{'chapter':<12}{'done':>6}{'core open':>11}{'full open':>11}"]
    for name in dict.fromkeys(key[0] for key in counts):
        done = counts[name, "core", True] + counts[name, "full", True]
        lines.append(f"{name:<12}{done:>6}{counts[name, 'core', False]:>11}{counts[name, 'full', False]:>11}")
    return lines


def still_open(entries: Iterable[Entry], name: str) -> list[str]:
    """List the open ids under one chapter or section."""
    return [f"{id} [{level}]" for id, level in entries if f"{id}.".startswith(f"{name}.") and id not in DONE]


def main(names: list[str]) -> None:
    """Print the table, or the open ids under the given names."""
    entries = read_spec()
    if not entries:
        print(f"The specification is absent; {len(DONE)} requirements are listed as done.")
        return
    lines = [line for name in names for line in still_open(entries, name)] if names else table(entries)
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
