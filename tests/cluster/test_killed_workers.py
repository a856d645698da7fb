"""Acceptance 2: a worker is killed with 300 calls running, half of which may happen only once."""

import asyncio

from tests.cluster.place import Place, kinds, log, results, submit, those, until
from tests.requirements import requirement

SLOTS = ("--slots", "400")


@requirement("engine.2", "engine.4", "store.3")
async def test_killed_with_300_calls_running_all_end_and_nothing_that_is_once_happens_twice(place: Place) -> None:
    one = await place.worker("w1", *SLOTS)
    async with place.session() as session:
        early = await submit(session, "charge", range(50), wait="early")
        charges = await submit(session, "charge", range(50, 120), wait="go")
        mails = await submit(session, "mail", range(30), wait="go")
        indexed = await submit(session, "index", range(150), wait="go")
        await place.happened(300, "charge", "mail", "index")
        two = await place.worker("w2", *SLOTS)
        place.open("early")
        await asyncio.wait_for(session.result(early[0]), 30)
        one.kill()
        killed = asyncio.get_running_loop().time()
        await until(lambda: two.pid in place.by("index"), 30)
        print(f"taken over after {asyncio.get_running_loop().time() - killed:.1f} s, the lease is {place.lease:g} s")
        place.open("go")

        found = await results(session, early | charges)
        assert those(found, "ok") <= early.keys(), "who was at the gate has not ended well"
        assert those(found, "ok") | those(found, "unknown") == found.keys()
        assert set(place.effects("charge").values()) == {1}
        assert {result.data for result in (await results(session, mails)).values()} == {f"found {n}" for n in mails}
        assert set(place.effects("mail").values()) == {1}
        assert those(await results(session, indexed), "ok") == indexed.keys()
        assert set(place.effects("index").values()) == {2}
        events = await log(session)
        for call in [*early.values(), *charges.values(), *mails.values(), *indexed.values()]:
            assert kinds(events, call).count("done") == 1


@requirement("store.3", "engine.2")
async def test_a_call_that_runs_again_repeats_neither_its_steps_nor_the_calls_it_made(place: Place) -> None:
    one = await place.worker("w1")
    async with place.session() as session:
        errands = await submit(session, "errand", range(20), wait="go")
        await place.happened(20, "charge")
        await place.worker("w2")
        one.kill()
        await place.happened(40, "errand")
        place.open("go")
        found = await results(session, errands)
        assert {result.data for result in found.values()} == {"unknown"}, "what became of the charge nobody knows"
        for kind in ("step", "charge"):
            assert place.effects(kind) == dict.fromkeys(errands, 1)
        assert await session.crib.store.calls(session.id, ("queued", "running", "waiting")) == []


@requirement("engine.6", "store.3")
async def test_a_call_that_kills_its_worker_is_given_up_and_the_calls_of_others_go_on(place: Place) -> None:
    running = await place.workers(2)
    async with place.session() as session:
        poisoned = await session.submit("poison", {"n": 1})

        async def others() -> int:
            done = 0
            while True:
                result = await session.result((await session.submit("index", {"n": done})).id)
                assert result.ok, result.failure
                done += 1

        beside = asyncio.ensure_future(others())
        for death in range(3):
            await until(lambda: any(worker.code is not None for worker in running))
            (dead,) = [worker for worker in running if worker.code is not None]
            running.remove(dead)
            running.append(await place.worker(f"again-{death}"))
        result = await asyncio.wait_for(session.result(poisoned.id), 30)
        assert result.failure is not None
        assert (result.failure.code, place.effects("poison")[1]) == ("failed", 3)
        assert (await session.result((await session.submit("charge", {"n": 1})).id)).ok
        assert not beside.done()
        beside.cancel()
        assert sum(place.effects("indexed").values()) > 3
        assert all(worker.code is None for worker in running)


@requirement("store.3")
async def test_a_call_that_is_once_and_kills_its_worker_is_unknown_after_the_first(place: Place) -> None:
    one, two = await place.workers(2)
    async with place.session() as session:
        result = await asyncio.wait_for(session.result((await session.submit("poison_once", {"n": 1})).id), 30)
        assert result.failure is not None
        assert result.failure.code == "unknown"
        assert place.effects("poison_once") == {1: 1}
        assert [worker.code for worker in (one, two)].count(None) == 1
