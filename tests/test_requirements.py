"""The manifest of requirements and the marks on tests say the same.

The marks are read from the source, not from the collected items, so that the answer does not change with `-k` or `-n`.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

from tests.requirements import CHAPTERS, DONE, read_spec
from tests.shared import ROOT


def calls_requirement(node: ast.AST) -> TypeGuard[ast.Call]:
    """Tell whether this is `requirement(...)`, by that name or as `pytest.mark.requirement(...)`."""
    if not isinstance(node, ast.Call):
        return False
    return (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) == "requirement"


def marks_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (id, place) for each id that a test file names; what is no literal string yields its source instead."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if calls_requirement(node):
            for argument in node.args:
                id = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
                yield str(id), f"{path.relative_to(ROOT)}:{node.lineno}"


def marks_on_no_test(path: Path) -> Iterator[str]:
    """Yield the functions and classes that carry a mark though pytest never runs them."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            marked = any(calls_requirement(decorator) for decorator in node.decorator_list)
            if marked and not node.name.startswith(("test_", "Test")):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def all_test_files() -> list[Path]:
    return sorted((ROOT / "tests").rglob("test_*.py"))


@cache
def all_marks() -> dict[str, str]:
    return {id: place for path in all_test_files() for id, place in marks_in(path)}


def test_every_listed_requirement_has_a_test() -> None:
    assert sorted(DONE.keys() - all_marks().keys()) == []


def test_every_mark_names_a_listed_requirement() -> None:
    assert {id: place for id, place in all_marks().items() if id not in DONE} == {}


def test_marks_stand_on_tests_that_are_collected() -> None:
    assert [place for path in all_test_files() for place in marks_on_no_test(path)] == []


def test_every_requirement_stands_in_its_chapter_with_a_statement() -> None:
    misplaced = [id for name, chapter in CHAPTERS.items() for id in chapter if not id.startswith(f"{name}.")]
    assert misplaced == []
    assert [id for id, words in DONE.items() if not words.strip() or "\n" in words] == []


def test_every_listed_requirement_exists_in_the_specification() -> None:
    known = {entry.id for entry in read_spec()}
    assert sorted(DONE.keys() - known) == []
