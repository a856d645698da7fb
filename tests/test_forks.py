"""Tests run in forks: each is told of once, also where the process that ran it died."""

import os
import re
import subprocess
import sys

import pytest

from tests.shared import ROOT

SAMPLE = """
import os, signal, subprocess
from pathlib import Path
import pytest

@pytest.fixture(scope="session")
def place():
    yield 1
    Path(os.environ["HERE"], f"left-{os.getpid()}").touch()

def test_first(place):
    print("in the first")

def test_that_fails(place):
    print("what it printed")
    assert place == 2

def test_that_dies():
    os.kill(os.getpid(), signal.SIGKILL)

def test_that_comes_after(place):
    assert place == 1

def test_that_starts_a_process():
    subprocess.run(["true"])

def test_that_leaves_something_open():
    open(__file__)
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("sample")
    (folder / "test_sample.py").write_text(SAMPLE, "utf-8")
    (folder / "test_other.py").write_text("def test_of_another_file(tmp_path): assert 'fork-' in str(tmp_path)\n")
    words = ["-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    words += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    done = subprocess.run(
        [sys.executable, *words, "--forks", "2", str(folder)],
        cwd=ROOT,
        env={**os.environ, "HERE": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    left = [path.name for path in folder.glob("left-*")]
    return f"{done.stdout}{done.stderr}\nexit {done.returncode}\nleft {len(left)}"


@pytest.mark.process
def test_every_test_is_told_of_once_with_what_it_printed(output: str) -> None:
    assert re.findall(r"FAILED \S*::(\w+)", output)[0] == "test_that_fails", output
    assert "what it printed" in output
    assert "in the first" not in output
    assert "exit 1" in output


@pytest.mark.process
def test_a_process_that_dies_fails_its_test_and_the_rest_of_its_file_runs(output: str) -> None:
    assert re.findall(r"ERROR \S*::(\w+)", output) == ["test_that_dies"], output
    assert "the process that ran this test ended with -9" in output
    assert "3 failed, 3 passed, 1 error" in output


@pytest.mark.process
def test_fixtures_of_the_session_are_ended_in_each_fork_that_used_them(output: str) -> None:
    assert "left 1" in output, output


@pytest.mark.process
def test_a_unit_test_starts_no_process_in_a_fork_either(output: str) -> None:
    assert "mark it with @pytest.mark.process" in output
    assert "ResourceWarning" in output
