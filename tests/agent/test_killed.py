"""A process that is killed, whatever it was doing: another goes on, and nothing happens twice."""

import json
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests import ready
from tests.requirements import requirement

pytestmark = pytest.mark.process

PHASES = [
    *("before run_started:support", "after run_started:support", "before turn_started:support"),
    *("after turn_started:support", "before message:assistant", "after message:assistant"),
    *("after accepted:look", "after done:look", "before waiting:pay", "after waiting:pay", "after run_waiting:"),
    *("after answered:pay", "before started:pay", "before done:pay", "after done:pay", "after run_resumed:"),
    *("before done:transfer_to_agent", "after done:transfer_to_agent", "before handover:support>billing"),
    *("after handover:support>billing", "after turn_started:billing", "after started:call_agent"),
    *("before run_started:clerk", "after run_started:clerk", "after turn_started:clerk", "after accepted:file"),
    *("before done:file", "after done:file", "before done:call_agent", "after done:call_agent"),
    *("before run_finished:answered", "after run_finished:answered"),
]
UNSURE = ("started:pay", "done:pay", "accepted:file", "done:file")
"""Where the process dies over what may happen only once, the call may end `unknown`."""


def program(folder: Path, *arguments: str) -> CompletedProcess[str]:
    return ready.run("-m", "tests.agent.killed", str(folder), *arguments)


@requirement("agents.run.6", "agents.transfer.3", "agents.events.1", "agents.call.6")
@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_run_is_continued_and_nothing_happens_twice(tmp_path: Path, phase: str) -> None:
    died = program(tmp_path, *phase.split(" ", 1))
    assert died.returncode == -9, died.stdout + died.stderr
    ended = program(tmp_path)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    counts = Counter(told["log"])
    effects = Counter((tmp_path / "effects").read_text().split() if (tmp_path / "effects").exists() else ())
    assert (told["reason"], told["answer"]) == ("answered", "all done")
    assert {effect for effect, times in effects.items() if times > 1} == set()
    if not phase.endswith(UNSURE):
        assert effects == {"pay": 1, "file": 1}
    once = ("handover:support>billing", "run_started:support", "run_started:clerk", "message:user", "done:pay")
    wanted = {"run_finished:answered": 2, "message:user": 2, "done:look": 1, "done:file": 1, "done:call_agent": 1}
    assert {name: counts[name] for name in {*once, *wanted}} == {**dict.fromkeys(once, 1), **wanted}
