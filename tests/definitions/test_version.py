from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.shared import recorded
from toolcrib.definitions.version import detect


@requirement("yaml.version.1")
def test_detection_matches_the_recorded_cases() -> None:
    cases = recorded("cases/own-detection.jsonl")
    assert [(case["about"], detect(case["definition"]).version) for case in cases] == [
        (case["about"], case["expect"]["version"]) for case in cases
    ]


@requirement("yaml.version.2")
@pytest.mark.parametrize(("said", "version"), [(1, 1), (1.0, 1), ("1", 1), ("1.0", 1), (2, 2), (2.0, 2), ("2.0", 2)])
def test_a_legal_version_wins_over_what_is_used(said: Any, version: int) -> None:
    assert detect({"tool": {"schema_version": said, "anti_patterns": []}}) == (version, "explicit")


@requirement("yaml.version.2")
@pytest.mark.parametrize("said", [3, "3", "two", True, 1.5, [2], {"is": 2}, " 2.0", None, 0, ""])
def test_beside_an_illegal_or_absent_version_features_decide(said: Any) -> None:
    assert detect({"tool": {"schema_version": said, "api_complexity": {}}}) == (2, "features")
    assert detect({"tool": {"schema_version": said}}) == (1, "default")


@requirement("yaml.version.3")
@pytest.mark.parametrize("block", ["executable_knowledge", "api_complexity", "anti_patterns"])
def test_an_empty_block_counts_and_nothing_does_not(block: str) -> None:
    there: list[Any] = [{}, [], "x", 1, True]
    absent: list[Any] = [None, False, 0, 0.0, ""]
    assert [detect({block: value}).version for value in (*there, *absent)] == [2] * 5 + [1] * 5


@requirement("yaml.version.3")
def test_a_text_scenario_counts_in_any_nesting() -> None:
    assert detect({"examples": {"group": {"c": [[{"scenario": "edge"}]]}}}) == (2, "features")
    assert detect({"examples": {"c": [{"scenario": 1}, "scenario"]}}) == (1, "default")


@requirement("yaml.version.1")
def test_a_value_that_holds_itself_is_answered() -> None:
    ring: list[Any] = []
    ring.append({"c": ring})
    assert detect({"examples": ring}).version == 1


@requirement("yaml.version.1")
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["tool", "examples", "scenario", "schema_version", "anti_patterns"]), inner
            )
        ),
    )
)
def test_any_value_gets_an_answer(value: Any) -> None:
    assert detect(value).version in (1, 2)
