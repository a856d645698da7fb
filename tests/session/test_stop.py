"""Stop: interrupt and cancel reach what runs, queues and waits, and every call still has exactly one end."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, follow, kinds, log, settled
from toolcrib import Context, CribLimits, Refused, tool
from toolcrib import testing as t


@requirement("aomi.stop.1")
async def test_interrupt_cancels_what_is_not_in_the_background(place: Place) -> None:
    stopped: list[str] = []
    gates = {"front": Gate(), "back": Gate()}

    @tool
    async def work(name: str) -> None:
        """Work."""
        try:
            await gates[name].passed()
        finally:
            stopped.append(name)

    @tool(requires_confirmation=True)
    async def pay() -> None:
        """Pay."""

    async with place.crib(work, pay) as crib:
        session = await crib.open(owner="ada")
        front = await session.submit("work", {"name": "front"}, turn="t-1")
        back = await session.submit("work", {"name": "back"}, background=True)
        asked = await session.submit("pay", turn="t-1")
        for gate in gates.values():
            await gate.wait()
        assert await session.interrupt() == 2
        assert stopped == ["front"]
        assert [(await session.status(c.id)).status for c in (front, asked, back)] == [
            "cancelled",
            "cancelled",
            "running",
        ]
        assert await session.questions() == []
        assert (await first(session, "interrupted")).fields == {"background": False}
        assert await session.interrupt(background=True) == 1
        assert (await session.status(back.id)).status == "cancelled"


@requirement("aomi.stop.1")
async def test_interrupt_leaves_the_children_of_background_calls_alone(place: Place) -> None:
    gate = Gate()

    @tool(read_only=True)
    async def leaf() -> str:
        """Wait."""
        await gate.passed()
        return "leaf"

    @tool(background=True)
    async def export(ctx: Context) -> str:
        """Export."""
        return str((await ctx.call("leaf", {})).data)

    async with place.crib(leaf, export) as crib:
        session = await crib.open(owner="ada")
        id = (await session.call("export")).data["id"]
        await gate.wait()
        assert await session.interrupt() == 0
        gate.opened.set()
        assert (await session.result(id)).data == "leaf"


@requirement("aomi.stop.1")
async def test_interrupt_leaves_a_question_of_a_background_calls_child_open(place: Place) -> None:
    @tool(effect="idempotent")
    async def leaf(ctx: Context) -> str:
        """Ask."""
        return str((await ctx.ask("Really?", key="really")).value)

    @tool(effect="idempotent")
    async def middle(ctx: Context) -> str:
        """Have it asked."""
        return str((await ctx.call("leaf", {})).data)

    @tool(background=True, effect="idempotent")
    async def export(ctx: Context) -> str:
        """Export."""
        return str((await ctx.call("middle", {})).data)

    async with place.crib(leaf, middle, export) as crib:
        session = await crib.open(owner="ada")
        kept, ended = [(await session.call("export")).data["id"] for _ in range(2)]
        front = await session.submit("middle")
        async with asyncio.timeout(SOON):
            while len(await session.questions()) < 3:  # noqa: ASYNC110 - the next look is as good as an event
                await asyncio.sleep(0)
        await session.interrupt()
        assert (await session.status(front.id)).status == "cancelled"
        one, other = await session.questions()
        await session.answer(one.id, "accept", "yes")
        assert (await session.result(kept)).data == "yes"
        await session.interrupt(background=True)
        assert (await session.status(ended)).status == "cancelled"
        assert other.id not in [question.id for question in await session.questions()]


@requirement("aomi.stop.2")
async def test_cancel_answers_whether_it_stopped_something(place: Place) -> None:
    gate = Gate()

    @tool(concurrency=1)
    async def slow() -> None:
        """Take for ever."""
        await gate.passed()

    @tool(requires_confirmation=True)
    async def pay() -> None:
        """Pay."""

    async with place.crib(slow, pay) as crib:
        session = await crib.open(owner="ada")
        running, queued = await session.submit("slow"), await session.submit("slow")
        waiting = await session.submit("pay")
        await gate.wait()
        for call in (queued, waiting, running):
            assert await session.cancel(call.id) is True
            events = await log(session, call.id)
            assert events[-1].fields["failure"]["code"] == "cancelled"
            assert await session.cancel(call.id) is False
            assert await log(session, call.id) == events
        with pytest.raises(Refused, match="No such call"):
            await session.cancel("nothing")


@requirement("aomi.stop.2")
async def test_of_two_who_cancel_at_once_one_did_it(place: Place) -> None:
    gate = Gate()

    @tool
    async def slow() -> None:
        """Take for ever."""
        await gate.passed()

    async with place.crib(slow) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("slow")
        await gate.wait()
        assert sorted(await asyncio.gather(*(session.cancel(call.id) for _ in range(3)))) == [False, False, True]
        assert kinds(await log(session, call.id)).count("done") == 1


@requirement("aomi.stop.3")
async def test_a_cancelled_call_is_done_when_its_body_has_cleaned_up(place: Place) -> None:
    gate, cleaning, cleaned = Gate(), Gate(), asyncio.Event()

    @tool
    async def slow() -> None:
        """Clean up slowly."""
        try:
            await gate.passed()
        finally:
            await cleaning.passed()
            cleaned.set()

    async with place.crib(slow) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("slow")
        await gate.wait()
        cancelling = asyncio.create_task(session.cancel(call.id))
        await cleaning.wait()
        await settled()
        assert not cancelling.done()
        assert "done" not in kinds(await log(session, call.id))
        cleaning.opened.set()
        assert await cancelling
        assert cleaned.is_set()
        assert kinds(await log(session, call.id))[-1] == "done"


@requirement("aomi.stop.3")
async def test_a_body_that_will_not_stop_is_left_after_5_s_and_what_it_does_later_is_not_recorded() -> None:
    gate, over = Gate(), Gate()

    @tool
    async def stubborn(ctx: Context) -> str:
        """Ignore it."""
        while not gate.opened.is_set():
            try:
                await gate.passed()
            except asyncio.CancelledError:
                pass
        ctx.output("too late")
        ctx.progress("too late")
        over.reached.set()
        return "too late"

    async with t.crib(stubborn) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("stubborn")
        await gate.wait()
        cancelling = asyncio.create_task(session.cancel(call.id))
        await crib.clock.advance(4.9)
        assert not cancelling.done()
        await crib.clock.advance(0.2)
        assert await cancelling
        events = await log(session, call.id)
        assert events[-1].fields["failure"]["code"] == "cancelled"
        gate.opened.set()
        await over.wait()
        await settled()
        assert await log(session, call.id) == events


@requirement("aomi.stop.3")
async def test_a_plain_function_that_looks_is_stopped_and_one_that_does_not_is_left(place: Place) -> None:
    going, let_go = threading.Barrier(2), threading.Event()
    stopped: list[str] = []

    @tool(read_only=True)
    def looks(ctx: Context) -> None:
        """Look whether it should stop."""
        going.wait(SOON)
        try:
            while True:
                ctx.check()
                time.sleep(0.001)
        finally:
            stopped.append("looks")

    @tool(read_only=True)
    def blind() -> None:
        """Never look."""
        going.wait(SOON)
        let_go.wait(SOON)

    async with place.crib(looks, blind, limits=CribLimits(cleanup_s=0.2)) as crib:
        session = await crib.open(owner="ada")
        try:
            for name in ("looks", "blind"):
                call = await session.submit(name)
                await asyncio.to_thread(going.wait, SOON)
                assert await asyncio.wait_for(session.cancel(call.id), SOON)
                assert (await log(session, call.id))[-1].fields["failure"]["code"] == "cancelled"
                assert stopped == ["looks"]  # the one that looked has stopped before its call was done
        finally:
            let_go.set()


@requirement("aomi.stop.3")
async def test_nothing_follows_done(place: Place) -> None:
    gate = Gate()
    kept: list[Context] = []

    @tool(read_only=True)
    async def stream(ctx: Context) -> AsyncIterator[int]:
        """Stream."""
        kept.append(ctx)
        yield 1
        await gate.passed()

    async with place.crib(stream) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("stream")
        await gate.wait()
        assert await session.cancel(call.id)
        events = await follow(session, call.id)
        kept[0].output("late")
        kept[0].progress("late")
        kept[0].activity("late", {})
        await asyncio.sleep(0.2)  # longer than text is joined and progress held back
        assert await log(session, call.id) == events
        assert kinds(events) == ["accepted", "started", "output", "done"]


@requirement("aomi.stop.2")
async def test_a_call_cancelled_while_it_is_being_claimed_never_runs(file_place: Place) -> None:
    ran: list[int] = []

    @tool
    async def pay(n: int) -> None:
        """Pay."""
        ran.append(n)
        await asyncio.Event().wait()

    async with file_place.crib(pay) as crib:
        session = await crib.open(owner="ada")
        caller = asyncio.create_task(session.call("pay", {"n": 1}))
        await asyncio.sleep(0)  # it is accepted, and its start is on the way to the disk
        (live,) = session.live.values()
        assert not live.in_body
        assert await session.cancel(live.id)
        result = await caller
        assert result.failure is not None
        assert result.failure.code == "cancelled"
        assert ran == []
