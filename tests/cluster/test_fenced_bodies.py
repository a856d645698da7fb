"""Bodies that go on after their worker was paused for longer than its lease: what they still cause is refused."""

import asyncio

import pytest

from tests.cluster import cribs
from tests.cluster.place import Place, kinds, log
from tests.requirements import requirement
from toolcrib import Session


async def calls_of(session: Session, tool: str) -> list[str]:
    """The ids of all calls of a tool that were accepted, in order."""
    return [
        event.call or ""
        for event in await log(session)
        if event.kind == "accepted" and event.fields["tool"].endswith(tool)
    ]


@requirement("reliability.fence.2", "reliability.fence.3")
@pytest.mark.parametrize(
    ("first", "then"),
    [("mail", "charge"), ("index", "charge"), ("peek", "charge"), ("mail", "index"), ("index", "peek")],
)
async def test_a_worker_that_was_paused_in_the_first_child_makes_no_second_one(
    place: Place, first: str, then: str
) -> None:
    one = await place.worker("w1")
    async with place.session() as session:
        call = await session.submit("order", {"n": 1, "first": first, "then": then, "wait": "go"})
        await place.happened(1, first)
        two = await place.worker("w2")
        one.halt()
        await place.happened(2, "order")
        place.open("go")
        assert (await asyncio.wait_for(session.result(call.id), 60)).ok
        one.go_on()
        await place.happened(1, "stopped")
        assert await one.stop() == 0
        assert [pid for what, _, pid in place.lines() if what == then] == [two.pid]
        assert len(await calls_of(session, then)) == 1
        assert kinds(await log(session), call.id)[-1] == "done"


@requirement("reliability.fence.3")
async def test_a_body_that_catches_everything_causes_nothing_more(place: Place) -> None:
    one = await place.worker("w1")
    async with place.session() as session:
        call = await session.submit("stubborn", {"n": 1, "wait": "go"})
        await place.happened(1, "stubborn")
        two = await place.worker("w2")
        one.halt()
        await place.happened(2, "stubborn")
        await session.cancel(call.id)
        before = await log(session)
        place.open("go")
        one.go_on()
        await place.happened(1, "ended")
        assert await one.stop() == 0
        assert await two.stop() == 0
        assert one.pid not in place.by("charge") | place.by("peek")
        assert await log(session) == before


@requirement("reliability.fence.3")
async def test_a_function_in_a_thread_is_stopped_where_it_next_uses_its_context(place: Place) -> None:
    one = await place.worker("w1")
    async with place.session() as session:
        call = await session.submit("loud", {"n": 1, "wait": "go"})
        await place.happened(1, "loud")
        two = await place.worker("w2")
        one.halt()
        await place.happened(2, "loud")
        one.go_on()
        await place.happened(1, "stopped")
        assert place.by("stopped") == {one.pid}
        place.open("go")
        assert (await asyncio.wait_for(session.result(call.id), 60)).data == "loud"
        assert place.by("ended") == {two.pid}


@requirement("reliability.fence.7")
async def test_a_note_of_a_body_that_another_worker_took_over_is_refused(place: Place) -> None:
    one = await place.worker("w1", crib="agency")
    async with cribs.agency(store=place.store, engine=f"{place.engine}&work=no") as crib:
        session = await crib.open("s", owner="ada")
        sending = asyncio.ensure_future(session.send("jot it down"))
        await place.happened(1, "jot")
        two = await place.worker("w2", crib="agency")
        one.halt()
        await place.happened(2, "jot")
        place.open("go")
        assert (await asyncio.wait_for(sending, 60)).answer == "done"
        one.go_on()
        await place.happened(2, "jotted")
        assert await one.stop() == 0
        notes = [event.fields["content"] for event in await log(session) if event.fields.get("role") == "note"]
        assert notes == [f"noted by {two.pid}"]
        assert place.by("left") == {two.pid}
