"""The score: what the page shows of each suite, and how suites count, without files of a registry."""

import re
from collections import Counter
from pathlib import Path

import pytest

from bench.frameworks import FRAMEWORKS
from bench.score import agentdojo, bfcl_replay, fuzz, openapi, owasp, probes
from bench.score.__main__ import PAGE, SUITES
from bench.score.bfcl import _call, _parser, _plain
from bench.score.json_schema import _verdict
from bench.score.page import Part, parts, text_of
from bench.score.suite import Score
from tests.requirements import requirement
from tests.shared import nonempty


@requirement("adoption.score.1")
def test_the_page_has_every_suite_with_its_day() -> None:
    written = parts(PAGE.read_text("utf-8"))
    assert list(written) == list(SUITES)
    for name, text in nonempty(written.items()):
        assert re.search(rf'^Toolcrib \S+, 20\d\d-\d\d-\d\d, .*--write-docs {name}"`\.$', text, re.MULTILINE)


@requirement("adoption.score.1")
def test_failures_are_shown_with_the_count() -> None:
    score = Score("A suite", (("right", "1 of 2", "2 of 2"),), ("the second: a\nb",), "", ("Toolcrib", "peer 1.0"))
    text = Part("suite", score, "today").markdown()
    assert "| counted | Toolcrib | peer 1.0 |\n|---|---:|---:|\n| right | 1 of 2 | 2 of 2 |" in text
    assert "- the second: a b" in text


@requirement("adoption.score.1")
def test_a_suite_that_did_not_run_keeps_its_part_and_its_day() -> None:
    first, second = (Part(name, Score(name, (("n", "1"),)), f"day of {name}").markdown() for name in ("one", "two"))
    kept = parts(text_of([first, second])) | {"two": Part("two", Score("two", (("n", "2"),)), "today").markdown()}
    assert kept["one"] == first
    assert "day of two" not in text_of(list(kept.values()))


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
    schema = _plain({"type": "dict", "properties": {"base": {"type": "float"}}, "required": ["base"]})
    counts: Counter[str] = Counter()
    failed: list[str] = []
    _call(_parser(schema), schema, {"base": 2.5}, "here", counts, failed)
    _call(_parser(schema), schema, {"base": []}, "there", counts, failed)
    assert counts == {"calls": 2, "unchanged": 1, "missing": 1, "missing tried": 1, "type": 1, "type tried": 1}
    assert [one[:5] for one in failed] == ["there"]


class Counting:
    """A back end that adds up."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int, times: int = 1) -> dict[str, int]:
        self.total += number * times
        return {"total": self.total}


@requirement("adoption.score.1")
@pytest.mark.parametrize(("default", "problem"), [(1, None), (2, "add(3): {'total': 10}, not {'total': 7}")])
async def test_a_task_is_replayed_on_both_sides_and_compared(default: int, problem: str | None) -> None:
    properties = {"number": {"type": "integer"}, "times": {"type": "integer", "default": default}}
    functions = [{"name": "add", "description": "Add.", "parameters": {"type": "dict", "properties": properties}}]
    sides = [{"Counting": Counting()} for _ in range(2)]
    counts: Counter[str] = Counter()
    calls = ["add(number=2, times=2)", "add(3)"]
    assert await bfcl_replay._compare(calls, sides, functions, _plain, counts) == problem
    assert counts == {"calls": 2, "alike": 2 - (problem is not None)}


@requirement("adoption.score.1")
def test_peers_stand_beside_with_what_they_could_not_read() -> None:
    read = {"document": "a.json", "tools": 3, "seconds": 1.0}
    refused = {"document": "b.json", "problem": "ValueError: no", "seconds": 0.5}
    score = openapi.score({"Toolcrib": [read, {**read, "tools": 0}], "peer 1": [read, refused]}, 2)
    assert score.columns == ("Toolcrib", "peer 1")
    assert [row[1:] for row in score.rows] == [("2", "1"), ("1", "1"), ("3", "3"), ("2", "2")]
    assert score.failures == ("peer 1: b: ValueError: no",)


@requirement("adoption.score.1")
def test_guards_are_counted_over_all_suites() -> None:
    one = {"reached": 1, "pairs": 4, "asked": 2, "acting": 5, "solved": 3, "tasks": 3}
    score = agentdojo.score({"none": {"travel": one, "slack": one}})
    assert [row[1] for row in score.rows] == ["2 of 8", "4 of 10", "6 of 6"]


@requirement("adoption.score.1")
def test_a_probe_that_is_wrong_with_toolcrib_is_a_failure() -> None:
    right, wrong = [(True, "fine")] * 12, [(False, "charged 2 times"), *[(True, "fine")] * 11]
    cells = {one.module: [wrong, right] for one in FRAMEWORKS}
    cells[FRAMEWORKS[0].module][1] = wrong
    score = probes.score(cells)
    assert score.rows[0][1:] == ("11 of 12", "11 of 12", "killed in an effect, resumed")
    assert score.failures == ("LangChain / LangGraph with Toolcrib: killed in an effect, resumed: charged 2 times",)


@requirement("adoption.score.1")
def test_a_report_of_schemathesis_is_read() -> None:
    failure = {"title": "Server error", "count": 2, "operations": ["GET /v1/tools"]}
    report = {"operations": {"tested": 3, "total": 4}, "test_cases": {"generated": 1200, "unique_failures": 2}}
    score = fuzz.score({**report, "failures": [failure], "schemathesis_version": "4"})
    assert [row[1] for row in score.rows] == ["3 of 4", "1,200", "2", "2"]
    assert score.failures == ("Server error: `GET /v1/tools`",)


@requirement("adoption.score.1")
def test_every_line_of_owasp_names_tests_that_are_there() -> None:
    lines = owasp.lines()
    assert len(lines) == 20
    for tests in nonempty(lines.values()):
        for path, name in (test.split("::") for test in nonempty(tests)):
            assert f"def {name}(" in Path(__file__).with_name(path.partition("/")[0]).joinpath(
                path.partition("/")[2]
            ).read_text("utf-8")
