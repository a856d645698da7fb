"""Workers that others take for dead, and that come back: what they did counts, what they would repeat does not."""

import asyncio

from tests.cluster.place import Place, kinds, log, logged, submit
from tests.requirements import requirement


@requirement("store.3")
async def test_the_result_of_a_worker_that_was_taken_for_dead_replaces_unknown(place: Place) -> None:
    one = await place.worker("w1")
    async with place.session() as session:
        call = (await submit(session, "charge", [1], wait="go"))[1]
        await place.happened(1, "charge")
        await place.worker("w2")
        one.halt()
        given_up = await asyncio.wait_for(session.result(call), 30)
        assert given_up.failure is not None
        assert given_up.failure.code == "unknown"
        place.open("go")
        one.go_on()
        await logged(session, call, "settled")
        assert (await session.result(call)).data == "charged 1"
        assert kinds(await log(session), call) == ["accepted", "started", "done", "settled"]
        assert place.effects("charge") == {1: 1}


@requirement("store.3")
async def test_a_worker_whose_call_was_taken_over_writes_nothing_more_of_it(place: Place) -> None:
    one = await place.worker("w1")
    async with place.session() as session:
        call = (await submit(session, "index", [1], wait="go"))[1]
        await place.happened(1, "index")
        two = await place.worker("w2")
        one.halt()
        await place.happened(2, "index")
        place.open("go")
        assert (await asyncio.wait_for(session.result(call), 30)).ok
        one.go_on()
        await place.happened(2, "indexed")
        assert await one.stop() == 0
        assert place.by("index") == {one.pid, two.pid}
        assert kinds(await log(session), call) == ["accepted", "started", "started", "done"]


@requirement("engine.3")
async def test_a_tool_that_blocks_its_whole_process_keeps_the_lease(place: Place) -> None:
    await place.workers(2)
    async with place.session() as session:
        call = await session.submit("block", {"n": 1, "seconds": 2.5 * place.lease})
        assert (await asyncio.wait_for(session.result(call.id), 30)).data == "blocked 1"
        assert place.effects("block") == {1: 1}


@requirement("store.3", "store.4")
async def test_a_stream_that_was_taken_over_gets_nothing_from_who_streamed_before(place: Place) -> None:
    one = await place.worker("w1")
    async with place.session() as session:
        call = await session.submit("stream", {"upto": 100, "wait": "go"})
        await logged(session, call.id, "output")
        two = await place.worker("w2")
        one.halt()
        await place.happened(2, "stream")
        one.go_on()
        place.open("go")
        assert (await asyncio.wait_for(session.result(call.id), 30)).data == 100
        assert await one.stop() == 0
        assert [pid for _, _, pid in place.lines()] == [one.pid, two.pid]
        numbers = [event.fields["value"]["number"] for event in await log(session) if event.kind == "output"]
        assert numbers == [*range(50), *range(100)]


@requirement("engine.2")
async def test_a_call_of_a_worker_that_hears_nothing_is_cancelled_when_its_lease_is_over(place: Place) -> None:
    one = await place.worker("w1")
    async with place.session() as session:
        call = (await submit(session, "charge", [1], wait="go"))[1]
        await place.happened(1, "charge")
        one.halt()
        assert await asyncio.wait_for(session.cancel(call), 30)
        result = await session.result(call)
        assert result.failure is not None
        assert (result.failure.code, result.metadata) == ("cancelled", {"may_have_run": True})
        place.open("go")
        one.go_on()
        assert await one.stop() == 0
        assert kinds(await log(session), call) == ["accepted", "started", "done"]
        assert place.effects("charge") == {1: 1}
