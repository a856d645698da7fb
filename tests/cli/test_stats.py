"""`toolcrib stats`."""

import pytest

from tests.cli.project import Project
from tests.requirements import requirement
from toolcrib.cli.stats import sparkline


@requirement("console.overview.2")
def test_numbers_of_the_last_day_are_a_table(project: Project) -> None:
    for order in ("1", "2"):
        project.run("call", "find", "-a", f"order={order}")
    lines = project.run("stats").out.splitlines()
    assert lines[0].startswith("Last day: 2 calls, 0 failed, 95 of 100 within ")
    assert lines[1].split()[:5] == ["Tool", "Calls", "Failed", "Why", "p50"]
    assert lines[2].split()[:3] == ["shop.find", "2", "0"]


@requirement("console.overview.2")
def test_numbers_come_as_data_by_what_is_wanted(project: Project) -> None:
    project.run("call", "find", "-a", "order=1")
    project.wait_for_refund()
    counted = project.run("stats", "hour", "--by", "code", "--json").json
    assert [(one["name"], one["calls"]) for one in counted["groups"]] == [("succeeded", 1)]
    assert (counted["step_s"], len(counted["points"]), counted["now"]["waiting"]) == (60, 60, 1)
    assert project.run("stats", "--tool", "shop.other", "--json").json["total"]["calls"] == 0


def test_a_store_without_calls_says_what_to_do(project: Project) -> None:
    project.wait_for_refund()
    assert "Nothing ended in the last week. `toolcrib call TOOL` makes a call." in project.run("stats", "week").err


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([0, 0], "  "), ([0, 1, 2, 8], " ▁▂█"), ([1] * 48, "█" * 24), ([1, 0, 0, 0] * 6, "█   " * 6)],
)
def test_a_sparkline_shows_the_most_as_a_whole_bar(values: list[int], line: str) -> None:
    assert sparkline(values) == line
