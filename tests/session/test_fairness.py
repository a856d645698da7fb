"""Owners share a crib: seats, turns, and how much of each may queue and wait."""

import asyncio
import threading

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, settled
from tests.session.test_scheduler import Busy
from toolcrib import Context, Crib, CribLimits, Session, tool
from toolcrib import testing as t
from toolcrib.keywords import CallKeywords
from toolcrib.tool import Tool


def worker(busy: Busy, starts: list[str]) -> Tool:
    @tool(read_only=True)
    async def work(ctx: Context) -> int:
        """Work."""
        starts.append(ctx.owner)
        return await busy.work()

    return work


async def sessions_of(crib: Crib, owner: str, number: int) -> list[Session]:
    return [await crib.open(owner=owner) for _ in range(number)]


async def submit(sessions: list[Session], each: int) -> list[tuple[Session, str]]:
    return [(session, (await session.submit("work")).id) for session in sessions for _ in range(each)]


async def end(busy: Busy, calls: list[tuple[Session, str]]) -> None:
    busy.let_go(len(calls))
    async with asyncio.timeout(SOON):
        assert all([(await session.result(call)).ok for session, call in calls])


@requirement("security.fair.1")
async def test_no_owner_takes_all_seats_and_whoever_comes_has_one_at_once() -> None:
    busy, starts = Busy(), list[str]()
    async with Crib([worker(busy, starts)], limits=CribLimits(per_crib=16, shared=True)) as crib:
        calls = await submit(await sessions_of(crib, "ada", 4), 16)
        assert starts == ["ada"] * 8  # as many as are left
        calls += await submit(await sessions_of(crib, "bob", 1), 16)
        assert starts[8:] == ["bob"] * 4
        calls += await submit(await sessions_of(crib, "eve", 1), 1)
        assert starts[12:] == ["eve"]
        await end(busy, calls)


@requirement("security.fair.1")
async def test_seats_that_others_leave_are_taken_again() -> None:
    busy, starts = Busy(), list[str]()
    async with Crib([worker(busy, starts)], limits=CribLimits(per_crib=8, shared=True)) as crib:
        bobs = await submit(await sessions_of(crib, "bob", 1), 4)
        calls = await submit(await sessions_of(crib, "ada", 1), 8)
        assert starts == ["bob"] * 4 + ["ada"] * 2
        await end(busy, bobs)
        await settled()
        assert starts[6:] == ["ada"] * 2
        await end(busy, calls)


@requirement("security.fair.1")
@pytest.mark.parametrize(("weights", "order"), [({}, "aababababab"), ({"bob": 3}, "aabbbabbaaa")])
async def test_queued_calls_start_in_turns_of_their_owners_by_weight(weights: dict[str, int], order: str) -> None:
    busy, starts = Busy(), list[str]()
    names = {"a": "ada", "b": "bob"}
    async with Crib([worker(busy, starts)], limits=CribLimits(per_crib=1, weights=weights)) as crib:
        calls = await submit(await sessions_of(crib, "ada", 3), 2)  # more sessions are no more turns
        calls += await submit(await sessions_of(crib, "bob", 1), 5)
        await end(busy, calls)
        assert starts == [names[letter] for letter in order]


@requirement("security.fair.1")
async def test_an_owner_of_more_weight_holds_more_seats() -> None:
    busy, starts = Busy(), list[str]()
    limits = CribLimits(per_crib=16, shared=True, weights={"ada": 3})
    async with Crib([worker(busy, starts)], limits=limits) as crib:
        calls = await submit(await sessions_of(crib, "ada", 2), 10)
        assert starts == ["ada"] * 12  # three times as many as are left
        await end(busy, calls)


@requirement("security.fair.1")
async def test_what_runs_when_owners_begin_to_share_counts() -> None:
    busy, starts = Busy(), list[str]()
    async with Crib([worker(busy, starts)], limits=CribLimits(per_crib=8)) as crib:
        ada = await sessions_of(crib, "ada", 1)
        calls = await submit(ada, 3)
        crib.share()
        calls += await submit(ada, 3)
        assert starts == ["ada"] * 4
        await end(busy, calls)
        more = await submit(ada, 5)
        assert len(starts) == 10
        await end(busy, more)


@requirement("security.fair.1")
async def test_limits_that_say_so_keep_owners_from_sharing() -> None:
    busy, starts = Busy(), list[str]()
    async with Crib([worker(busy, starts)], limits=CribLimits(per_crib=8, shared=False)) as crib:
        crib.share()
        calls = await submit(await sessions_of(crib, "ada", 1), 8)
        assert starts == ["ada"] * 8
        await end(busy, calls)


@requirement("security.fair.1")
def test_a_weight_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="the weight of 'ada' is 1 or more, not 0"):
        CribLimits(weights={"ada": 0})


@requirement("security.fair.2")
async def test_a_call_of_an_owner_whose_queue_is_full_is_rate_limited(place: Place) -> None:
    busy = Busy()

    @tool
    async def work() -> int:
        """Work."""
        return await busy.work()

    limits = CribLimits(per_session=1, queued_per_owner=2)
    async with place.crib(work, limits=limits) as crib:
        ada = await crib.open(owner="ada")
        calls = await submit([ada], 3)
        every: list[CallKeywords] = [{}, {"background": True}]
        for options in every:
            failure = (await ada.call("work", **options)).failure
            assert failure is not None
            assert (failure.code, failure.message) == ("rate_limited", "2 calls of yours are queued already")
            assert failure.hint == "wait for some of them to end before you make more"
        calls += await submit([await crib.open(owner="bob")], 3)
        busy.let_go(1)
        await ada.result(calls[0][1])
        calls += await submit([ada], 1)
        await end(busy, calls)
        assert busy.now == 0


@requirement("security.fair.2")
async def test_a_call_made_by_a_call_is_not_refused_for_a_full_queue() -> None:
    gate = Gate()

    @tool(read_only=True, concurrency=1)
    async def inner() -> int:
        """Work."""
        return 1

    @tool(read_only=True)
    async def outer(ctx: Context) -> int:
        """Call another."""
        await gate.passed()
        return int((await ctx.call("inner")).data)

    async with Crib([inner, outer], limits=CribLimits(per_session=1, queued_per_owner=1)) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("outer") for _ in range(2)]
        gate.opened.set()
        results = [await asyncio.wait_for(session.result(call.id), SOON) for call in calls]
        assert [result.data for result in results] == [1, 1]


@requirement("security.fair.2")
async def test_a_call_that_would_wait_is_rate_limited_where_too_many_of_its_owner_do() -> None:
    @tool(requires_confirmation=True)
    async def careful() -> int:
        """Be confirmed first."""
        return 1

    @tool
    async def curious(ctx: Context) -> int:
        """Ask in the middle."""
        await ctx.ask("Go on?")
        return 1

    async with t.crib(careful, curious, limits=CribLimits(waiting_per_owner=2)) as crib:
        ada, bob = await crib.open(owner="ada"), await crib.open(owner="bob")
        first, _ = await ada.submit("careful"), await ada.submit("curious")
        for name in ("careful", "curious"):
            session = await crib.open(owner="ada")
            failure = (await session.call(name)).failure
            assert failure is not None
            assert (failure.code, failure.message) == ("rate_limited", "2 calls of yours wait for answers already")
            kinds = [event.kind async for event in session.events(follow=False) if event.call is not None]
            assert (kinds[-1], "waiting" in kinds) == ("done", False)
            assert [row.state for row in await crib.store.calls(session.id)] == ["done"]
            assert failure.hint == "have some of them answered or cancelled before you make more"
        assert (await bob.status((await bob.submit("careful")).id)).status == "waiting"
        await ada.cancel(first.id)
        await crib.clock.advance(1)
        assert (await ada.status((await ada.submit("careful")).id)).status == "waiting"


@requirement("security.fair.3")
async def test_the_questions_of_an_owner_are_listed_alone(place: Place) -> None:
    @tool(requires_confirmation=True)
    async def careful() -> int:
        """Be confirmed first."""
        return 1

    async with place.crib(careful) as crib:
        calls = {}
        for owner in ("ada", "bob"):
            session = await crib.open(owner=owner)
            calls[owner] = [(await session.submit("careful")).id for _ in range(3)]
        for owner, made in calls.items():
            assert [question.call for question in await crib.questions(owner)] == made
        assert len(await crib.questions()) == 6


@requirement("security.fair.6")
async def test_a_thread_that_cannot_be_stopped_counts_as_a_seat_of_its_owner() -> None:
    gate, began = threading.Event(), threading.Semaphore(0)

    @tool(read_only=True, timeout=10)
    def stuck() -> int:
        """Hang."""
        began.release()
        gate.wait(SOON)
        return 1

    @tool(read_only=True)
    async def quick() -> int:
        """Be quick."""
        return 1

    async with t.crib(stuck, quick, limits=CribLimits(per_crib=4, shared=True)) as crib:
        ada, bob = await crib.open(owner="ada"), await crib.open(owner="bob")
        calls = [await ada.submit("stuck") for _ in range(2)]
        for _ in calls:
            assert await asyncio.to_thread(began.acquire, timeout=SOON)
        await crib.clock.advance(11)
        assert [(await ada.status(call.id)).status for call in calls] == ["timed_out"] * 2
        late = await ada.submit("quick")
        assert (await ada.status(late.id)).status == "queued"
        assert (await bob.call("quick")).ok
        gate.set()
        assert (await asyncio.wait_for(ada.result(late.id), SOON)).ok
