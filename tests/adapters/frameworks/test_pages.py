"""The programs of the pages about the framework of this environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.frameworks.conftest import PACKAGES, is_missing
from tests.requirements import requirement

FOLDER = Path(__file__).parents[3] / "docs_src/frameworks"
PROGRAMS = [path for path in sorted(FOLDER.glob("*.py")) if not is_missing(PACKAGES[path.stem.partition("_")[2]])]
pytestmark = pytest.mark.process


@requirement("adapters.pages.1")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_of_the_pages_runs(program: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_there_are_programs_of_this_framework() -> None:
    assert PROGRAMS
