"""The score: suites that need no file of a registry, and what the page shows of each."""

import re

import pytest

from bench.score import published
from bench.score.__main__ import PAGE, SUITES, markdown
from bench.score.bfcl import _call, _parser, _plain
from bench.score.json_schema import _verdict
from bench.score.suite import Score
from tests.requirements import requirement


@requirement("adoption.score.1")
def test_the_page_has_every_suite() -> None:
    headings = re.findall(r"^## (.+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(headings) == len(SUITES)
    assert "could not run here" not in PAGE.read_text("utf-8")


@requirement("adoption.score.1")
def test_failures_are_shown_with_the_count() -> None:
    text = markdown(Score("A suite", (("right", "1 of 2"),), ("the second: a\nb",)))
    assert "| right | 1 of 2 |" in text
    assert "- the second: a b" in text


@requirement("adoption.score.1")
def test_the_rows_of_other_pages_are_found() -> None:
    assert len(published.agentdojo().rows) == 3
    assert published.owasp().rows[0][1] == "20 of 20"


@requirement("adoption.score.1")
@pytest.mark.parametrize(
    ("schema", "value", "verdict"),
    [
        ({"type": "integer"}, 5, "accepted"),
        ({"type": "integer"}, "5", "mended"),
        ({"type": "integer"}, "five", "refused"),
        ({"$ref": "https://host.invalid/other"}, 5, "no tool"),
    ],
)
def test_a_verdict_is_what_a_tool_makes_of_the_value(schema: object, value: object, verdict: str) -> None:
    assert _verdict(schema, value) == verdict


@requirement("adoption.score.1")
def test_a_right_call_counts_and_broken_ones_are_made_of_it() -> None:
    from collections import Counter

    schema = _plain({"type": "dict", "properties": {"base": {"type": "float"}}, "required": ["base"]})
    counts: Counter[str] = Counter()
    failed: list[str] = []
    _call(_parser(schema), schema, {"base": 2.5}, "here", counts, failed)
    _call(_parser(schema), schema, {"base": []}, "there", counts, failed)
    assert counts == {"calls": 2, "unchanged": 1, "missing": 1, "missing tried": 1, "type": 1, "type tried": 1}
    assert [one[:5] for one in failed] == ["there"]
