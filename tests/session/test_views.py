"""The three lists of a session are views of its log: functions of the events, with cursors that move on their own."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, log
from toolcrib import Context, CribLimits, Session, ToolFailure, tool
from toolcrib.testing import check_index
from toolcrib.types import Entry


@tool
async def work(ctx: Context, way: str) -> str:
    """Do one of many things."""
    await asyncio.sleep(0)
    if way == "fail":
        raise ToolFailure("failed", "no")
    if way == "hang":
        await asyncio.Event().wait()
    if way == "ask":
        return str((await ctx.ask("Which?")).value)
    if way == "stream":
        ctx.output({"n": 1})
    return way


@tool(requires_confirmation=True)
async def pay() -> int:
    """Pay."""
    return 1


async def lists(session: Session, at: int | None = None) -> dict[str, list[Entry]]:
    return {
        "unresolved": await session.unresolved(at),
        "ongoing": await session.ongoing(at),
        "completed": await session.completed(at=at),
    }


async def lead_a_life(session: Session, seed: int) -> None:
    """Some calls of each kind, answered, cancelled and left alone."""
    chance = random.Random(seed)
    calls = [await session.submit("pay")]
    for _ in range(20):
        way = chance.choice(["fine", "fail", "hang", "ask", "stream", "pay"])
        calls.append(await (session.submit("pay") if way == "pay" else session.submit("work", {"way": way})))
        for question in await session.questions():
            if chance.random() < 0.4:
                await session.answer(question.id, chance.choice(["accept", "decline"]), "x")
        if chance.random() < 0.3:
            await session.cancel(chance.choice(calls).id)


@requirement("aomi.view.1", "aomi.view.2")
@pytest.mark.parametrize("seed", range(3))
async def test_at_every_number_each_accepted_call_is_in_exactly_one_list(place: Place, seed: int) -> None:
    limits = CribLimits(per_session=4, cleanup_s=0.1)
    async with place.crib(work, pay, limits=limits) as crib:
        session = await crib.open("s-1", owner="ada")
        await lead_a_life(session, seed)
        events = await log(session)
        for at in range(1, len(events) + 1):
            accepted = [e.call for e in events[:at] if e.kind == "accepted"]
            found = [entry.id for entries in (await lists(session, at)).values() for entry in entries]
            assert sorted(found) == sorted(c for c in accepted if c)
        before = {at: await lists(session, at) for at in range(0, len(events), 7)}
        await session.interrupt(background=True)
        await check_index(crib.store, session.id)
    async with place.crib(limits=limits) as crib:  # a new process, which knows none of the tools
        again = await crib.open("s-1", owner="ada")
        assert {at: await lists(again, at) for at in before} == before


@requirement("aomi.view.3")
async def test_an_entry_tells_all_about_a_call(place: Place) -> None:
    async with place.crib(work) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("work", {"way": "fine"}, label="Do it", provider_id="p-1", background=True)
        result = await session.result(call.id)
        (entry,) = await session.completed()
        accepted, started, done = await log(session, call.id)
        assert entry == Entry(
            id=call.id,
            tool="default.work",
            label="Do it",
            status="succeeded",
            background=True,
            provider_id="p-1",
            accepted_at=accepted.at,
            started_at=started.at,
            done_at=done.at,
            seq=done.seq,
            result=result,
        )


@requirement("aomi.view.1", "aomi.view.2", "aomi.view.3")
async def test_every_status_is_what_the_log_says(place: Place) -> None:
    gate = Gate()

    @tool(read_only=True, concurrency=1)
    async def slow() -> AsyncIterator[int]:
        """Stream."""
        await gate.passed()
        yield 1
        await asyncio.Event().wait()

    async with place.crib(slow, work, pay) as crib:
        session = await crib.open(owner="ada")
        running, queued = await session.submit("slow"), await session.submit("slow")
        asked, waiting = await session.submit("pay"), await session.submit("work", {"way": "ask"})
        await first(session, "waiting", waiting.id)
        await gate.wait()
        found = {e.id: (name, e.status) for name, es in (await lists(session)).items() for e in es}
        assert found == {
            running.id: ("ongoing", "running"),
            queued.id: ("unresolved", "queued"),
            asked.id: ("unresolved", "waiting"),
            waiting.id: ("ongoing", "waiting"),
        }
        assert await lists(session) == await lists(session, at=len(await log(session)))
        await check_index(crib.store, session.id)  # what the fold of the log says, the index says
        gate.opened.set()
        await first(session, "output", running.id)
        assert (await session.status(running.id)).status == "streaming"
        await session.cancel(running.id)
        await session.cancel(queued.id)
        await session.call("work", {"way": "fail"})
        await session.call("work", {"way": "fine"})
        ended = [entry.status for entry in await session.completed()]
        assert ended == ["cancelled", "cancelled", "failed", "succeeded"]


@requirement("aomi.view.4")
async def test_completed_gives_what_lies_past_a_cursor_in_order_of_completion_and_moves_nothing(place: Place) -> None:
    gates = [Gate(), Gate(), Gate()]

    @tool(read_only=True)
    async def wait(number: int) -> int:
        """Wait."""
        await gates[number].passed()
        return number

    async with place.crib(wait) as crib:
        session = await crib.open("s-1", owner="ada")
        calls = [await session.submit("wait", {"number": n}) for n in range(3)]
        for number in (2, 0, 1):
            gates[number].opened.set()
            await session.result(calls[number].id)
        for _ in range(2):
            assert [e.result.data for e in await session.completed("model") if e.result] == [2, 0, 1]
        second = (await session.completed("model"))[1].seq
        assert await session.consume("model", second) == second
        assert [e.result.data for e in await session.completed("model") if e.result] == [1]
        assert len(await session.completed("ui")) == 3
        assert await session.consume("model", 1) == second  # never back
    async with place.crib(wait) as crib:
        session = await crib.open("s-1", owner="ada")
        assert [e.result.data for e in await session.completed("model") if e.result] == [1]
        assert len(await session.completed("ui")) == 3


@requirement("aomi.view.5")
async def test_views_answer_while_calls_run_wait_and_drain(place: Place) -> None:
    async with place.crib(work, pay, limits=CribLimits(cleanup_s=0.1)) as crib:
        session = await crib.open(owner="ada")
        hanging, _, _ = [await session.submit("work", {"way": way}) for way in ("hang", "ask", "fine")]
        await session.submit("pay")
        await first(session, "done")
        closing = asyncio.create_task(session.close(timeout=3600))
        await first(session, "closing")
        found = await asyncio.wait_for(lists(session), SOON)
        assert not closing.done()
        assert [len(entries) for entries in found.values()] == [1, 2, 1]
        assert await session.cancel(hanging.id)
        await closing
