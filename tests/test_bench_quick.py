"""`make bench-quick` tells what got worse, and not what only turned out otherwise."""

import pytest

pytest.importorskip("bench.quick", reason="there are no benchmarks here, or their extra is not installed")

from bench.quick import Row, compare, section

COST, PART = "a call, times the limit", "calls: share"


@pytest.mark.parametrize(
    ("name", "before", "now", "worse"),
    [
        (COST, [10.0, 10.2, 10.4], [12.0, 12.4, 12.6], True),
        (COST, [10.0, 10.2, 10.4], [10.1, 12.4, 12.6], False),  # one turn was as fast as ever
        (COST, [10.0, 10.2, 10.4], [10.6, 10.8, 10.9], False),
        (COST, [10.0, 10.2, 10.4], [7.0, 7.1, 7.2], False),
        (PART, [0.50, 0.52, 0.53], [0.40, 0.41, 0.42], True),
        (PART, [0.50, 0.52, 0.53], [0.40, 0.41, 0.53], False),
        (PART, [0.50, 0.52, 0.53], [0.70, 0.71, 0.72], False),
    ],
)
def test_a_row_is_worse_where_all_its_turns_are(name: str, before: list[float], now: list[float], worse: bool) -> None:
    assert Row(name, before, now).is_worse is worse


def test_a_row_without_a_baseline_is_shown_and_not_judged() -> None:
    now = {COST: [1.0], PART: [0.5]}
    rows = compare({PART: [0.5]}, now)
    assert [row.name for row in rows] == [PART]
    assert [cells[1] for cells in section(rows, now).cells] == ["-", "0.5"]
