"""The pages about definition files say what the code says, and what they show can be typed and happens."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from tests import ready
from tests.docs.test_reference import rows
from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib.definitions import argument_checks, executable_code
from toolcrib.definitions.definition import TYPES, Status
from toolcrib.definitions.reader import read
from toolcrib.definitions.runners import http, local
from toolcrib.sandbox import FaultCode

GUIDE = (ROOT / "docs/howto/describe-tools-in-yaml.md").read_text("utf-8")
REFERENCE = (ROOT / "docs/reference/definitions.md").read_text("utf-8")
CONSOLE = re.compile(r"<!-- runs -->\n```console\n(.*?)```", re.DOTALL)
EXCERPT = re.compile(r"<!-- from (\S+) -->\n```yaml\n(.*?)```", re.DOTALL)
CODES = re.compile(r'"([A-Z]+(?:_[A-Z]+)+)"')
SAID_OF_EXAMPLES = {"VALIDATION_ERROR", "FORMAT_ERROR"}


def sources() -> str:
    package = ROOT / "src/toolcrib"
    return "\n".join(path.read_text("utf-8") for path in [*(package / "definitions").glob("*.py"), package / "yaml.py"])


def test_every_problem_has_a_row_and_every_row_is_a_problem() -> None:
    assert rows("definitions", "Lint").keys() >= set(CODES.findall(sources())) - SAID_OF_EXAMPLES
    assert [code for code in rows("definitions", "Lint") if code.isupper() and code not in sources()] == []


def test_every_check_and_format_has_a_row() -> None:
    table = rows("definitions", "Validators")
    named = {name.partition(":")[0] for name in table if ":" in name}
    assert named == set(executable_code.CHECKS)
    said = next(cells for name, cells in table.items() if name.startswith("format:"))
    assert set(re.findall(r"`([^`]+)`", said[1])) == set(argument_checks._FORMATS)


def test_every_status_fault_and_type_is_told() -> None:
    assert rows("definitions", "Status").keys() == set(get_args(Status))
    assert rows("definitions", "Functions").keys() >= set(get_args(FaultCode))
    for name in (*TYPES, *executable_code.LANGUAGES, *http.AUTHS, *local.RUNTIMES):
        assert f"`{name}`" in REFERENCE


def test_what_the_guide_shows_of_a_file_stands_in_it() -> None:
    found = EXCERPT.findall(GUIDE)
    assert found
    for name, text in found:
        assert text.strip("\n") in (ROOT / name).read_text("utf-8"), name


def test_the_service_that_the_guide_makes_up_has_nothing_wrong_with_it() -> None:
    made_up = next(block for block in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL) if "http_specific" in block)
    head = "tool:\n  id: shop\n  type: http\n  name: Shop\n  description: A shop\n  version: 1.0.0\n"
    found = read(head + made_up)
    assert found.problems == ()
    assert [command.name for command in found.commands] == ["get_order", "refund"]


def typed(line: str, folder: Path) -> str:
    """What a command prints, on both streams; places of this machine are left out."""
    env = {**os.environ, "HOME": str(folder / "home"), "NO_COLOR": "1", "COLUMNS": "200"}
    env.pop("XDG_CONFIG_HOME", None)
    with ready.Program(["-m", *shlex.split(line)], cwd=folder, env=env, stderr=subprocess.STDOUT) as program:
        printed, _ = program.communicate(60)
    return printed.replace(f"{folder}/", "")


@requirement("yaml.ship.1")
@pytest.mark.process
def test_the_guide_can_be_followed_by_typing(tmp_path: Path) -> None:
    told = [part for block in CONSOLE.findall(GUIDE) for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(told) >= 8
    for part in told:
        line, _, expected = part.partition("\n")
        printed = [one.rstrip() for one in typed(line, tmp_path).rstrip().splitlines()]
        assert printed == expected.rstrip().splitlines(), line


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src/toolcrib/definitions/shipped").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_guide_names_every_file_that_comes_along(path: Path) -> None:
    assert f"| `{path.name}` |" in GUIDE
