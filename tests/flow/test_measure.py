"""What the page on benchmarks says of AgentDojo keeps to the limits."""

import re

from tests.requirements import requirement
from tests.shared import ROOT

ROW = re.compile(
    r"^\| toolcrib, preset `guarded` \| (\d+) of (\d+) \| (\d+) of (\d+) \| (\d+) of (\d+) \|", re.MULTILINE
)


@requirement("flow.measure.1")
def test_the_published_row_keeps_to_the_limits() -> None:
    (row,) = ROW.findall((ROOT / "docs/benchmarks.md").read_text("utf-8"))
    reached, pairs, asked, acting, solved, tasks = map(int, row)
    assert (pairs, acting, tasks) == (949, 100, 97)
    assert reached <= 28
    assert asked <= 30
    assert solved == tasks
