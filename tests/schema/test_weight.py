"""What loading the package costs."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

HEAVY = {"jsonschema_rs", "docstring_parser"}


ALONE = """
import importlib.util, sys, types
package = types.ModuleType("toolcrib")  # without what the package itself imports
package.__path__ = importlib.util.find_spec("toolcrib").submodule_search_locations
sys.modules["toolcrib"] = package
"""


def loaded_by(program: str) -> set[str]:
    command = [sys.executable, "-c", f"{ALONE}{program}; print(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_the_package_loads_none_of_the_heavy_libraries() -> None:
    assert not {*HEAVY, "pydantic"} & loaded_by("import toolcrib.schema")


def test_a_function_with_a_plain_docstring_needs_only_pydantic() -> None:
    program = "from toolcrib.schema import function_parser; function_parser(lambda: 1, context_type=type)"
    assert not HEAVY & loaded_by(program)
