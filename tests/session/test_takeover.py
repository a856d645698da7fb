"""A call that another process takes over, while the one that had it still writes."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, log
from toolcrib import Change, Context, Crib, Result, tool
from toolcrib.events import StepTaken
from toolcrib.store import Row, Write, draft
from toolcrib.store.codec import Stored, encode
from toolcrib.testing.stores.fixture import claim, commit, finish


async def left_running(crib: Crib) -> None:
    """Leave a call of `ship` that a process had begun which is gone."""
    await crib.open("s", owner="ada")
    accepted = {"tool": "default.ship", "label": "", "args": {}, "by": {"kind": "user", "name": ""}}
    started = {"attempt": 1, "args": {}, "digest": "", "timeout_s": 60}
    row = Row("c1", "s", "default.ship", "idempotent", "running", 1, "w-gone", 1.0)
    events = [
        (1.0, "c1", "accepted", Stored(encode({**accepted, "digest": "", "effect": "idempotent"}))),
        (1.0, "c1", "started", Stored(encode(started))),
    ]
    assert await crib.store.commit(Write("s", [*events], row)) is None


@requirement("reliability.fence.9")
async def test_a_step_that_is_recorded_while_its_call_is_taken_over_is_not_taken_again(place: Place) -> None:
    heirs: list[Crib] = []
    labels: list[str] = []

    async def record() -> None:
        """Record the step as the last process does until it is fenced off: checks run before the call is claimed."""
        for heir in heirs:
            late = Write("s", [draft(2.0, "c1", StepTaken("label", "of the first"))])
            late.holder = "c1", 1
            assert await heir.store.commit(late) is None

    def label() -> str:
        labels.append("again")
        return "of the second"

    @tool(namespace="default", effect="idempotent", validate=record)
    async def ship(ctx: Context) -> str:
        """Ship."""
        printed: str = await ctx.step("label", label)
        return printed

    async with place.crib(ship) as crib:
        await left_running(crib)
    heirs.append(place.crib(ship))
    async with heirs[0] as crib:
        session = await crib.open("s", owner="ada")
        result = await session.result("c1")
    assert (result.data, labels) == ("of the first", [])


@requirement("reliability.fence.3", "reliability.fence.4")
@pytest.mark.parametrize("ended", [True, False])
async def test_what_a_call_has_called_ends_with_it_where_another_process_ended_it_and_else_goes_on(
    place: Place, ended: bool
) -> None:
    inner, outer = Gate(), Gate()
    stopped = asyncio.Event()

    @tool(effect="idempotent")
    async def work() -> str:
        """Work until the test says so."""
        try:
            await inner.passed()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "worked"

    @tool(effect="idempotent")
    async def lead(ctx: Context) -> None:
        """Have something done, and tell of it."""
        child = asyncio.ensure_future(ctx.call("work"))
        await outer.passed()
        ctx.output({"still": "here"})
        await child

    async with place.crib(work, lead) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("lead")
        await inner.wait()
        await outer.wait()
        row = await crib.store.call(call.id)
        assert row is not None
        other = await commit(crib.store, claim(row, "w-other"))
        if ended:
            await commit(crib.store, finish(other))
        outer.opened.set()
        (child,) = await crib.store.calls("s", parent=call.id)
        if ended:
            await asyncio.wait_for(stopped.wait(), SOON)
        inner.opened.set()
        result = await asyncio.wait_for(session.result(child.id), SOON)
    assert (result.ok, stopped.is_set()) == (not ended, ended)


@requirement("reliability.fence.2")
async def test_a_call_that_another_process_ended_changes_no_state_and_does_not_run_again(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    gate, runs = Gate(), list[int]()

    @tool(effect="idempotent", on_conflict="retry")
    async def put(ctx: Context) -> Result:
        """Change the state when the test says so."""
        runs.append(ctx.attempt)
        await gate.passed()
        return Result("put", changes=[Change("set", "cart", ["lamp"])])

    async with place.crib(put) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("put")
        await gate.wait()
        row = await crib.store.call(call.id)
        assert row is not None
        body = session.live[call.id].task
        assert body is not None
        await commit(crib.store, finish(row, "cancelled"))
        gate.opened.set()
        result = await asyncio.wait_for(session.result(call.id), SOON)
        await asyncio.wait_for(body, SOON)
        assert (result.failure and result.failure.code, runs) == ("cancelled", [1])
        assert [event.kind for event in await log(session, call.id)].count("done") == 1
        kept = await crib.store.session("s")
        assert kept is not None
        assert kept.revision == 0
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@requirement("reliability.fence.2")
async def test_who_ran_a_call_to_its_end_that_was_given_up_says_what_came_of_it_although_it_was_told(
    place: Place,
) -> None:
    first, second = Gate(), Gate()

    @tool(effect="once")
    async def pay(ctx: Context) -> str:
        """Pay, and tell of it on the way."""
        await first.passed()
        ctx.output({"still": "here"})
        await second.passed()
        return "paid"

    async with place.crib(pay) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("pay")
        await first.wait()
        row = await crib.store.call(call.id)
        assert row is not None
        live = session.live[call.id]
        assert live.task is not None
        await commit(crib.store, finish(row, "unknown"))
        first.opened.set()
        await second.wait()
        live.flush()
        await crib.store.flush()  # what the body told was refused by now
        assert live.fenced
        second.opened.set()
        await asyncio.wait_for(live.task, SOON)
        end = (await log(session, call.id))[-1]
        assert (end.kind, end.fields["ok"], end.fields["data"]) == ("settled", True, "paid")


async def taken_away(crib: Crib, call: str) -> None:
    """Have another process run a call from now on."""
    row = await crib.store.call(call)
    assert row is not None
    await commit(crib.store, claim(row, "w-other"))


def contact(ctx: Context, how: str, done: list[str]) -> Any:
    """Want something of the runtime."""
    ways: dict[str, Any] = {
        "output": lambda: ctx.output({"n": 2}),
        "text": lambda: ctx.output("two"),
        "progress": lambda: ctx.progress("two", 0.5),
        "activity": lambda: ctx.activity("work", {"n": 2}),
        "step": lambda: ctx.step("two", lambda: done.append("step")),
        "call": lambda: ctx.call("note"),
        "thread": lambda: asyncio.to_thread(ctx.output, {"n": 2}),
    }
    return ways[how]()


@requirement("reliability.fence.2")
@pytest.mark.parametrize("how", ["output", "text", "progress", "activity", "step", "call", "chunk", "thread"])
async def test_a_body_that_was_told_that_another_has_its_call_ends_at_its_next_contact(place: Place, how: str) -> None:
    first, second = Gate(), Gate()
    reached, done = list[str](), list[str]()

    @tool(effect="idempotent")
    async def note() -> None:
        """Note that it was called."""
        done.append("call")

    @tool(effect="idempotent")
    async def work(ctx: Context) -> None:
        """Tell something, and something more."""
        await first.passed()
        ctx.output({"n": 1})
        await second.passed()
        made = contact(ctx, how, done)
        if inspect.isawaitable(made):
            await made
        reached.append(how)

    @tool(effect="idempotent", name="work")
    async def yields(ctx: Context) -> AsyncIterator[int]:
        """Yield something, and something more."""
        await first.passed()
        ctx.output({"n": 1})
        await second.passed()
        yield 2
        reached.append(how)

    async with place.crib(yields if how == "chunk" else work, note) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("work")
        await first.wait()
        live = session.live[call.id]
        assert live.task is not None
        await taken_away(crib, call.id)
        first.opened.set()
        await second.wait()
        live.flush()
        await crib.store.flush()
        second.opened.set()
        await asyncio.wait({live.task}, timeout=SOON)
        kinds = [event.kind for event in await log(session, call.id)]
        row = await crib.store.call(call.id)
    assert (live.fenced, reached, done) == (True, [], [])
    assert kinds == ["accepted", "started", "started"]
    assert row is not None
    assert (row.state, row.worker) == ("running", "w-other")


@requirement("reliability.fence.2")
async def test_a_step_that_ends_after_another_process_took_its_call_is_not_recorded(place: Place) -> None:
    gate, reached = Gate(), list[str]()

    async def pay() -> str:
        await gate.passed()
        return "paid"

    @tool(effect="idempotent")
    async def work(ctx: Context) -> None:
        """Take a step."""
        reached.append(await ctx.step("pay", pay))

    async with place.crib(work) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("work")
        await gate.wait()
        live = session.live[call.id]
        assert live.task is not None
        await taken_away(crib, call.id)
        gate.opened.set()
        await asyncio.wait({live.task}, timeout=SOON)
        kinds = [event.kind for event in await log(session, call.id)]
    assert (live.fenced, reached) == (True, [])
    assert kinds == ["accepted", "started", "started"]
