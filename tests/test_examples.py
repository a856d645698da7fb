"""The projects of `examples/`: each is complete, and prints what its README shows."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests import ready
from tests.requirements import requirement
from tests.shared import ROOT

FOLDERS = sorted(path.parent for path in (ROOT / "examples").glob("*/main.py"))
NO_SERVER = 3
"""The exit code of an example whose servers are not installed here."""


@requirement("adoption.examples.1")
def test_every_example_is_listed() -> None:
    listed = re.findall(r"^\| \[([\w-]+)\]", (ROOT / "examples/README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == [folder.name for folder in FOLDERS]
    assert len(listed) == 8


@requirement("adoption.examples.1")
@pytest.mark.process
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_example_prints_what_its_readme_shows(folder: Path, tmp_path: Path) -> None:
    if folder.name == "fastapi-app":
        pytest.importorskip("fastapi", reason="the extra toolcrib[test] is not installed")
    place = shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    env = {name: value for name, value in os.environ.items() if name not in ("TOOLCRIB_STORE", "TOOLCRIB_ENGINE")}
    env |= {"PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "TOOLCRIB_TRUST": "1"}
    done = ready.run("main.py", folder=place, env=env)
    if done.returncode == NO_SERVER:
        pytest.skip(done.stderr)
    [shown] = re.findall(r"^```text\n(.*?)^```$", (folder / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr
