"""Orphaned and closed streams: whatever breaks, the call has one end, its chunks stay, and nothing comes after it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, follow, kinds, log, settled, values
from toolcrib import Context, Crib, CribLimits, StreamClosed, Tool, ToolFailure, tool
from toolcrib import testing as t


def remote(effect: Any) -> Tool:
    """A tool of a source whose other side goes away after one chunk."""

    async def run(context: Any, given: Any) -> AsyncIterator[Any]:
        yield {"step": 1}
        raise StreamClosed

    return Tool(name=f"far_{effect}", description="Far away.", effect=effect, mode="stream", run=run, source="remote")


@requirement("aomi.orphan.1")
async def test_a_generator_that_returns_succeeds_and_one_that_raises_keeps_its_chunks(place: Place) -> None:
    @tool(read_only=True)
    async def stream(ends: str) -> AsyncIterator[int]:
        """End somehow."""
        yield 1
        if ends == "failing":
            raise ToolFailure("failed", "its own error")
        if ends == "raising":
            raise RuntimeError("not meant")

    async with place.crib(stream) as crib:
        session = await crib.open(owner="ada")
        codes = []
        for ends in ("well", "failing", "raising"):
            events = await follow(session, (await session.submit("stream", {"ends": ends})).id)
            assert values(events) == [1]
            codes.append(events[-1].fields.get("failure", {}).get("code"))
        assert codes == [None, "failed", "internal"]


@requirement("aomi.orphan.1")
async def test_a_remote_stream_that_closes_is_unavailable_or_unknown_where_it_may_have_had_its_effect(
    place: Place,
) -> None:
    async with place.crib(remote("read"), remote("once")) as crib:
        session = await crib.open(owner="ada")
        read = await follow(session, (await session.submit("far_read")).id)
        once = await follow(session, (await session.submit("far_once")).id)
        assert values(read) == values(once) == [{"step": 1}]
        ended = read[-1].fields["failure"]
        assert (ended["code"], ended["message"]) == ("unavailable", "Stream closed before it finished")
        assert once[-1].fields["failure"]["code"] == "unknown"


@requirement("aomi.orphan.1")
async def test_silence_ends_a_tool_that_said_how_long_it_may_be_silent() -> None:
    more = asyncio.Queue[str]()

    @tool(read_only=True, idle_timeout=5, timeout=1000)
    async def stream() -> AsyncIterator[str]:
        """Stream now and then."""
        while True:
            yield await more.get()

    @tool(read_only=True, idle_timeout=5, timeout=1000)
    async def tell(ctx: Context) -> None:
        """Tell now and then."""
        while True:
            ctx.output({"n": await more.get()})

    async with t.crib(stream, tell) as crib:
        session = await crib.open(owner="ada")
        for name in ("stream", "tell"):
            call = await session.submit(name)
            for n in range(4):
                await crib.clock.advance(4)
                await more.put(str(n))
            await crib.clock.advance(4)
            assert (await session.status(call.id)).status == "streaming"
            await crib.clock.advance(6.1)
            ended = (await session.result(call.id)).failure
            assert ended is not None
            assert (ended.code, ended.message) == ("timeout", "No output for 5 s")
            assert len(values(await log(session, call.id))) == 4


@requirement("aomi.orphan.1")
async def test_a_client_that_is_gone_leaves_its_call_to_any_other_client_until_it_expires() -> None:
    async with t.crib() as crib:
        session = await crib.open("s-1", owner="ada")
        await session.offer([{"name": "pick", "description": "Pick one in the browser."}])
        answered, expired = await session.submit("client.pick"), await session.submit("client.pick")
        await session.close()  # the browser is gone
        other = await crib.open("s-1", owner="ada")
        asked = {question.call: question for question in await other.questions()}
        await other.answer(asked[answered.id].id, "accept", "blue")
        assert (await other.result(answered.id)).data == "blue"
        await crib.clock.advance(14 * 60)
        assert (await other.status(expired.id)).status == "waiting"
        await crib.clock.advance(61)
        ended = (await other.result(expired.id)).failure
        assert ended is not None
        assert ended.code == "timeout"


@requirement("aomi.orphan.1", "aomi.orphan.4")
async def test_after_a_process_is_gone_its_calls_are_taken_up_at_the_next_start(place: Place) -> None:
    gates = {name: Gate() for name in ("once", "idempotent", "read")}

    def make(effect: Any) -> Tool:
        async def body() -> str:
            """Take a while."""
            await gates[effect].passed()
            return f"{effect} again"

        made: Tool = tool(name=effect, effect=effect)(body)
        return made

    tools = [make(effect) for effect in gates]
    async with place.crib(*tools) as crib:
        session = await crib.open("s-1", owner="ada")
        calls = {effect: await session.submit(effect) for effect in gates}
        for gate in gates.values():
            await gate.wait()
        await crib.stop(grace=0)
    for gate in gates.values():
        gate.opened.set()
    async with place.crib(*tools) as crib:
        session = await crib.open("s-1", owner="ada")
        ends = {effect: await asyncio.wait_for(session.result(call.id), SOON) for effect, call in calls.items()}
        assert ends["once"].failure is not None
        assert ends["once"].failure.code == "unknown"
        assert [ends[effect].data for effect in ("idempotent", "read")] == ["idempotent again", "read again"]
        for call in calls.values():
            assert kinds(await log(session, call.id)).count("done") == 1


@requirement("aomi.orphan.2")
async def test_after_done_chunks_and_progress_are_refused_and_counted() -> None:
    kept: list[Context] = []

    @tool(read_only=True)
    async def quick(ctx: Context) -> int:
        """Return at once."""
        kept.append(ctx)
        ctx.output("in time")
        return 1

    async with Crib([quick]) as crib:
        session = await crib.open(owner="ada")
        await session.call("quick")
        events, before = await log(session), crib.pipeline.refused_after_done
        kept[0].output("late")
        kept[0].progress("late")
        kept[0].output({"late": True})
        await asyncio.to_thread(kept[0].output, "late, from a thread")
        await asyncio.sleep(0.2)
        assert await log(session) == events
        assert crib.pipeline.refused_after_done - before == 4


@requirement("aomi.orphan.2")
async def test_a_generator_that_goes_on_after_its_call_was_given_up_is_not_heard(place: Place) -> None:
    going, blocked, over = threading.Event(), threading.Event(), threading.Event()

    @tool(read_only=True)
    def stream() -> Iterator[int]:
        """Stream in a thread."""
        yield 1
        going.set()
        blocked.wait(SOON)
        try:
            yield 2
        finally:
            over.set()

    async with place.crib(stream, limits=CribLimits(cleanup_s=0.05)) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("stream")
        assert await asyncio.to_thread(going.wait, SOON)
        assert await session.cancel(call.id)
        events = await log(session, call.id)
        before = crib.pipeline.refused_after_done
        blocked.set()
        assert await asyncio.to_thread(over.wait, SOON)
        assert await log(session, call.id) == events
        assert values(events) == [1]
        assert crib.pipeline.refused_after_done == before + 1


@requirement("aomi.orphan.3")
@pytest.mark.parametrize("threaded", [False, True])
async def test_a_generator_left_early_is_closed_and_its_finally_blocks_run(place: Place, threaded: bool) -> None:
    closed, go_on = threading.Event(), threading.Event()

    async def stream() -> AsyncIterator[int]:
        """Stream for ever."""
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.set()

    def stream_in_thread() -> Iterator[int]:
        """Stream for ever."""
        try:
            while True:
                yield 1
                go_on.wait(0.01)
        finally:
            closed.set()

    body = stream_in_thread if threaded else stream
    async with place.crib(tool(read_only=True)(body)) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit(body.__name__)
        await first(session, "output", call.id)
        assert await session.cancel(call.id)
        assert closed.is_set()
        assert (await log(session, call.id))[-1].fields["failure"]["code"] == "cancelled"


@requirement("aomi.orphan.3")
async def test_a_generator_that_will_not_close_is_left_after_5_s() -> None:
    gate, let_go = Gate(), asyncio.Event()

    @tool(read_only=True)
    async def stream() -> AsyncIterator[int]:
        """Never close."""
        try:
            yield 1
            await gate.passed()
        finally:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    pass

    async with t.crib(stream) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("stream")
        await gate.wait()
        cancelling = asyncio.create_task(session.cancel(call.id))
        await crib.clock.advance(4.9)
        assert not cancelling.done()
        await crib.clock.advance(0.2)
        assert await cancelling
        let_go.set()
        await settled()


@requirement("aomi.orphan.4")
async def test_at_open_a_call_whose_process_is_gone_is_taken_up_too(place: Place) -> None:
    gate = Gate()

    @tool
    async def pay() -> None:
        """Pay."""
        await gate.passed()

    other = place.crib(pay)
    async with place.crib(pay) as crib:
        await other.start()
        theirs = await other.open("s-1", owner="ada")
        running = await theirs.submit("pay")
        await gate.wait()
        await other.stop(grace=0)
        session = await crib.open("s-1", owner="ada")
        ended = (await session.result(running.id)).failure
        assert ended is not None
        assert ended.code == "unknown"
        assert await session.ongoing() == []


@requirement("aomi.orphan.4")
async def test_a_question_that_expired_while_nobody_was_there_is_ended_at_the_next_start(place: Place) -> None:
    @tool(requires_confirmation=True, wait_s=60)
    async def pay() -> None:
        """Pay."""

    clock = t.FakeClock()
    async with place.crib(pay, clock=clock) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("pay")
        await session.close()
    await clock.advance(3600)
    async with place.crib(pay, clock=clock) as crib:
        session = await crib.open("s-1", owner="ada")
        assert (await first(session, "done", call.id)).fields["failure"]["code"] == "timeout"


@requirement("aomi.orphan.4")
async def test_a_caller_who_leaves_in_the_middle_of_submit_leaves_no_call_that_nobody_runs(place: Place) -> None:
    @tool
    async def work() -> str:
        """Work."""
        return "done"

    async with place.crib(work) as crib:
        session = await crib.open(owner="ada")
        for pauses in range(6):
            caller = asyncio.create_task(session.submit("work"))
            for _ in range(pauses):
                await asyncio.sleep(0)
            caller.cancel()
            await asyncio.wait([caller])
        await session.close()
        events = await log(session)
        assert kinds(events).count("accepted") == kinds(events).count("done")
        assert await session.unresolved() == []
