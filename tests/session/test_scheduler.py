"""Which call starts when: together, in order, within bounds, fairly, not for ever, and with chunks that keep up."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, follow, kinds, log, settled, values
from toolcrib import Context, Crib, CribLimits, Limits, Result, ThreadContext, tool
from toolcrib import testing as t


class Busy:
    """Counts how many bodies are at work, and lets them go one by one."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.order: list[int] = []
        self.go = asyncio.Semaphore(0)

    async def work(self, number: int = 0) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(number)
        await self.go.acquire()
        self.now -= 1
        return number

    def let_go(self, count: int) -> None:
        for _ in range(count):
            self.go.release()


@requirement("aomi.sched.1")
async def test_the_calls_of_one_turn_run_together(place: Place) -> None:
    together = asyncio.Barrier(4)

    @tool(read_only=True)
    async def meet() -> int:
        """Wait for the others."""
        return await together.wait()

    async with place.crib(meet) as crib:
        session = await crib.open(owner="ada")
        met = asyncio.gather(*(session.call("meet", turn="t-1") for _ in range(4)))
        assert {result.data for result in await asyncio.wait_for(met, SOON)} == {0, 1, 2, 3}


@requirement("aomi.sched.2")
async def test_calls_of_a_session_start_in_the_order_of_acceptance(place: Place) -> None:
    busy = Busy()

    @tool
    async def work(number: int) -> int:
        """Work."""
        return await busy.work(number)

    async with place.crib(work, limits=CribLimits(per_session=2)) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("work", {"number": n}) for n in range(30)]
        busy.let_go(30)
        await asyncio.gather(*(session.result(call.id) for call in calls))
        assert busy.order == list(range(30))
        assert busy.most == 2
        started = [event.call for event in await log(session) if event.kind == "started"]
        assert started == [call.id for call in calls]


@requirement("aomi.sched.3")
def test_the_defaults_are_16_a_session_256_a_crib_and_64_a_turn() -> None:
    limits = CribLimits()
    assert (limits.per_session, limits.per_crib, limits.per_turn) == (16, 256, 64)


@requirement("aomi.sched.3")
async def test_no_more_than_16_calls_of_a_session_run_and_the_others_are_queued() -> None:
    busy = Busy()

    @tool(read_only=True)
    async def work() -> int:
        """Work."""
        return await busy.work()

    async with Crib([work]) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("work") for _ in range(40)]
        assert busy.now == 16
        assert len(await session.ongoing()) == 16
        assert [entry.status for entry in await session.unresolved()] == ["queued"] * 24
        busy.let_go(40)
        assert all([(await session.result(call.id)).ok for call in calls])
        assert busy.most == 16


@requirement("aomi.sched.3")
async def test_a_crib_a_tool_and_a_serial_tool_have_their_bounds() -> None:
    crowd, few, alone = Busy(), Busy(), Busy()

    @tool(read_only=True)
    async def many() -> int:
        """Work."""
        return await crowd.work()

    @tool(read_only=True, concurrency=3)
    async def three() -> int:
        """Work."""
        return await few.work()

    @tool(read_only=True, serial=True)
    async def single() -> int:
        """Work."""
        return await alone.work()

    async with Crib([many, three, single], limits=CribLimits(per_crib=10)) as crib:
        sessions = [await crib.open(owner="ada") for _ in range(4)]
        for name, busy, most in (("many", crowd, 10), ("three", few, 3), ("single", alone, 4)):
            calls = [(session, await session.submit(name)) for session in sessions for _ in range(4)]
            assert busy.now == most
            busy.let_go(16)
            assert all([(await session.result(call.id)).ok for session, call in calls])
            assert busy.most == most  # a serial tool is alone in each of four sessions


@requirement("aomi.sched.3")
async def test_calls_past_the_limit_of_a_turn_are_rate_limited(place: Place) -> None:
    @tool(read_only=True)
    async def work() -> int:
        """Work."""
        return 1

    async with place.crib(work) as crib:
        session = await crib.open(owner="ada")
        results = [await session.call("work", turn="t-1") for _ in range(66)]
        assert [result.ok for result in results] == [True] * 64 + [False] * 2
        assert results[-1].failure is not None
        assert results[-1].failure.code == "rate_limited"
        assert results[-1].failure.message == "Too many calls in one turn (limit 64)"
        assert (await session.call("work", turn="t-2")).ok


@requirement("aomi.sched.4")
async def test_a_call_of_another_session_starts_though_a_thousand_are_queued() -> None:
    busy, other = Busy(), Gate()

    @tool(read_only=True)
    async def work() -> int:
        """Work."""
        return await busy.work()

    @tool(read_only=True)
    async def quick() -> None:
        """Start."""
        other.reached.set()

    async with Crib([work, quick], limits=CribLimits(per_crib=16)) as crib:
        crowded, calm = await crib.open(owner="ada"), await crib.open(owner="bob")
        for _ in range(1016):
            await crowded.submit("work")
        await calm.submit("quick")
        await settled()
        assert not other.reached.is_set()  # every seat of the crib is taken
        busy.let_go(2)
        await settled()
        assert other.reached.is_set()
        await crowded.interrupt()


@requirement("aomi.sched.4")
async def test_free_seats_go_round_the_sessions() -> None:
    starts: list[str] = []
    busy = Busy()

    @tool(read_only=True)
    async def work(ctx: Context) -> int:
        """Work."""
        starts.append(ctx.session)
        return await busy.work()

    async with Crib([work], limits=CribLimits(per_crib=1)) as crib:
        sessions = [await crib.open(id, owner="ada") for id in ("a", "b", "c")]
        calls = [(session, await session.submit("work")) for session in sessions for _ in range(3)]
        busy.let_go(9)
        for session, call in calls:
            await session.result(call.id)
        assert starts == ["a", "a", "b", "c", "a", "b", "c", "b", "c"]


@requirement("aomi.sched.4")
async def test_a_blocked_tool_does_not_hold_up_other_tools_of_its_session() -> None:
    gate = Gate()

    @tool(read_only=True, concurrency=1)
    async def slow() -> None:
        """Take a while."""
        await gate.passed()

    @tool(read_only=True)
    async def quick() -> int:
        """Be quick."""
        return 1

    async with Crib([slow, quick]) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("slow") for _ in range(2)]
        assert (await asyncio.wait_for(session.call("quick"), SOON)).data == 1
        gate.opened.set()
        for call in calls:
            assert (await session.result(call.id)).ok


@requirement("aomi.sched.4")
async def test_a_long_queue_of_calls_that_end_at_once_is_worked_off(place: Place) -> None:
    gate = Gate()

    @tool(read_only=True)
    async def step(slow: bool = False) -> int:
        """Step."""
        if slow:
            await gate.passed()
        return 1

    async with place.crib(step, limits=CribLimits(per_session=1)) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("step", {"slow": True})]
        calls += [await session.submit("step") for _ in range(1500)]
        gate.opened.set()
        results = await asyncio.wait_for(asyncio.gather(*(session.result(call.id) for call in calls)), 60)
        assert all(result.ok for result in results)


async def test_an_owner_runs_so_many_calls_and_the_others_go_ahead() -> None:
    busy, other = Busy(), Gate()

    @tool(read_only=True)
    async def work(number: int) -> int:
        """Work."""
        return await busy.work(number)

    @tool(read_only=True)
    async def quick() -> None:
        """Start."""
        other.reached.set()

    async with Crib([work, quick], limits=CribLimits(per_owner=3)) as crib:
        sessions = [await crib.open(owner="ada") for _ in range(4)]
        calls = [(session, await session.submit("work", {"number": n})) for n, session in enumerate(sessions * 5)]
        assert busy.now == 3
        await (await crib.open(owner="bob")).submit("quick")
        await other.wait()
        busy.let_go(20)
        assert all([(await session.result(call.id)).ok for session, call in calls])
        assert busy.most == 3
        assert busy.order == list(range(20))  # the turns of her sessions go round as they came


async def test_the_calls_of_an_owner_start_in_the_order_of_each_of_her_sessions() -> None:
    busy = Busy()

    @tool
    async def work(number: int) -> int:
        """Work."""
        return await busy.work(number)

    async with Crib([work], limits=CribLimits(per_owner=1)) as crib:
        first_session, second = await crib.open(owner="ada"), await crib.open(owner="ada")
        calls = [(first_session, await first_session.submit("work", {"number": n})) for n in range(4)]
        calls += [(second, await second.submit("work", {"number": n})) for n in range(10, 13)]
        busy.let_go(7)
        for session, call in calls:
            assert (await session.result(call.id)).ok
        assert busy.order == [0, 1, 10, 2, 11, 3, 12]


async def test_nested_calls_take_no_seat_of_their_owner() -> None:
    @tool(read_only=True)
    async def fall(ctx: Context, depth: int) -> int:
        """Call itself."""
        await asyncio.sleep(0)
        return 0 if depth == 0 else 1 + int((await ctx.call("fall", {"depth": depth - 1})).data)

    async with Crib([fall], limits=CribLimits(per_owner=1)) as crib:
        sessions = [await crib.open(owner="ada") for _ in range(3)]
        falls = (session.call("fall", {"depth": 5}) for session in sessions)
        assert [result.data for result in await asyncio.wait_for(asyncio.gather(*falls), SOON)] == [5, 5, 5]


async def test_a_queued_call_of_an_owner_that_is_cancelled_takes_no_seat() -> None:
    busy = Busy()

    @tool(read_only=True)
    async def work(number: int) -> int:
        """Work."""
        return await busy.work(number)

    async with Crib([work], limits=CribLimits(per_owner=1)) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("work", {"number": n}) for n in range(3)]
        await session.cancel(calls[1].id)
        busy.let_go(2)
        assert (await session.result(calls[2].id)).ok
        assert busy.order == [0, 2]


@requirement("aomi.path.4")
async def test_nested_calls_never_wait_for_the_seats_of_their_parents() -> None:
    @tool(read_only=True, concurrency=1, serial=True)
    async def fall(ctx: Context, depth: int) -> int:
        """Call itself."""
        await asyncio.sleep(0)
        if depth == 0:
            return 0
        inner: Result = await ctx.call("fall", {"depth": depth - 1})
        return 1 + int(inner.data)

    async with Crib([fall], limits=CribLimits(per_session=1, per_crib=1)) as crib:
        session = await crib.open(owner="ada")
        results = await asyncio.wait_for(asyncio.gather(*(session.call("fall", {"depth": 5}) for _ in range(3))), SOON)
        assert [result.data for result in results] == [5, 5, 5]


@requirement("aomi.path.4")
async def test_plain_functions_that_call_plain_functions_do_not_run_out_of_threads() -> None:
    @tool(read_only=True)
    def fall(ctx: ThreadContext, depth: int) -> Any:
        """Call itself."""
        return 0 if depth == 0 else 1 + ctx.call("fall", {"depth": depth - 1}).data

    async with Crib([fall], limits=CribLimits(per_crib=2)) as crib:
        session = await crib.open(owner="ada")
        results = await asyncio.wait_for(asyncio.gather(*(session.call("fall", {"depth": 3}) for _ in range(4))), SOON)
        assert [result.data for result in results] == [3] * 4


@requirement("aomi.sched.5")
async def test_a_body_may_run_60_s_or_as_long_as_its_tool_says_and_is_then_stopped() -> None:
    gate, stopped = Gate(), asyncio.Event()

    @tool(read_only=True)
    async def long() -> None:
        """Take for ever."""
        try:
            await gate.passed()
        finally:
            stopped.set()

    async with t.crib(long, long.but(name="longer", limits=Limits(timeout_s=100))) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("long"), await session.submit("longer")]
        await crib.clock.advance(59.9)
        assert len(await session.ongoing()) == 2
        await crib.clock.advance(0.2)
        result = await session.result(calls[0].id)
        assert result.failure is not None
        assert (result.failure.code, result.failure.message) == ("timeout", "Timed out after 60 s")
        assert stopped.is_set()
        assert (await session.status(calls[1].id)).status == "running"
        await crib.clock.advance(40)
        assert (await session.status(calls[1].id)).status == "timed_out"


@requirement("aomi.sched.5")
async def test_waiting_and_queueing_do_not_count() -> None:
    gate = Gate()

    @tool(timeout=10, concurrency=1)
    async def slow(ctx: Context) -> str:
        """Ask, then take a while."""
        await ctx.ask("Go on?")
        await gate.passed()
        return "ok"

    async with t.crib(slow) as crib:
        session = await crib.open(owner="ada")
        first_call, second = await session.submit("slow"), await session.submit("slow")
        await crib.clock.advance(3600)  # both wait
        for question in await session.questions():
            await session.answer(question.id, "accept")
        await gate.wait()
        await crib.clock.advance(9)  # one runs, the other is queued
        gate.opened.set()
        assert (await session.result(first_call.id)).data == "ok"
        assert (await session.result(second.id)).data == "ok"


@requirement("aomi.sched.5")
async def test_a_caller_may_ask_for_less_time_but_not_for_more() -> None:
    gate = Gate()

    @tool(read_only=True, timeout=10)
    async def slow() -> None:
        """Take for ever."""
        await gate.passed()

    async with t.crib(slow) as crib:
        session = await crib.open(owner="ada")
        less, more = await session.submit("slow", timeout_s=2), await session.submit("slow", timeout_s=50)
        await crib.clock.advance(2.1)
        assert (await session.status(less.id)).status == "timed_out"
        await crib.clock.advance(8)
        assert (await session.status(more.id)).status == "timed_out"


@requirement("aomi.sched.6")
async def test_a_call_submitted_in_the_line_before_close_is_not_lost(place: Place) -> None:
    gate = Gate()
    gate.opened.set()

    @tool
    async def work() -> str:
        """Work."""
        await gate.passed()
        await asyncio.sleep(0.01)
        return "done"

    async with place.crib(work) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("work")
        closed = await session.close()
        assert (closed.finished, closed.timed_out) == (1, 0)
    async with place.crib(work) as crib:
        session = await crib.open("s-1", owner="ada")
        assert (await session.result(call.id)).data == "done"


@requirement("aomi.sched.6")
async def test_a_call_that_is_being_accepted_when_its_session_closes_still_has_one_end(place: Place) -> None:
    @tool
    async def work() -> None:
        """Take for ever."""
        await asyncio.Event().wait()

    async with place.crib(work, limits=CribLimits(cleanup_s=0.1)) as crib:
        session = await crib.open(owner="ada")
        submitted = [asyncio.create_task(session.submit("work")) for _ in range(40)]
        await asyncio.sleep(0)
        await asyncio.wait_for(session.close(timeout=0), SOON)
        for task in submitted:
            call = await task
            assert kinds(await log(session, call.id)).count("done") == 1
        assert await session.unresolved() == []
        assert await session.ongoing() == []


@requirement("aomi.sched.7")
async def test_ten_thousand_chunks_are_all_in_the_log_in_order(file_place: Place) -> None:
    @tool(read_only=True)
    async def pour() -> AsyncIterator[str]:
        """Pour."""
        for n in range(10_000):
            yield f"{n:0100}"

    async with file_place.crib(pour) as crib:
        session = await crib.open(owner="ada")
        assert (await session.call("pour")).ok
        assert values(await log(session)) == [f"{n:0100}" for n in range(10_000)]


@requirement("aomi.sched.8")
@pytest.mark.parametrize("threaded", [False, True])
async def test_a_generator_is_asked_on_only_while_few_of_its_chunks_are_unwritten(
    file_place: Place, threaded: bool
) -> None:
    """The number of values made is compared with the number written at every moment a value is made."""
    most = 0
    crib = file_place.crib(limits=CribLimits(unwritten_chunks=50))
    written: list[int] = []

    def notice(n: int) -> None:
        nonlocal most
        live = next(iter(session.live.values()))
        most = max(most, live.output.unwritten)
        written.append(n)

    async def pour() -> AsyncIterator[int]:
        """Pour."""
        for n in range(2000):
            notice(n)
            yield n

    def pour_in_thread() -> Iterator[int]:
        """Pour."""
        for n in range(500):
            notice(n)
            yield n

    crib.add(tool(read_only=True)(pour_in_thread if threaded else pour))
    async with crib:
        session = await crib.open(owner="ada")
        call = await session.submit("pour_in_thread" if threaded else "pour")
        assert (await session.result(call.id)).ok
        assert 0 < most < 50 or threaded
        assert most < 50
        assert values(await log(session)) == written


@requirement("aomi.sched.8")
async def test_other_calls_do_not_notice_a_generator_that_pours(file_place: Place) -> None:
    @tool(read_only=True)
    async def pour(ctx: Context) -> AsyncIterator[str]:
        """Pour."""
        while not ctx.cancelled:
            yield "x" * 100

    @tool(read_only=True)
    async def quick() -> int:
        """Be quick."""
        return 1

    async with file_place.crib(pour, quick) as crib:
        session = await crib.open(owner="ada")
        pouring = await session.submit("pour")
        await first(session, "output", pouring.id)
        for _ in range(10):  # while it pours for ever
            assert (await session.call("quick")).data == 1
        assert await session.cancel(pouring.id)


@requirement("aomi.sched.8")
@pytest.mark.parametrize("piece", ["x" * 100_000, {"x": "x" * 100_000}], ids=["text", "json"])
async def test_a_call_with_8_mb_unwritten_ends_too_large_and_ctx_output_never_waits(
    file_place: Place, piece: Any
) -> None:
    made = 0

    @tool(read_only=True)
    async def flood(ctx: Context) -> None:
        """Flood."""
        nonlocal made
        for _ in range(300):
            ctx.output(piece)  # nothing is awaited, so nothing can be written meanwhile
            made += 1
        await asyncio.Event().wait()

    async with file_place.crib(flood) as crib:
        session = await crib.open(owner="ada")
        result = await asyncio.wait_for(session.call("flood"), 30)
        assert made == 300
        assert result.failure is not None
        assert result.failure.code == "too_large"
        kept = [event for event in await log(session) if event.kind == "output"]
        assert 80 <= len(kept) < 100
        assert (await session.call("flood", {})).failure is not None


@requirement("aomi.sched.8")
async def test_a_thread_that_floods_ends_too_large_as_well(file_place: Place) -> None:
    begun, blocked, made = threading.Event(), threading.Event(), threading.Event()

    @tool(read_only=True)
    def flood(ctx: Context) -> None:
        """Flood."""
        begun.set()
        blocked.wait(SOON)
        for _ in range(300):
            ctx.output("x" * 100_000)
        made.set()

    async with file_place.crib(flood) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("flood")
        assert await asyncio.to_thread(begun.wait, SOON)
        blocked.set()
        assert made.wait(SOON)  # the loop stands still meanwhile
        events = await follow(session, call.id)
        assert events[-1].fields["failure"]["code"] == "too_large"
        assert kinds(events).count("output") < 100
