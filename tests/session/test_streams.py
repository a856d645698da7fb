"""The stream of a call: every reader gets every event once and in order, and no reader changes anything."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, follow, kinds, log, values
from toolcrib import Context, Crib, Event, Session, Tool, tool


@tool(read_only=True)
async def count(upto: int) -> AsyncIterator[int]:
    """Count."""
    for n in range(upto):
        yield n
        if n % 10 == 0:
            await asyncio.sleep(0)


@requirement("aomi.stream.1")
async def test_events_of_a_call_replay_follow_and_end_right_after_done(place: Place) -> None:
    gate = Gate()

    @tool(read_only=True)
    async def half() -> AsyncIterator[int]:
        """Stop half way."""
        yield 1
        await gate.passed()
        yield 2

    async with place.crib(half, count) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("half")
        await first(session, "output", call.id)
        seen: list[Event] = []
        async for event in session.events(call=call.id):
            seen.append(event)
            if event.kind == "output" and event.fields["value"] == 1:
                gate.opened.set()
                await session.call("count", {"upto": 3})  # events of other calls do not show
        assert kinds(seen) == ["accepted", "started", "output", "output", "done"]
        assert {event.call for event in seen} == {call.id}


@requirement("aomi.stream.1")
async def test_a_reader_goes_on_after_the_last_number_it_saw_also_past_the_end(place: Place) -> None:
    async with place.crib(count) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("count", {"upto": 5})
        events = await follow(session, call.id)
        for at in range(len(events)):
            assert await follow(session, call.id, after=events[at].seq) == events[at + 1 :]
        assert await follow(session, call.id, after=events[-1].seq + 100) == []


@requirement("aomi.stream.1")
async def test_without_a_call_a_reader_follows_the_session(place: Place) -> None:
    async with place.crib(count) as crib:
        session = await crib.open(owner="ada")

        async def read() -> list[Event]:
            seen = []
            async for event in session.events():
                seen.append(event)
                if event.kind == "notice":
                    break
            return seen

        reading = asyncio.create_task(read())
        for _ in range(3):
            await session.call("count", {"upto": 2})
        await session.notice("enough")
        seen = await asyncio.wait_for(reading, SOON)
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
        assert kinds(seen).count("done") == 3


@requirement("aomi.stream.2")
async def test_story_1_two_readers_have_all_200_chunks_though_one_is_cut_off_five_times(place: Place) -> None:
    chance = random.Random(5)
    cuts = sorted(chance.sample(range(1, 200), 5))
    async with place.crib(count) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("count", {"upto": 200})

        async def broken_line() -> list[Event]:
            seen: list[Event] = []
            for cut in [*cuts, 10_000]:
                async for event in session.events(after=seen[-1].seq if seen else 0, call=call.id):
                    seen.append(event)
                    if len(seen) >= cut:
                        break
            return seen

        one, two = await asyncio.wait_for(asyncio.gather(follow(session, call.id), broken_line()), SOON)
        assert values(one) == list(range(200))
        assert two == one
        assert kinds(one).count("done") == 1


@requirement("aomi.stream.2")
async def test_a_reader_that_stalls_slows_neither_the_tool_nor_other_readers(place: Place) -> None:
    async with place.crib(count) as crib:
        session = await crib.open(owner="ada")
        go_on = asyncio.Event()

        async def stall() -> list[Event]:
            seen = []
            async for event in session.events(call=call.id):
                seen.append(event)
                if event.kind == "started":
                    await go_on.wait()
            return seen

        call = await session.submit("count", {"upto": 3000})  # more than any buffer holds
        stalled = asyncio.create_task(stall())
        quick = await follow(session, call.id)
        assert values(quick) == list(range(3000))
        assert not stalled.done()
        go_on.set()
        assert await asyncio.wait_for(stalled, SOON) == quick


@requirement("aomi.stream.3")
async def test_accepted_is_enough_to_draw_the_card_and_shows_no_secret(place: Place) -> None:
    async def run(context: Any, values: Any) -> str:
        return "in"

    secret = {"type": "string", "x-toolcrib-kind": "secret"}
    schema = {"type": "object", "properties": {"user": {"type": "string"}, "password": secret}}
    login = Tool(name="log_in", description="Log in.", input_schema=schema, effect="read", run=run)
    async with place.crib(login) as crib:
        session = await crib.open(owner="ada")
        args = {"user": "ada", "password": "hunter2"}
        call = await session.submit("log_in", args, provider_id="toolu_1", background=True)
        accepted = (await follow(session, call.id))[0]
        assert accepted.call == call.id
        assert accepted.fields["label"] == "Log in"
        assert accepted.fields["args"] == {"user": "ada", "password": "•••"}
        assert accepted.fields["background"] is True
        assert accepted.fields["provider_id"] == "toolu_1"
        assert "hunter2" not in str(await log(session))


async def test_each_chunk_is_with_its_reader_before_the_next_one_with_fifty_streams_at_work(file_place: Place) -> None:
    """How soon it is there is measured by `make bench`; here no chunk waits for another, or for the end."""
    taken: dict[str, asyncio.Queue[None]] = {}

    @tool(read_only=True)
    async def tick(ctx: Context) -> AsyncIterator[int]:
        """Go on when the reader has what was yielded."""
        for n in range(20):
            yield n
            await taken[ctx.session].get()

    async def read(session: Session) -> list[int]:
        call, chunks = await session.submit("tick"), list[int]()
        async for event in session.events(call=call.id):
            if event.kind == "output":
                chunks.append(event.fields["value"])
                taken[session.id].put_nowait(None)
        return chunks

    async with file_place.crib(tick) as crib:
        sessions = [await crib.open(owner="ada") for _ in range(50)]
        taken |= {session.id: asyncio.Queue() for session in sessions}
        assert await asyncio.gather(*map(read, sessions)) == [list(range(20))] * 50


@requirement("aomi.stream.5")
async def test_progress_is_thinned_and_its_newest_survives_while_values_all_stay(place: Place) -> None:
    @tool(read_only=True)
    async def busy(ctx: Context) -> AsyncIterator[int]:
        """Tell a lot."""
        for n in range(500):
            ctx.progress(f"step {n}", n / 500)
            yield n
        ctx.progress("ready", 1)

    async with place.crib(busy) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("busy")
        events = await follow(session, call.id)
        told = [event.fields for event in events if event.kind == "progress"]
        assert len(told) <= 2 + 10 * (events[-1].at - events[0].at)
        assert (told[-1]["message"], told[-1]["progress"]) == ("ready", 1)
        assert values(events) == list(range(500))


@requirement("aomi.stream.6")
async def test_a_reader_and_a_caller_who_leave_change_nothing(place: Place) -> None:
    gate = Gate()

    @tool
    async def slow() -> str:
        """Take a while."""
        await gate.passed()
        return "done"

    async with place.crib(slow) as crib:
        session = await crib.open(owner="ada")
        caller = asyncio.create_task(session.call("slow"))
        await gate.wait()
        (entry,) = await session.ongoing()
        async for _ in session.events(call=entry.id):
            break
        caller.cancel()
        await asyncio.wait([caller])
        gate.opened.set()
        assert (await session.result(entry.id)).data == "done"


@requirement("aomi.stream.6")
async def test_a_caller_may_ask_that_its_call_ends_when_it_leaves(place: Place) -> None:
    gate = Gate()

    @tool(read_only=True)
    async def slow() -> None:
        """Take for ever."""
        await gate.passed()

    async with place.crib(slow) as crib:
        session = await crib.open(owner="ada")
        caller = asyncio.create_task(session.call("slow", cancel_on_disconnect=True))
        await gate.wait()
        (entry,) = await session.ongoing()
        caller.cancel()
        assert (await follow(session, entry.id))[-1].fields["failure"]["code"] == "cancelled"


@requirement("aomi.stream.6")
async def test_readers_end_when_the_crib_does() -> None:
    async with Crib([count]) as crib:
        session = await crib.open(owner="ada")
        reading = asyncio.create_task(log_for_ever(session))
        await session.call("count", {"upto": 1})
    assert kinds(await asyncio.wait_for(reading, SOON))[:1] == ["opened"]


async def log_for_ever(session: Session) -> list[Event]:
    return [event async for event in session.events()]
