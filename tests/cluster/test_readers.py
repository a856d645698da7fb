"""Acceptance 6: a reader that leaves and comes back, each time at any of two nodes, sees every event once, in order."""

import asyncio
import random
from contextlib import aclosing

from tests.cluster.place import Place, codes, log, results
from tests.requirements import requirement
from toolcrib import Event, Session

VISITS = 100


async def _visits(sessions: list[Session], chance: random.Random) -> list[Event]:
    """Reads a few events here, leaves, and reads on there, until the notice `end`."""
    seen: list[Event] = []
    for visit in range(VISITS + 1):
        most = chance.randint(1, 30) if visit < VISITS else 2**62
        async with aclosing(chance.choice(sessions).events(after=len(seen))) as events:  # type: ignore[type-var]
            async for event in events:
                seen.append(event)
                most -= 1
                if event.kind == "notice":
                    return seen
                if most == 0:
                    break
    return seen


@requirement("store.4", "engine.2")
async def test_a_reader_that_comes_back_a_hundred_times_at_two_nodes_sees_every_event_once(place: Place) -> None:
    await place.workers(2)
    async with place.session() as here, place.session() as there:
        readers = [asyncio.ensure_future(_visits([here, there], random.Random(seed))) for seed in range(3)]
        for n in range(20):
            calls = [node.submit("stream", {"upto": 20, "n": n}) for node in (here, there) for _ in range(4)]
            for call in await asyncio.gather(*calls):
                await asyncio.wait_for(here.result(call.id), 30)
        await there.notice("end")
        seen = await asyncio.wait_for(asyncio.gather(*readers), 30)
        events = await log(here)
        assert len(events) > 20 * 8 * 20
        assert all(read == events for read in seen)


@requirement("engine.2", "store.4")
async def test_all_who_ask_for_results_while_their_calls_end_are_told(place: Place) -> None:
    await place.workers(2)
    async with place.session() as session:
        for _ in range(30):  # one ends each millisecond, while all are asked for
            made = [session.submit("index", {"n": n, "pause": n / 1000}) for n in range(1, 61)]
            calls = {n: call.id for n, call in enumerate(await asyncio.gather(*made))}
            assert codes(await results(session, calls, 10)) == {"ok": 60}
