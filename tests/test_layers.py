"""Imports for types keep to the layers too, but for some of the core. The list only gets shorter."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import toolcrib
from tests.shared import nonempty

SOURCE = Path(toolcrib.__file__).parent
PROJECT = Path(__file__).parent.parent / "pyproject.toml"

ABOVE = {
    "context": {"agent", "session"},
    "session": {"crib"},
}
"""Layers that still name types of layers above them."""

MOST = 3
"""How many imports for types go upwards. The goal is none."""


def ranks() -> dict[str, int]:
    """Where each part of the package stands, the highest first."""
    contracts = tomllib.loads(PROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["id"] == "layers")
    return {name.strip(" ()"): rank for rank, line in enumerate(layers) for name in line.split("|")}


def for_types(path: Path) -> Iterator[str]:
    """The parts of the package that a module imports for types alone."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for inner in ast.walk(node):
                if isinstance(inner, ast.ImportFrom) and (inner.module or "").startswith("toolcrib."):
                    yield str(inner.module).split(".")[1]


def upwards() -> list[tuple[str, str]]:
    """The imports for types of what does not stand below: from which part to which."""
    rank = ranks()
    found = []
    for path in nonempty(sorted(SOURCE.rglob("*.py"))):
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        found += [(part, other) for other in for_types(path) if other != part and rank[other] <= rank.get(part, -1)]
    return found


def test_imports_for_types_keep_to_the_layers() -> None:
    assert [(part, other) for part, other in upwards() if other not in ABOVE.get(part, ())] == []


def test_no_more_types_are_imported_from_layers_above() -> None:
    assert len(upwards()) <= MOST
