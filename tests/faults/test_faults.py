"""A few faults in each set-up: `make faults` is the long run."""

from pathlib import Path

import pytest

from tests.faults.__main__ import Plan, problems, run, table
from tests.requirements import requirement
from tests.services import NO_PIDFD

FAULTS = 6
SHORT: dict[str, tuple[str, ...]] = {"sqlite": (), "sqlite-two": (), "postgres": (), "cluster": ()}
"""The set-ups of the short run, each with what it leaves out."""


@NO_PIDFD
@requirement("reliability.proof.1")
@pytest.mark.parametrize("name", SHORT)
def test_faults_lose_nothing_double_nothing_and_leave_nothing_stuck(name: str, open_folder: Path) -> None:
    plan = Plan(seed=1, seconds=0, rounds=(0,), faults=FAULTS, without=SHORT[name])
    reports = run(plan, [name], open_folder, lambda _: None)
    print("\n".join([*table(reports), *problems(reports)]))
    (report,) = reports
    assert report.violations == []
    assert report.faults.total() > FAULTS / 2
    assert report.counts["ended ok"] > 0
