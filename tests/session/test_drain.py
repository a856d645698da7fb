"""Logout: what runs is waited for, the rest ends at the timeout, what waits goes on waiting, and nothing is held."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, follow, kinds, log, settled, values
from toolcrib import Context, Crib, CribLimits, Failure, Refused, Result, Session, StoreUnavailable, tool
from toolcrib import testing as t

LOGOUT = "Timed out during logout"
SHORT = CribLimits(cleanup_s=0.2)


@tool
async def pay(ctx: Context) -> None:
    """Have an effect, once, and never come back."""
    ctx.output("paying")
    await asyncio.Event().wait()


@tool(read_only=True)
async def look() -> None:
    """Look for ever."""
    await asyncio.Event().wait()


@tool(idempotent=True)
async def quick() -> str:
    """Take a moment."""
    await asyncio.sleep(0.01)
    return "finished"


@tool(requires_confirmation=True)
async def approve() -> str:
    """Wait for somebody."""
    return "approved"


def failure(result: Result) -> Failure:
    assert result.failure is not None
    return result.failure


@requirement("aomi.drain.1")
async def test_from_closing_on_calls_end_unavailable(place: Place) -> None:
    async with place.crib(quick, look, limits=SHORT) as crib:
        session = await crib.open(owner="ada")
        await session.submit("look")
        closing = asyncio.create_task(session.close(timeout=0.3))
        logged = await first(session, "closing")
        assert logged.fields == {"timeout_s": 0.3}
        refused = failure(await session.call("quick"))
        assert (refused.code, refused.message) == ("unavailable", "Session is closing")
        call = await session.submit("quick")
        assert kinds(await log(session, call.id)) == ["accepted", "done"]
        await closing
        assert failure(await session.call("quick")).code == "unavailable"


@requirement("aomi.drain.1")
@pytest.mark.parametrize("timeout", [-1, 3600.1, float("nan"), float("inf")])
async def test_the_timeout_is_within_an_hour(timeout: float) -> None:
    async with Crib() as crib:
        session = await crib.open(owner="ada")
        with pytest.raises(Refused) as refused:
            await session.close(timeout=timeout)
        assert refused.value.code == "invalid_arguments"
        assert not session.closing


@requirement("aomi.drain.1")
async def test_a_call_that_still_runs_may_call_other_tools_while_its_session_closes(place: Place) -> None:
    gate = Gate()

    @tool(read_only=True)
    async def outer(ctx: Context) -> str:
        """Call another tool late."""
        await gate.passed()
        return str((await ctx.call("quick", {})).data)

    async with place.crib(outer, quick) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("outer")
        await gate.wait()
        closing = asyncio.create_task(session.close())
        await first(session, "closing")
        gate.opened.set()
        assert (await asyncio.wait_for(closing, SOON)).finished == 1
        assert (await session.result(call.id)).data == "finished"


@requirement("aomi.drain.2")
async def test_close_returns_as_soon_as_what_runs_and_queues_has_ended(place: Place) -> None:
    gate = Gate()

    @tool(read_only=True, concurrency=1)
    async def nap() -> None:
        """Sleep."""
        await gate.passed()

    async with place.crib(nap) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("nap") for _ in range(2)]
        closing = asyncio.create_task(session.close(timeout=3600))
        await first(session, "closing")
        await settled()
        assert not closing.done()
        gate.opened.set()
        closed = await asyncio.wait_for(closing, SOON)
        assert (closed.finished, closed.timed_out) == (2, 0)
        assert all([(await session.result(call.id)).ok for call in calls])


@requirement("aomi.drain.2")
async def test_close_of_an_idle_session_does_not_wait() -> None:
    async with t.crib() as crib:
        session = await crib.open(owner="ada")
        assert await asyncio.wait_for(session.close(timeout=3600), SOON) == (0, 0, 0, 0)


@requirement("aomi.drain.3")
async def test_at_the_timeout_what_runs_and_queues_ends_with_the_exact_message(place: Place) -> None:
    stopped: list[str] = []

    @tool(read_only=True, concurrency=1)
    async def stream() -> AsyncIterator[int]:
        """Stream for ever."""
        try:
            yield 1
            yield 2
            await asyncio.Event().wait()
        finally:
            stopped.append("stream")

    async with place.crib(stream, limits=SHORT) as crib:
        session = await crib.open(owner="ada")
        running, queued = await session.submit("stream"), await session.submit("stream")
        await first(session, "output", running.id)
        closed = await session.close(timeout=0.05)
        assert (closed.finished, closed.timed_out) == (0, 2)
        for call in (running, queued):
            ended = failure(await session.result(call.id))
            assert (ended.code, ended.message) == ("timeout", LOGOUT)
            assert kinds(await log(session, call.id)).count("done") == 1
        assert values(await log(session, running.id)) == [1, 2]
        assert "started" not in kinds(await log(session, queued.id))
        assert stopped == ["stream"]


@requirement("aomi.drain.3")
async def test_a_child_that_still_runs_ends_with_the_same_message(place: Place) -> None:
    gate = Gate()

    @tool(read_only=True)
    async def leaf() -> None:
        """Take for ever."""
        await gate.passed()

    @tool(read_only=True)
    async def outer(ctx: Context) -> None:
        """Call a leaf."""
        await ctx.call("leaf", {})

    async with place.crib(outer, leaf, limits=SHORT) as crib:
        session = await crib.open(owner="ada")
        await session.submit("outer")
        await gate.wait()
        assert (await session.close(timeout=0)).timed_out == 2
        assert [failure(e.result).message for e in await session.completed() if e.result] == [LOGOUT, LOGOUT]


@requirement("aomi.drain.4")
async def test_a_once_call_that_had_started_says_that_it_may_have_run_and_a_queued_one_can_be_tried_again(
    place: Place,
) -> None:
    async with place.crib(pay, look, limits=CribLimits(per_session=2, cleanup_s=0.2)) as crib:
        session = await crib.open(owner="ada")
        paid, seen, queued = [await session.submit(name) for name in ("pay", "look", "pay")]
        await first(session, "output", paid.id)
        await session.close(timeout=0)
        results = [await session.result(call.id) for call in (paid, seen, queued)]
        assert [(failure(r).code, failure(r).message) for r in results] == [("timeout", LOGOUT)] * 3
        assert [failure(r).retryable for r in results] == [False, True, True]
        assert [r.metadata.get("may_have_run") for r in results] == [True, None, None]
        assert "check" in (failure(results[0]).hint or "")
        assert failure(results[2]).hint is None


@requirement("aomi.drain.5")
async def test_a_waiting_call_is_kept_and_can_be_answered_after_the_next_open(place: Place) -> None:
    async with place.crib(approve) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("approve")
        closed = await asyncio.wait_for(session.close(timeout=3600), SOON)  # it is not waited for
        assert (closed.waiting, closed.timed_out) == (1, 0)
        assert (await session.status(call.id)).status == "waiting"
        again = await crib.open("s-1", owner="ada")
        assert again is not session
        (question,) = await again.questions()
        await again.answer(question.id, "accept")
        assert (await again.result(call.id)).data == "approved"


@requirement("aomi.drain.5")
async def test_a_question_asked_while_a_session_closes_is_kept_too(place: Place) -> None:
    gate = Gate()

    @tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        await gate.passed()
        return str((await ctx.ask("Which?")).value)

    async with place.crib(ask) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("ask")
        await gate.wait()
        closing = asyncio.create_task(session.close())
        await first(session, "closing")
        gate.opened.set()
        assert await asyncio.wait_for(closing, SOON) == (0, 0, 1, 0)
        assert (await session.status(call.id)).status == "waiting"


@requirement("aomi.drain.5")
async def test_a_session_that_is_closed_answers_nothing_any_more() -> None:
    async with Crib([approve]) as crib:
        session = await crib.open(owner="ada")
        await session.submit("approve")
        (question,) = await session.questions()
        await session.close()
        with pytest.raises(Refused) as refused:
            await session.answer(question.id, "accept")
        assert refused.value.code == "unavailable"
        assert len(await session.questions()) == 1


@requirement("aomi.drain.6")
async def test_a_tool_that_ignores_cancellation_delays_close_by_5_s_and_is_not_recorded_later() -> None:
    gate, over = Gate(), asyncio.Event()

    @tool
    async def stubborn(ctx: Context) -> str:
        """Ignore it."""
        while not gate.opened.is_set():
            try:
                await gate.passed()
            except asyncio.CancelledError:
                pass
        ctx.output("later")
        over.set()
        return "later"

    async with t.crib(stubborn) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("stubborn")
        await gate.wait()
        closing = asyncio.create_task(session.close(timeout=30))
        await crib.clock.advance(34.9)
        assert not closing.done()
        await crib.clock.advance(0.2)
        assert (await closing).timed_out == 1
        events = await log(session)
        gate.opened.set()
        await asyncio.wait_for(over.wait(), SOON)
        await settled()
        assert await log(session) == events
        assert failure(await session.result(call.id)).message == LOGOUT


@requirement("aomi.drain.7")
async def test_close_returns_and_logs_what_it_found_and_a_second_one_joins_it(place: Place) -> None:
    gate = Gate()

    @tool
    async def ends() -> str:
        """End when it is let go."""
        await gate.passed()
        return "ended"

    async with place.crib(quick, ends, look, approve, limits=SHORT) as crib:
        session = await crib.open(owner="ada")
        done = await session.submit("quick")
        await session.result(done.id)
        await session.consume("model", (await session.status(done.id)).seq)
        for name in ("ends", "look", "approve"):
            await session.submit(name)
        await gate.wait()
        closing = asyncio.gather(session.close(timeout=1), session.close(timeout=60))
        await first(session, "closing")
        gate.opened.set()
        one, two = await closing
        assert one == two == (1, 1, 1, 2)
        events = await log(session)
        assert kinds(events).count("closing") == kinds(events).count("closed") == 1
        assert events[-1].fields == {"finished": 1, "timed_out": 1, "waiting": 1, "undelivered": 2}
        assert await session.close() == one
        assert len(await session.completed()) == 3  # reading goes on


@requirement("aomi.drain.7")
async def test_open_during_a_logout_waits_for_it_and_then_restores(place: Place) -> None:
    gate = Gate()

    @tool
    async def slow() -> str:
        """Take a while."""
        await gate.passed()
        return "finished"

    async with place.crib(slow) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("slow")
        await gate.wait()
        closing = asyncio.create_task(session.close())
        await first(session, "closing")
        opening = asyncio.create_task(crib.open("s-1", owner="ada"))
        await settled()
        assert not opening.done()
        gate.opened.set()
        again = await asyncio.wait_for(opening, SOON)
        await closing
        tail = kinds(await log(again))[-3:]
        assert tail == ["done", "closed", "opened"]
        assert [e.id for e in await again.completed("model")] == [call.id]


async def _lead_a_short_life(crib: Crib) -> "weakref.ref[Session]":
    session = await crib.open(owner="ada")
    for name in ("quick", "look", "pay", "approve"):
        await session.submit(name)
    await session.call("quick")
    await first(session, "done")
    await session.close(timeout=0)
    return weakref.ref(session)


@requirement("aomi.drain.8")
async def test_afterwards_the_process_holds_nothing_of_the_session(place: Place) -> None:
    async with place.crib(quick, look, pay, approve, limits=SHORT) as crib:
        await settled()
        tasks = asyncio.all_tasks()
        gone = await _lead_a_short_life(crib)
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None
        left = {task for task in asyncio.all_tasks() - tasks if "look_for_others" not in repr(task)}
        assert {task for task in left if "_spare" not in repr(task).lower()} == set()


@requirement("aomi.drain.10")
async def test_stopping_the_crib_is_no_logout(place: Place) -> None:
    gate = Gate()

    @tool(idempotent=True)
    async def slow() -> str:
        """Take a while."""
        await gate.passed()
        return "finished later"

    async with place.crib(slow, quick, pay) as crib:
        session = await crib.open("s-1", owner="ada")
        ended, left, paid = [await session.submit(name) for name in ("quick", "slow", "pay")]
        await gate.wait()
        await first(session, "output", paid.id)
        await crib.stop(grace=0.1)
    gate.opened.set()
    async with place.crib(slow, quick, pay) as crib:
        session = await crib.open("s-1", owner="ada")
        assert (await session.result(ended.id)).data == "finished"
        assert (await asyncio.wait_for(session.result(left.id), SOON)).data == "finished later"
        assert failure(await session.result(paid.id)).code == "unknown"
        events = await log(session)
        assert LOGOUT not in str(events)
        assert "closing" not in kinds(events)


@requirement("aomi.drain.10")
async def test_a_crib_that_stops_takes_no_more_calls() -> None:
    gate = Gate()

    @tool(read_only=True)
    async def slow() -> str:
        """Take a while."""
        await gate.passed()
        return "ok"

    async with Crib([slow]) as crib:
        session = await crib.open(owner="ada")
        call = asyncio.create_task(session.call("slow"))
        await gate.wait()
        stopping = asyncio.create_task(crib.stop(grace=SOON))
        await settled()
        assert failure(await session.call("slow")).code == "unavailable"
        gate.opened.set()
        assert (await call).data == "ok"
        await stopping


@requirement("aomi.drain.9")
async def test_there_is_nothing_to_save_at_the_end(place: Place) -> None:
    """What has finished is in the store before anybody closes anything."""
    async with place.crib(quick, look, limits=SHORT) as crib:
        session = await crib.open("s-1", owner="ada")
        done = await session.submit("quick")
        await follow(session, done.id)
        await session.submit("look")
        closing = asyncio.create_task(session.close(timeout=60))
        await first(session, "closing")
        await crib.stop(grace=0)  # in the middle of the logout
        closing.cancel()
    async with place.crib(quick) as crib:
        session = await crib.open("s-1", owner="ada")
        assert [e.result.data for e in await session.completed("model") if e.result and e.result.ok] == ["finished"]
        assert await session.ongoing() == []


async def test_a_logout_that_the_store_cut_short_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Crib([]) as crib:
        session = await crib.open("s", owner="ada")
        commit = crib.store.commit

        async def away(write: Any) -> Any:
            raise StoreUnavailable("it is away")

        monkeypatch.setattr(crib.store, "commit", away)
        with pytest.raises(StoreUnavailable):
            await session.close()
        monkeypatch.setattr(crib.store, "commit", commit)
        assert (await session.close()).waiting == 0
        assert [event.kind for event in await crib.store.read("s")].count("closed") == 1
