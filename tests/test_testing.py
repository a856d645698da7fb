"""What `toolcrib.testing` gives to users, used as they would use it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import Context, DuplicateQuestion, DuplicateStep, Refused, Result, ToolFailure, block, testing, tool
from toolcrib.context import Stopped
from toolcrib.store import Write
from toolcrib.testing import FakeClock, Reply


@tool(destructive=True, anti_patterns=[("closed", "Call between nine and five.")])
async def refund(ctx: Context, order: str, cents: int = 100) -> dict[str, Any]:
    """Refund part of an order."""
    ctx.progress("talking to the bank", 0.5)
    ctx.output("one ")
    ctx.output("two")
    receipt = await ctx.step("pay", lambda: f"{order}/{cents}")
    return {"receipt": receipt}


@tool
async def greet(ctx: Context) -> str:
    """Ask for a name and greet."""
    answer = await ctx.ask("Which name?", schema={"type": "string"})
    return f"Hello {answer.value}"


@tool
async def forever(ctx: Context) -> None:
    """Never end by itself."""
    await asyncio.Event().wait()


# The clock


async def test_a_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock()
    begin = clock.now()
    await asyncio.sleep(0.01)
    assert clock.now() == begin
    await clock.advance(1.5)
    assert clock.now() == begin + 1.5


async def test_timers_fire_in_order_each_at_its_own_time() -> None:
    clock, fired = FakeClock(1000.0), list[tuple[str, float]]()
    for name, when in (("c", 1030.0), ("a", 1010.0), ("b", 1010.0), ("late", 1060.1)):
        clock.call_at(when, lambda name=name: fired.append((name, clock.now())))  # type: ignore[misc]
    clock.call_at(1020.0, lambda: fired.append(("never", 0.0))).cancel()
    await clock.advance(60)
    assert fired == [("a", 1010.0), ("b", 1010.0), ("c", 1030.0)]


async def test_a_timer_that_a_timer_sets_fires_in_the_same_advance() -> None:
    clock, fired = FakeClock(0.0), list[float]()

    def tick() -> None:
        fired.append(clock.now())
        clock.call_at(clock.now() + 10, tick)

    clock.call_at(10, tick)
    await clock.advance(35)
    assert fired == [10, 20, 30]


async def test_what_a_timer_wakes_has_run_when_the_clock_returns() -> None:
    clock, steps = FakeClock(), list[int]()
    woken = asyncio.Event()

    async def sleeper() -> None:
        await woken.wait()
        for number in range(20):
            await asyncio.sleep(0)
            steps.append(number)

    task = asyncio.create_task(sleeper())
    clock.call_at(clock.now() + 1, woken.set)
    await clock.advance(1)
    assert task.done()
    assert len(steps) == 20


async def test_what_is_due_already_fires_without_an_advance() -> None:
    clock, fired = FakeClock(), asyncio.Event()
    clock.call_at(clock.now(), fired.set)
    assert not fired.is_set()
    assert await fired.wait()


async def test_a_loop_that_never_settles_does_not_hold_the_clock() -> None:
    clock = FakeClock()

    async def spin() -> None:
        for _ in range(10_000):
            await asyncio.sleep(0)

    task = asyncio.create_task(spin())
    await clock.advance(1)
    assert not task.done()
    await task


async def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="back"):
        await FakeClock().advance(-1)


# The crib


async def test_a_call_times_out_by_the_clock_of_its_crib() -> None:
    async with testing.crib(forever) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("forever")
        await crib.clock.advance(59)
        assert (await session.status(call.id)).status == "running"
        await crib.clock.advance(2)
        result = await session.result(call.id)
        assert result.failure is not None
        assert result.failure.code == "timeout"


async def test_a_question_expires_by_the_clock_of_its_crib() -> None:
    async with testing.crib(refund) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("refund", {"order": "A-7"})
        await crib.clock.advance(24 * 3600 + 1)
        result = await session.result(call.id)
        assert result.failure is not None
        assert result.failure.message == "Nobody answered within 24 h"


async def test_retention_goes_by_the_clock_of_its_crib() -> None:
    async with testing.crib(refund, retention=timedelta(days=7)) as crib:
        await crib.open("s", owner="ada")
        await crib.clock.advance(timedelta(days=6, hours=23).total_seconds())
        assert await crib.sweep() == 0
        await crib.clock.advance(3601)
        assert await crib.sweep() == 1


async def test_leaving_a_crib_does_not_wait_for_what_runs() -> None:
    started, finished = asyncio.Event(), list[str]()

    @tool(read_only=True)
    async def patient() -> None:
        """End after many turns of the loop, for which a crib that is stopped with grace waits."""
        started.set()
        for _ in range(10_000):
            await asyncio.sleep(0)
        finished.append("patient")

    async with testing.crib(patient) as crib:
        session = await crib.open(owner="ada")
        await session.submit("patient")
        await started.wait()
    assert finished == []


# Scripted answers


@pytest.mark.parametrize("name", ["policy:confirm", "default.refund", "refund", "confirm"])
async def test_a_question_is_answered_by_key_tool_or_kind(name: str) -> None:
    async with testing.crib(refund) as crib:
        session = await crib.open(owner="ada")
        async with testing.answers(session, {name: "accept"}) as answers:
            result = await session.call("refund", {"order": "A-7"})
        assert result.data == {"receipt": "A-7/100"}
        assert [answer.action for answer in answers.given] == ["accept"]


async def test_a_value_is_accepted_and_a_list_is_used_up_in_order() -> None:
    async with testing.crib(greet) as crib:
        session = await crib.open(owner="ada")
        async with testing.answers(
            session, {"Which name?": ["Bob", Reply("decline", reason="Enough")], "input": "Eve"}
        ):
            said = [await session.call("greet") for _ in range(3)]
        assert said[0].data == "Hello Bob"
        assert said[1].failure is not None
        assert (said[1].failure.code, said[1].failure.message) == ("declined", "Enough")
        assert said[2].data == "Hello Eve"


async def test_an_answer_may_change_the_arguments() -> None:
    async with testing.crib(refund) as crib:
        session = await crib.open(owner="ada")
        reply = Reply(arguments={"order": "A-7", "cents": 5}, actor="bob")
        async with testing.answers(session, {"refund": reply}) as answers:
            result = await session.call("refund", {"order": "A-7"})
        assert result.data == {"receipt": "A-7/5"}
        assert answers.given[0].actor == "bob"


async def test_a_question_that_was_open_before_is_answered_too() -> None:
    async with testing.crib(greet) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("greet")
        async with testing.answers(session, {"input": "Bob"}):
            assert (await session.result(call.id)).data == "Hello Bob"


async def test_a_question_that_nobody_scripted_ends_its_call_and_is_reported() -> None:
    async with testing.crib(greet) as crib:
        session = await crib.open(owner="ada")
        with pytest.raises(AssertionError, match=r"nobody scripted 'Which name\?' of default\.greet"):
            async with testing.answers(session, {"confirm": "accept"}):
                result = await session.call("greet")
        assert result.failure is not None
        assert result.failure.code == "cancelled"


async def test_a_question_that_nobody_scripted_can_be_left_open() -> None:
    async with testing.crib(greet) as crib:
        session = await crib.open(owner="ada")
        with pytest.raises(AssertionError, match="Which name"):
            async with testing.answers(session, {}, rest="leave"):
                await session.submit("greet")
        assert [question.prompt for question in await session.questions()] == ["Which name?"]


async def test_an_answer_that_does_not_fit_is_reported() -> None:
    async with testing.crib(greet) as crib:
        session = await crib.open(owner="ada")
        with pytest.raises(AssertionError, match="refused was the answer"):
            async with testing.answers(session, {"input": 7}):
                await session.call("greet")


async def test_what_a_test_raises_is_not_hidden_by_the_report() -> None:
    async with testing.crib(greet) as crib:
        session = await crib.open(owner="ada")
        with pytest.raises(KeyError):
            async with testing.answers(session, {}):
                raise KeyError


# The context outside a crib


@requirement("contract.ctx.8")
async def test_a_context_records_all_that_it_is_told() -> None:
    ctx = testing.context(owner="bob")

    @tool
    async def busy(ctx: Context) -> str:
        """Tell everything."""
        ctx.progress("half", loaded=1, total=2)
        ctx.output("one ")
        ctx.activity("plan", {"steps": ("a", "b")})
        ctx.output({"row": 1})
        ctx.activity_delta("plan", {"op": "remove", "path": "/steps/0"})
        ctx.output("two")
        ctx.progress(status="done")
        return ctx.owner

    assert (await testing.run(busy, {}, ctx)).data == "bob"
    half = {"status": "running", "progress": 0.5, "loaded": 1, "total": 2, "message": "half"}
    assert ctx.told == [
        ("progress", half),
        ("output", {"delta": "one "}),
        ("activity", {"type": "plan", "content": {"steps": ["a", "b"]}}),
        ("output", {"value": {"row": 1}}),
        ("activity", {"type": "plan", "patch": [{"op": "remove", "path": "/steps/0"}]}),
        ("output", {"delta": "two"}),
        ("progress", {"status": "done"}),
    ]
    assert ctx.text == "one two"
    assert ctx.progress_log == [half, {"status": "done"}]


async def test_what_a_context_was_told_does_not_change_later() -> None:
    ctx = testing.context()
    rows = [1]
    ctx.output({"rows": rows})
    rows.append(2)
    assert ctx.told == [("output", {"value": {"rows": [1]}})]


async def test_a_tool_a_function_and_a_function_without_a_docstring_can_be_run() -> None:
    async def bare(ctx: Context, n: int) -> int:
        ctx.output("x" * n)
        return n * 2

    ctx = testing.context()
    assert (await testing.run(refund, {"order": "A-7"})).data == {"receipt": "A-7/100"}
    assert (await testing.run(bare, {"n": 3}, ctx)).data == 6
    assert ctx.text == "xxx"


async def test_arguments_are_checked_as_in_a_crib() -> None:
    result = await testing.run(refund, {"cents": "many"})
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments"
    assert "order" in result.failure.message


async def test_the_own_check_of_a_tool_is_run() -> None:
    def check(n: int) -> None:
        if n > 9:
            raise ValueError("at most nine")

    @tool(validate=check)
    async def count(n: int) -> int:
        """Count."""
        return n

    assert (await testing.run(count, {"n": 9})).data == 9
    refused = (await testing.run(count, {"n": 10})).failure
    assert refused is not None
    assert (refused.code, refused.message) == ("invalid_arguments", "at most nine")


async def test_a_failure_on_purpose_is_a_result_with_its_hint() -> None:
    @tool(anti_patterns=[("closed", "Call between nine and five.")])
    async def shut() -> None:
        """Fail."""
        raise ToolFailure("unavailable", "The bank is closed")

    failure = (await testing.run(shut)).failure
    assert failure is not None
    assert (failure.code, failure.retryable, failure.hint) == ("unavailable", True, "Call between nine and five.")


async def test_what_nobody_meant_to_raise_is_raised() -> None:
    async def wrong() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await testing.run(wrong)


async def test_questions_are_answered_from_the_script() -> None:
    ctx = testing.context(answers={"Which name?": ["Bob", "Eve"]})
    assert (await testing.run(greet, {}, ctx)).data == "Hello Bob"
    assert (await testing.run(greet, {}, ctx)).data == "Hello Eve"
    assert [question["prompt"] for question in ctx.asked] == ["Which name?", "Which name?"]


async def test_an_unscripted_question_says_what_was_scripted() -> None:
    with pytest.raises(AssertionError, match="'Which name\\?'; scripted: 'Which age\\?'"):
        await testing.run(greet, {}, testing.context(answers={"Which age?": 7}))


@pytest.mark.parametrize(("action", "code"), [("decline", "declined"), ("cancel", "cancelled"), ("fail", "failed")])
async def test_an_answer_that_ends_a_call_ends_the_tool(action: str, code: str) -> None:
    async def stubborn(ctx: Context) -> str:
        with suppress(Exception):
            await ctx.ask("Really?", key="sure")
        return "went on"

    failure = (await testing.run(stubborn, {}, testing.context(answers={"sure": action}))).failure
    assert failure is not None
    assert failure.code == code


async def test_a_client_answers_in_place_of_the_tool() -> None:
    async def sign(ctx: Context) -> str:
        await ctx.ask("Sign this", kind="client")
        return "not reached"

    assert (await testing.run(sign, {}, testing.context(answers={"client": {"tx": 1}}))).data == {"tx": 1}


async def test_the_same_question_twice_is_refused_as_in_a_crib() -> None:
    async def twice(ctx: Context) -> None:
        await ctx.ask("Sure?")
        await ctx.ask("Sure?")

    with pytest.raises(DuplicateQuestion):
        await testing.run(twice, {}, testing.context(answers={"Sure?": "yes"}))


async def test_a_step_runs_once_and_is_remembered_as_json() -> None:
    paid: list[int] = []

    async def pay(ctx: Context) -> Any:
        return await ctx.step("pay", receipt)

    def receipt() -> tuple[str, int]:
        paid.append(1)
        return ("receipt", 7)

    ctx = testing.context()
    assert (await testing.run(pay, {}, ctx)).data == ["receipt", 7]
    assert (await testing.run(pay, {}, ctx)).data == ["receipt", 7]
    assert (paid, ctx.steps) == ([1], {"pay": ["receipt", 7]})
    assert (await testing.run(pay, {}, testing.context(steps={"pay": "before"}))).data == "before"
    assert paid == [1]


async def test_a_step_that_failed_fails_again_and_one_key_is_used_once() -> None:
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise ToolFailure("failed", "no")

    async def pay(ctx: Context) -> None:
        await ctx.step("pay", fail)

    async def twice(ctx: Context) -> None:
        await ctx.step("pay", lambda: 1)
        await ctx.step("pay", lambda: 2)

    ctx = testing.context()
    assert not (await testing.run(pay, {}, ctx)).ok
    assert not (await testing.run(pay, {}, ctx)).ok
    assert tries == [1]
    with pytest.raises(DuplicateStep):
        await testing.run(twice)


async def test_other_tools_are_fakes() -> None:
    async def shop(ctx: Context) -> list[Any]:
        prices = [await ctx.call("shop.price", {"of": of}) for of in ("tea", "gold")]
        stock = await ctx.call("shop.registry")
        broken = await ctx.call("shop.broken")
        assert broken.failure is not None
        return [*(price.data for price in prices), stock.data, broken.failure.code]

    def price(of: str) -> int:
        return len(of)

    async def broken() -> None:
        raise ToolFailure("unavailable", "closed")

    ctx = testing.context(tools={"shop.price": price, "shop.registry": Result([1]), "shop.broken": broken})
    assert (await testing.run(shop, {}, ctx)).data == [3, 4, [1], "unavailable"]
    assert ctx.calls[0] == ("shop.price", {"of": "tea"})
    with pytest.raises(AssertionError, match="Nobody gave a fake"):
        await testing.run(shop)


async def test_state_deps_and_facts_are_what_the_test_gave() -> None:
    async def look(ctx: Context) -> list[Any]:
        return [ctx.state["cart"], ctx.deps.bank, ctx.session, ctx.attempt, ctx.id, ctx.user]

    ctx = testing.context(state={"cart": [1]}, deps={"bank": "B"}, attempt=2, user={"chainId": 1})
    assert (await testing.run(look, {}, ctx)).data == [[1], "B", "session-1", 2, "call-1", {"chainId": 1}]
    with pytest.raises(TypeError, match="unknown facts: sesion"):
        testing.context(sesion="s")


async def test_a_test_can_cancel() -> None:
    async def patient(ctx: Context) -> str:
        await ctx.wait_cancelled()
        return f"stopped: {ctx.cancelled}"

    ctx = testing.context()
    running = asyncio.create_task(testing.run(patient, {}, ctx))
    await FakeClock().settle()
    assert not running.done()
    ctx.cancelled = True
    assert (await running).data == "stopped: True"
    with pytest.raises(Stopped):
        testing.context(cancelled=True).check()


async def test_streams_are_recorded_value_by_value() -> None:
    async def numbers(n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    def letters(ctx: Context) -> Iterator[str]:
        ctx.output("text")
        yield from "ab"

    ctx = testing.context()
    assert (await testing.run(numbers, {"n": 3}, ctx)).data == 2
    assert (await testing.run(letters, {}, ctx)).data == "b"
    said = [{"value": 0}, {"value": 1}, {"value": 2}, {"delta": "text"}, {"value": "a"}, {"value": "b"}]
    assert [data for _, data in ctx.told] == said


async def test_a_plain_function_sees_the_same_context_without_await() -> None:
    ctx = testing.context(answers={"Which name?": "Bob"}, tools={"shop.price": 5})
    assert (await testing.run(plain, {}, ctx)).data == ["Bob", 1, 5]
    assert ctx.text == "asked"


def plain(ctx: Context) -> list[Any]:
    name: Any = ctx.ask("Which name?")
    ctx.output("asked")
    price: Any = ctx.call("shop.price")
    return [name.value, ctx.step("once", lambda: 1), price.data]


def test_a_plain_function_can_be_called_from_a_plain_test() -> None:
    ctx = testing.thread_context(answers={"Which name?": "Bob"}, tools={"shop.price": 5})
    assert plain(ctx) == ["Bob", 1, 5]
    assert ctx.told == [("output", {"delta": "asked"})]


async def test_a_plain_function_can_be_called_from_an_async_test() -> None:
    ctx = testing.thread_context(answers={"Which name?": "decline"})
    with pytest.raises(testing.CallEnded) as caught:
        plain(ctx)
    assert caught.value.result.failure is not None
    assert caught.value.result.failure.code == "declined"


async def test_blocks_and_results_come_out_as_in_a_crib() -> None:
    async def shown() -> Any:
        return [block("text", text="hello")]

    assert (await testing.run(shown)).text == "hello"


async def test_a_client_tool_cannot_be_run_here() -> None:
    from toolcrib import Tool

    with pytest.raises(Refused, match="run by the client"):
        await testing.run(Tool(name="pick", description="Pick a file."))


# The index


async def test_the_index_of_a_real_session_is_the_fold_of_its_log() -> None:
    async with testing.crib(refund, greet, forever) as crib:
        session = await crib.open("s", owner="ada")
        async with testing.answers(session, {"greet": "Bob", "refund": ["accept", "decline"]}):
            await asyncio.gather(*(session.call(name, {"order": "A"}) for name in ("refund", "refund", "nothing")))
            await session.call("greet")
        running = await session.submit("forever")
        waiting = await session.submit("greet")
        calls = await testing.check_index(crib.store, "s")
        assert (calls[running.id].status, calls[waiting.id].status, len(calls)) == ("running", "waiting", 6)


async def test_a_row_that_disagrees_with_the_log_is_named() -> None:
    async with testing.crib(forever) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("forever")
        row = await session._row(call.id)
        await crib.store.commit(Write("s", [], row.but(state="done", code="failed"), (row.state, row.attempt)))
        with pytest.raises(AssertionError, match=f"call {call.id}: code: the log says None, the index 'failed'"):
            await testing.check_index(crib.store, "s")


# Importing


@pytest.mark.process
def test_it_is_imported_without_pytest() -> None:
    program = "import sys; sys.modules['pytest'] = None; import toolcrib.testing"
    assert subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=ROOT, check=False).returncode == 0
