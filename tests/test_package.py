"""The names that the package offers, which are loaded when they are first used."""

import ast
import importlib

import pytest

import toolcrib
import toolcrib.tool
from tests.requirements import requirement
from tests.shared import ROOT


@requirement("project.look.2")
def test_every_name_comes_from_where_type_checkers_are_told() -> None:
    tree = ast.parse((ROOT / "src/toolcrib/__init__.py").read_text("utf-8"))
    [checked] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    told = {alias.name: str(node.module) for node in imports for alias in node.names}
    assert sorted(told) == sorted(toolcrib.__all__)
    modules = {name: importlib.import_module(module) for name, module in told.items()}
    assert [name for name, module in modules.items() if getattr(toolcrib, name) is not getattr(module, name)] == []


def test_the_decorator_is_not_hidden_by_the_module_of_its_name() -> None:
    from toolcrib import tool
    from toolcrib.sources import functions

    assert tool is functions.tool is toolcrib.tool


def test_a_name_that_the_package_does_not_have_is_told() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        _ = toolcrib.nope  # type: ignore[attr-defined]  # that is the point
    assert {*toolcrib.__all__} <= {*dir(toolcrib)}
