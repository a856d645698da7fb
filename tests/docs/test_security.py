"""The page on security: its table of attacks is counted, and every test that it names is there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.attack_classes import CLASSES, table
from tests.requirements import requirement
from tests.shared import ROOT, require_recordings

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
NAMED = re.compile(r"`((?:[\w/]+/)?test_\w+\.py)::(test_\w+)`")
LISTS = {"MCP": 10, "ASI": 10}


def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@requirement("security.shown.1")
def test_every_named_test_is_there() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) >= 20
    assert [(file, name) for file, name in named if name not in functions(file)] == []


@requirement("security.shown.1")
def test_every_line_of_the_lists_names_a_test_or_says_that_it_is_not_covered() -> None:
    for letters, count in LISTS.items():
        rows = [line for line in PAGE.splitlines() if re.match(rf"\| {letters}\d\d ", line)]
        assert len(rows) == count, letters
        assert [row for row in rows if not NAMED.search(row) and "not covered" not in row] == []


@pytest.mark.process
@requirement("security.shown.1")
def test_the_table_of_attacks_claims_no_more_than_there_is_and_not_much_less() -> None:
    require_recordings()  # many cases of the sandbox are among them
    there, told = (dict(map(_row, lines)) for lines in (table()[2:], PAGE.splitlines()))
    assert set(CLASSES) == set(there) <= set(told)
    assert {name: (told[name], count) for name, count in there.items() if not 0.8 * count <= told[name] <= count} == {}


def _row(line: str) -> tuple[str, int]:
    """The class and the number in a line of the table; other lines have none."""
    found = re.match(r"\| ([^|]+) \| (\d+) \| `", line)
    return ("", 0) if found is None else (found[1], int(found[2]))
