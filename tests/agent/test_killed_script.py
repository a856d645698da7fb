"""A process that is killed while a script of its agent runs or waits: another goes on where it stopped."""

import json
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests import ready

pytestmark = pytest.mark.process

PHASES = [
    *("after started:run_script", "after accepted:look", "before done:look", "after done:look", "before waiting:pay"),
    *("after waiting:pay", "after step:run_script", "after paused:run_script", "after answered:pay"),
    *("before started:pay", "before done:pay", "after done:pay", "before started:run_script:2"),
    *("after started:run_script:2", "after accepted:file", "after done:file", "before done:run_script"),
]
UNSURE = {"pay": ("started:pay", "done:pay"), "file": ("accepted:file", "done:file")}
"""Where the process dies over what may happen only once, the call may end `unknown`, and the script is told so."""


def program(folder: Path, *arguments: str) -> CompletedProcess[str]:
    return ready.run("-m", "tests.agent.killed_script", str(folder), *arguments)


@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_script_goes_on_and_nothing_happens_twice(tmp_path: Path, phase: str) -> None:
    died = program(tmp_path, *phase.split(" ", 1))
    assert died.returncode == -9, died.stdout + died.stderr
    ended = program(tmp_path)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    effects = Counter((tmp_path / "effects").read_text().split())
    assert told["answer"] == "all done"
    result = told["result"]["data"]["result"]
    for name, said in (("pay", "paid"), ("file", "filed")):
        assert effects[name] <= 1
        if not phase.endswith(UNSURE[name]):
            assert effects[name] == 1
            assert result[said] == said
        else:
            assert result[said] == said or result[said].startswith("unknown: ")
    counts = Counter(told["log"])
    calls = {f"done:{name}": times for name, times in (("look", 2), ("pay", 1), ("file", 1), ("run_script", 1))}
    assert {name: counts[name] for name in calls} == calls
    assert told["result"]["data"]["printed"] == "looked 3\n"
    if phase in PHASES[PHASES.index("before waiting:pay") :]:
        assert (effects["look1"], effects["look2"]) == (1, 1)
