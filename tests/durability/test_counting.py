"""How often a body runs, and how often a call may take its process down."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.shared import ROOT


def lives(tmp_path: Path, effect: str, attempts: int) -> tuple[list[int], list[str]]:
    """Starts the process until it says how the call ended: the attempts that its body saw, and what it said."""
    words = [sys.executable, "-m", "tests.durability.killers", f"sqlite:///{tmp_path}/log.db", f"{tmp_path}/runs"]
    said = ""
    for _ in range(attempts + 3):
        life = subprocess.run(
            [*words, effect, str(attempts)], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
        )
        said = life.stdout
        if life.returncode != 3:
            assert life.returncode == 0, life.stderr
            break
    return [int(line) for line in (tmp_path / "runs").read_text().split()], said.split(maxsplit=1)


@requirement("reliability.count.1", "reliability.count.2")
@pytest.mark.parametrize("effect", ["read", "idempotent"])
@pytest.mark.parametrize("attempts", [1, 3, 4])
def test_a_call_that_kills_its_process_is_given_up_after_exactly_so_many_attempts(
    tmp_path: Path, effect: str, attempts: int
) -> None:
    runs, said = lives(tmp_path, effect, attempts)
    assert runs == list(range(1, attempts + 1))
    assert said == ["failed", f"Given up: the process died {attempts} times while it ran\n"]


@requirement("reliability.count.2")
def test_a_call_that_may_happen_once_and_kills_its_process_runs_once(tmp_path: Path) -> None:
    runs, said = lives(tmp_path, "once", 3)
    assert (runs, said[0]) == ([1], "unknown")
