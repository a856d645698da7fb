"""What the page on benchmarks says of AgentDojo keeps to the limits."""

import re

import pytest

from bench.origins import full_index
from tests.requirements import requirement
from tests.shared import ROOT

BLOCK = re.compile(r"<!-- from docs_src/howto/injection/stopped.py -->\n```python\n(.*?)```", re.DOTALL)
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


@requirement("flow.measure.2")
def test_the_page_shows_an_injection_that_is_stopped_in_ten_lines() -> None:
    first, *_ = BLOCK.findall((ROOT / "docs/howto/prompt-injection.md").read_text("utf-8"))
    body = first.partition("async def main()")[2].partition("\n\n\n")[0]
    assert 0 < len(body.splitlines()) <= 10
    assert "print(question.prompt" in body


@requirement("flow.measure.3")
def test_an_index_that_is_full_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_PASSAGES", "MOST_FIELDS", "MOST_WORDS"):
        monkeypatch.setattr(f"toolcrib.origins.index.{name}", 100)
    monkeypatch.setattr("toolcrib.origins.index.MOST_PENDING", 0)
    index = full_index(words=10)
    for number in range(1000):
        index.add_result(f"c{number}", "mail.search", [], {f"name{number}": f"text {number}"}, trusted=False)
    assert not index.complete
    assert max(len(index._passages), len(index._fields), index._sightings) <= 100
    assert len(index._words) <= 150
