"""The same call again and again: hinted, then refused, and only within one run."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared import case_data
from toolcrib._session.repeated_calls import WINDOW, RunHistory, digest, hint, signature
from toolcrib.store.codec import encode


def after(*outcomes: str, call: str = "get") -> RunHistory:
    """A run of one call with these outcomes; one that begins with `!` is a failure."""
    run = RunHistory()
    for outcome in outcomes:
        run = run.note(call, outcome, outcome.startswith("!"))
    return run


def actions(calls: list[dict[str, Any]]) -> list[str]:
    run = RunHistory()
    said: list[str] = []
    for call in calls:
        if "tool" not in call:
            run = RunHistory()
            continue
        same = signature(call["tool"], encode(call["args"]))
        said.append(run.action(same, call["outcome"]))
        failed = call["outcome"].startswith("fail")
        run = run.note_refused(same) if said[-1] == "refuse" else run.note(same, call["outcome"], failed)
    return said


def test_every_run_of_the_shared_data_goes_as_it_says() -> None:
    for case in case_data("policy/loops.json"):
        assert actions(case["calls"]) == [call["action"] for call in case["calls"] if "tool" in call], case["note"]


def test_the_fifth_call_with_the_same_result_is_refused() -> None:
    assert after("a", "a", "a").repeats("get") == 0
    assert after("a", "a", "a", "a").repeats("get") == 4


def test_only_outcomes_like_the_latest_count() -> None:
    assert after("a", "a", "a", "a", "b").repeats("get") == 0
    assert after("a", "a", "b", "a", "a").repeats("get") == 4


def test_the_fourth_call_after_three_failures_of_any_kind_is_refused() -> None:
    assert after("!x", "!y").repeats("get") == 0
    assert after("!x", "!y", "!z").repeats("get") == 3
    assert after("!x", "!y", "ok", "!z").repeats("get") == 0


def test_refused_calls_count_so_that_insisting_does_not_help() -> None:
    run = after("!x", "!y", "!z")
    for _ in range(WINDOW * 2):
        assert run.repeats("get")
        run = run.note_refused("get")


def test_what_lies_twenty_calls_back_is_forgotten() -> None:
    run = after("a", "a", "a", "a")
    for number in range(WINDOW - 1):
        run = run.note(f"other {number}", "x", False)
    assert run.repeats("get", 2)  # one of the four is still seen
    assert not run.note("another", "x", False).repeats("get", 2)


def test_the_signature_is_the_tool_and_its_canonical_arguments() -> None:
    assert signature("a.get", b'{"x": 1, "y": [2]}') == signature("a.get", b'{"y": [2], "x": 1}')
    assert signature("a.get", b'{"x": 1}') != signature("b.get", b'{"x": 1}')
    assert signature("a.get", b'{"x": 1}') != signature("a.get", b'{"x": "1"}')
    assert len(digest(encode({"x": "y" * 100_000}))) == 32


def test_from_the_third_equal_outcome_on_the_result_carries_a_hint() -> None:
    run = after("a", "a")
    assert hint(after("a").equal("get", "a")) is None
    assert hint(run.equal("get", "a")) == "This call has given the same result 3 times"
    assert hint(run.equal("get", "b")) is None


def test_a_refusal_is_a_verdict_of_a_limit_that_says_how_often() -> None:
    verdict = after("a", "a", "a", "a").verdict("lookup", "get")
    assert verdict is not None
    assert (verdict.effect, verdict.by) == ("deny", "limit")
    assert verdict.message == "Loop: 'lookup' was called 4 times with the same arguments and the same result"
    assert after("a").verdict("lookup", "get") is None


def test_polling_with_changing_results_is_no_loop() -> None:
    run = RunHistory()
    for number in range(100):
        assert run.action("poll", f"{number}%") == "run"
        run = run.note("poll", f"{number}%", False)


@pytest.mark.parametrize(("repeat", "allowed"), [(1, 1), (2, 1), (3, 2), (8, 7)])
def test_the_limit_of_a_tool_replaces_the_five(repeat: int, allowed: int) -> None:
    assert not after(*["a"] * (allowed - 1)).repeats("get", repeat)
    assert after(*["a"] * allowed).repeats("get", repeat)


def test_no_limit_switches_it_off() -> None:
    assert after(*["!a"] * 20).action("get", "!a", None) == "run"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "!z"])), max_size=60))
def test_a_call_that_never_came_before_always_runs(calls: list[tuple[str, str]]) -> None:
    run = RunHistory()
    for call, outcome in calls:
        run = run.note(call, outcome, outcome.startswith("!"))
    assert run.action("new", "x") == "run"
    assert len(run.past) <= WINDOW
