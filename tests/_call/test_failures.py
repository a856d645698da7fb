"""How failures are worded: codes of the tool's own, hints, and what may be tried again."""

from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib import Tool
from toolcrib._call.failures import IN_DOUBT, failure_of, masked, unavailable
from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.types import RETRYABLE, AntiPattern, Effect, Failure, Knowledge


def made(effect: Effect = "once", knowledge: Knowledge | None = None) -> Tool:
    """A tool of an effect, and what is known of it."""
    known = knowledge or Knowledge()
    return Tool(name="pay", namespace="shop", description="Pay.", effect=effect, knowledge=known)


@pytest.mark.parametrize(
    ("code", "message", "reason", "said"),
    [
        ("sold_out", "None left", None, ("failed", "None left", "sold_out")),
        ("sold_out", "", None, ("failed", "sold_out", "sold_out")),
        ("sold_out", "None left", "stock", ("failed", "None left", "stock")),
        ("failed", "None left", None, ("failed", "None left", None)),
        ("denied", "", "stock", ("denied", "", "stock")),
    ],
)
def test_a_code_that_is_the_tools_own_is_a_reason(code: str, message: str, reason: str | None, said: Any) -> None:
    failure = failure_of(None, code, message, reason=reason)
    assert (failure.code, failure.message, failure.reason) == said


def advise(code: str, message: str, metadata: Mapping[str, Any]) -> str | None:
    """Advise on one code alone."""
    return f"{message} {metadata['n']}" if code == "failed" else None


@pytest.mark.parametrize(
    ("code", "message", "given", "hint"),
    [
        ("failed", "No MONEY left", None, "Earn some"),
        ("failed", "No MONEY left", "Ask", "Ask"),
        ("failed", "Broken", None, "Broken 7"),
        ("denied", "Broken", None, None),
        ("denied", "no money", None, "Earn some"),
    ],
)
def test_the_hint_is_the_one_that_was_given_or_that_of_a_usual_mistake_or_what_its_tool_advises(
    code: str, message: str, given: str | None, hint: str | None
) -> None:
    tool = made(knowledge=Knowledge(anti_patterns=(AntiPattern("Money", "Earn some"),), hint=advise))
    assert failure_of(tool, code, message, hint=given, metadata={"n": 7}).hint == hint
    assert failure_of(None, code, message, hint=given).hint == given


@pytest.mark.parametrize(("effect", "again"), [("once", False), ("idempotent", True), ("read", True)])
def test_what_took_too_long_may_be_tried_again_unless_it_may_have_happened(effect: Effect, again: bool) -> None:
    assert failure_of(made(effect), "timeout", "m").retryable == again
    assert not failure_of(None, "timeout", "m").retryable
    assert not failure_of(made(effect), "failed", "m").retryable
    assert [failure_of(made(effect), code, "m").retryable for code in RETRYABLE] == [True] * len(RETRYABLE)
    assert not failure_of(made(effect), next(iter(RETRYABLE)), "m", retryable=False).retryable
    assert failure_of(made(effect), "failed", "m", retryable=True).retryable


@pytest.mark.parametrize(
    ("error", "hint"),
    [(StoreError("m"), None), (StoreUnavailable("m"), None), (StoreUnavailable("m", in_doubt=True), IN_DOUBT)],
)
def test_who_may_have_been_heard_is_told_how_to_find_out(error: StoreError, hint: str | None) -> None:
    failure = unavailable(error)
    assert (failure.code, failure.message, failure.hint) == ("unavailable", "m", hint)


def test_no_part_of_a_failure_tells_a_secret() -> None:
    failure = masked(Failure("failed", "hunter2 is wrong", False, "not hunter2", "hunter2"), ["hunter2"])
    assert "hunter2" not in repr(failure)
    assert (failure.code, failure.retryable) == ("failed", False)
    plain = Failure("failed", "wrong", True)
    assert masked(plain, ["hunter2"]) == plain
    assert masked(plain, []) is plain
