"""A call runs where its tool is, in the version it was accepted for; labels are for people alone."""

import asyncio

from tests.cluster.place import Place, codes, node, results, submit
from tests.requirements import requirement


@requirement("engine.2", "engine.6")
async def test_a_worker_that_lacks_a_tool_leaves_its_calls_for_one_that_comes_later(place: Place) -> None:
    await place.worker("bare", crib="bare")
    async with place.session() as session:
        charges = await submit(session, "charge", range(3))
        await node(session.crib, lambda found: "default.charge" in found.facts.get("missing", ()))
        peeked = await submit(session, "peek", range(10))
        assert codes(await results(session, peeked)) == {"ok": 10}
        assert not place.effects("charge")
        full = await place.worker("full")
        assert codes(await results(session, charges)) == {"ok": 3}
        assert place.by("charge") == {full.pid}
        assert place.effects("charge") == dict.fromkeys(charges, 1)


@requirement("engine.6")
async def test_a_call_that_was_accepted_for_one_version_of_a_tool_runs_on_a_worker_that_has_it(place: Place) -> None:
    begun = [place.begin("newer", crib="newer"), place.begin("older")]
    _, older = [await worker.ready() for worker in begun]
    async with place.session() as session:
        for label in ("newer", "older"):
            await node(session.crib, lambda found, label=label: found.facts.get("label") == label)  # type: ignore[misc]
        painted = await results(session, await submit(session, "paint", range(4)))
        assert {result.data for result in painted.values()} == {"Paint it red."}
        assert place.by("paint") == {older.pid}


@requirement("engine.6")
async def test_two_workers_of_one_label_both_work(place: Place) -> None:
    begun = [place.begin("twin", "--slots", "10") for _ in range(2)]
    pids = {(await worker.ready()).pid for worker in begun}
    async with place.session() as session:
        charges = await submit(session, "charge", range(20), wait="go")
        await place.happened(20, "charge")
        assert place.by("charge") == pids
        place.open("go")
        assert codes(await results(session, charges)) == {"ok": 20}
        one = await node(session.crib, lambda found: found.facts.get("label") == "twin")
        await node(session.crib, lambda found: found.facts.get("label") == "twin" and found.name != one.name)


@requirement("engine.2")
async def test_a_question_outlives_the_worker_that_asked_it_and_is_answered_at_another_node(place: Place) -> None:
    one = await place.worker("w1")
    async with place.session() as here, place.session() as there:
        call = await here.submit("ask", {"n": 1})
        async with asyncio.timeout(30):
            async for event in here.events(call=call.id):
                if event.kind == "waiting":
                    break
        one.kill()
        (question,) = await there.questions()
        await there.answer(question.id, "accept", "yes")
        await place.worker("w2")
        assert (await asyncio.wait_for(here.result(call.id), 30)).data == "yes 1"
        assert place.effects("ask") == {1: 1}
