"""Which ends of a call count for the breaker, and how many of them it takes."""

import asyncio
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import By, Context, Crib, Result, Session, tool
from toolcrib.errors import ToolFailure
from toolcrib.testing.clock import FakeClock
from toolcrib.types import Change, Effect

AGENT, USER = By("agent", "helper"), By("user", "ada")
REFUSED = {AGENT: "denied", USER: "unavailable"}


async def ends(session: Session, count: int, by: By, **args: Any) -> list[str]:
    """How so many calls of the same kind ended, one after the other."""
    results = [await session.call("work", args, by=by, run="r") for _ in range(count)]
    return ["ok" if result.failure is None else result.failure.code for result in results]


@requirement("reliability.count.4")
@pytest.mark.parametrize("by", [AGENT, USER])
@pytest.mark.parametrize("repeat", [1, 2, 3, 5, 7])
async def test_as_many_failures_as_the_limit_says_and_no_more(repeat: int, by: By) -> None:
    @tool(repeat=repeat)
    def work() -> str:
        """Fail."""
        raise ToolFailure("failed", "Broken")

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        assert await ends(session, repeat + 2, by) == ["failed"] * repeat + [REFUSED[by]] * 2


@requirement("reliability.count.4")
@pytest.mark.parametrize("by", [AGENT, USER])
async def test_by_default_it_takes_three_failures(by: By) -> None:
    @tool
    def work() -> str:
        """Fail."""
        raise ToolFailure("failed", "Broken")

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        assert await ends(session, 4, by) == ["failed"] * 3 + [REFUSED[by]]


@requirement("reliability.count.3")
@pytest.mark.parametrize("by", [AGENT, USER])
@pytest.mark.parametrize("code", ["unavailable", "cancelled", "rate_limited"])
async def test_what_others_decide_counts_for_nothing(code: str, by: By) -> None:
    @tool(read_only=True)
    def work() -> str:
        """Be ended by others."""
        raise ToolFailure(code, "Not now")

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        assert await ends(session, 8, by) == [code] * 8


@requirement("reliability.count.3")
@pytest.mark.parametrize("by", [AGENT, USER])
async def test_who_cancels_the_same_call_again_and_again_may_make_it_again(by: By) -> None:
    @tool(read_only=True)
    async def work() -> str:
        """Wait."""
        await asyncio.sleep(3600)
        return "never"

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        for _ in range(6):
            call = await session.submit("work", by=by, run="r")
            assert await session.cancel(call.id)
            assert (await session.result(call.id)).failure.code == "cancelled"  # type: ignore[union-attr]


@requirement("reliability.count.3")
async def test_changes_that_came_too_late_count_for_nothing() -> None:
    @tool(effect="once")
    async def work(ctx: Context) -> Result:
        """Change what another call changes first."""
        if ctx.parent is None:
            await ctx.call("change")
        return Result("worked", changes=[Change("set", "key", "late")])

    @tool
    def change() -> Result:
        """Change it."""
        return Result(changes=[Change("set", "key", "first")])

    async with Crib([work, change]) as crib:
        session = await crib.open("s", owner="ada")
        assert await ends(session, 6, USER) == ["failed"] * 6


@requirement("reliability.count.3")
async def test_what_was_spared_neither_adds_to_failures_nor_takes_any_away() -> None:
    codes = iter(["failed", "failed", "unavailable", "failed"])

    @tool
    def work() -> str:
        """Fail in several ways."""
        raise ToolFailure(next(codes), "Broken")

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        assert await ends(session, 5, USER) == ["failed", "failed", "unavailable", "failed", "unavailable"]


@requirement("reliability.count.1")
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_body_that_runs_again_on_newer_state_is_in_its_next_attempt(effect: Effect) -> None:
    attempts: list[int] = []

    @tool(effect=effect, on_conflict="retry")
    async def work(ctx: Context) -> Result:
        """Change what another call changes first."""
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            await ctx.call("change", {"to": len(attempts)})
        return Result("worked", changes=[Change("set", "key", "late")])

    @tool
    def change(to: int) -> Result:
        """Change it."""
        return Result(changes=[Change("set", "key", to)])

    async with Crib([work, change]) as crib:
        session = await crib.open("s", owner="ada")
        assert (await session.call("work")).ok
        assert attempts == [1, 2, 3]


@requirement("reliability.count.1")
@pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
async def test_a_body_that_runs_again_after_an_answer_is_in_its_next_attempt(effect: Effect) -> None:
    attempts: list[int] = []

    @tool(effect=effect)
    async def work(ctx: Context) -> str:
        """Ask twice."""
        attempts.append(ctx.attempt)
        await ctx.ask("One?", key="one")
        await ctx.ask("Two?", key="two")
        return "answered"

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("work")
        async with asyncio.timeout(30):
            async for event in session.events(call=call.id):
                if event.kind == "waiting":
                    await session.answer(event.fields["question"]["id"], "accept", "yes")
        assert attempts == [1, 2, 3]


class Moody:
    """A tool that fails as long as it is told to, and a crib whose time stands still."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.clock = FakeClock()
        self.gate: asyncio.Event | None = None

        @tool(read_only=True)
        async def work(n: int = 0) -> str:
            """Do as told."""
            if self.gate is not None:
                await self.gate.wait()
            end = self.ends.pop(0)
            if end != "ok":
                raise ToolFailure(end, "Broken")
            return "worked"

        self.tool = work


@requirement("gateway.breaker.1")
async def test_a_refusal_says_when_to_try_again_and_is_no_failure() -> None:
    moody = Moody()
    moody.ends = ["failed"] * 3 + ["ok"] * 2
    async with Crib([moody.tool], clock=moody.clock) as crib:
        session = await crib.open("s", owner="ada")
        await ends(session, 3, USER)
        for _ in range(5):
            await moody.clock.advance(10)
            refused = await session.call("work", {}, by=USER)
            assert refused.failure is not None
            assert refused.failure.code == "unavailable"
            assert f"in {round(refused.metadata['retry_after_s'])} s" in str(refused.failure.hint)
        await moody.clock.advance(11)
        assert await ends(session, 2, USER) == ["ok", "ok"]


@requirement("gateway.breaker.1")
@pytest.mark.parametrize(("end", "next_end"), [("failed", "unavailable"), ("cancelled", "ok"), ("ok", "ok")])
async def test_after_its_time_one_call_is_let_through_and_its_end_decides(end: str, next_end: str) -> None:
    moody = Moody()
    moody.ends = ["failed"] * 3 + [end, "ok"]
    async with Crib([moody.tool], clock=moody.clock) as crib:
        session = await crib.open("s", owner="ada")
        await ends(session, 3, USER)
        await moody.clock.advance(61)
        moody.gate = asyncio.Event()
        trial = await session.submit("work", {}, by=USER)
        assert await ends(session, 2, USER) == ["unavailable"] * 2
        moody.gate.set()
        await session.result(trial.id)
        assert await ends(session, 1, USER) == [next_end]


@requirement("gateway.breaker.1")
async def test_failures_of_one_caller_or_with_other_arguments_refuse_nobody_else() -> None:
    moody = Moody()
    moody.ends = ["failed"] * 3 + ["ok"] * 3
    async with Crib([moody.tool], clock=moody.clock) as crib:
        session = await crib.open("s", owner="ada")
        await ends(session, 3, USER)
        assert await ends(session, 1, By("user", "bob")) == ["ok"]
        assert await ends(session, 1, USER, n=1) == ["ok"]
        other = await crib.open("t", owner="ada")
        assert await ends(other, 1, USER) == ["ok"]


@requirement("gateway.breaker.1")
async def test_to_ask_why_a_call_would_be_refused_lets_nothing_through() -> None:
    moody = Moody()
    moody.ends = ["failed"] * 3 + ["ok"]
    async with Crib([moody.tool], clock=moody.clock) as crib:
        session = await crib.open("s", owner="ada")
        await ends(session, 3, USER)
        await moody.clock.advance(61)
        session.why("work", {})
        assert await ends(session, 1, USER) == ["ok"]


@requirement("reliability.count.3")
async def test_a_success_in_between_begins_the_count_anew() -> None:
    outcomes = ["fails", "fails", "works"] * 3 + ["fails"] * 3

    @tool
    def work() -> str:
        """Fail, but for every third time."""
        if outcomes.pop(0) == "fails":
            raise ToolFailure("failed", "Broken")
        return "worked"

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        assert await ends(session, 13, USER) == ["failed", "failed", "ok"] * 3 + ["failed"] * 3 + ["unavailable"]


@requirement("reliability.count.3")
async def test_what_fails_for_an_agent_does_not_count_for_a_person_and_the_other_way_round() -> None:
    @tool
    def work(n: int) -> str:
        """Fail."""
        raise ToolFailure("failed", "Broken")

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        refused = {AGENT: "denied", USER: "unavailable"}
        for n, (first, second) in enumerate(((AGENT, USER), (USER, AGENT))):
            assert await ends(session, 4, first, n=n) == ["failed"] * 3 + [refused[first]]
            assert await ends(session, 4, second, n=n) == ["failed"] * 3 + [refused[second]]


@requirement("policy.loop.1")
@pytest.mark.parametrize("own", [None, "Try another one"])
async def test_the_third_equal_failure_of_an_agent_is_hinted_at_unless_the_tool_has_a_hint_of_its_own(
    own: str | None,
) -> None:
    @tool(repeat=5)
    def work() -> str:
        """Fail."""
        raise ToolFailure("failed", "Broken", hint=own)

    async with Crib([work]) as crib:
        session = await crib.open("s", owner="ada")
        results = [await session.call("work", {}, by=AGENT, run="r") for _ in range(3)]
        hints = [result.failure.hint for result in results if result.failure is not None]
        assert hints == [own, own, own or "This call has given the same result 3 times"]
