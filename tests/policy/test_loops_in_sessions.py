"""An agent that goes round in circles is warned, then refused; polling is not."""

from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import By, Crib, Limits, Result, Session, Tool, tool

AGENT = By("agent", "intern")


class Counting:
    """What a tool gives at each call."""

    def __init__(self) -> None:
        self.calls = 0


async def made(counting: Counting, same: bool, fails: bool = False, **more: Any) -> tuple[Crib, Session]:
    @tool(namespace="n", **more)
    def look(name: str) -> Any:
        """Look."""
        counting.calls += 1
        if fails:
            raise ValueError("no")
        return "same" if same else counting.calls

    crib = Crib([look])
    await crib.start()
    return crib, await crib.open(owner="ada", namespaces=["n"])


async def calls(session: Session, number: int, by: By = AGENT, run: str | None = "r") -> list[Result]:
    return [await session.call("look", {"name": "x"}, by=by, run=run) for _ in range(number)]


@requirement("policy.loop.1", "policy.loop.2")
@pytest.mark.parametrize("run", ["r", None])
async def test_the_same_result_is_hinted_at_from_the_third_time_on_and_refused_at_the_fifth(run: str | None) -> None:
    counting = Counting()
    crib, session = await made(counting, same=True, read_only=True)
    first, second, third, fourth, fifth = await calls(session, 5, run=run)
    assert [result.metadata.get("hint") for result in (first, second)] == [None, None]
    assert third.metadata["hint"] == "This call has given the same result 3 times"
    assert fourth.ok
    assert fifth.failure is not None
    assert fifth.failure.code == "denied"
    assert fifth.failure.message == "Loop: 'look' was called 4 times with the same arguments and the same result"
    assert counting.calls == 4
    await crib.stop()


@requirement("policy.loop.1")
async def test_three_failures_are_enough_and_another_run_begins_anew() -> None:
    counting = Counting()
    crib, session = await made(counting, same=True, fails=True)
    outcomes = await calls(session, 4)
    assert [result.failure.code for result in outcomes if result.failure] == ["internal"] * 3 + ["denied"]
    (other,) = await calls(session, 1, run="another")
    assert other.failure is not None
    assert other.failure.code == "internal"
    await crib.stop()


@requirement("policy.loop.2")
async def test_polling_with_changing_results_is_no_loop() -> None:
    crib, session = await made(Counting(), same=False, read_only=True)
    assert all(result.ok and "hint" not in result.metadata for result in await calls(session, 30))
    await crib.stop()


@requirement("policy.loop.3")
async def test_a_tool_says_how_often_it_may_be_repeated_or_that_it_does_not_matter() -> None:
    def never(context: Any, values: Any) -> str:
        return "same"

    for repeat, allowed in ((3, 2), (None, 12)):
        limits = Limits(repeat=repeat)
        made_tool = Tool(name="look", namespace="n", description="Look.", run=never, mode="thread", limits=limits)
        async with Crib([made_tool]) as crib:
            session = await crib.open(owner="ada", namespaces=["n"])
            outcomes = [await session.call("look", {}, by=AGENT, run="r") for _ in range(12)]
            assert sum(result.ok for result in outcomes) == allowed
