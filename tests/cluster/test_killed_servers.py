"""Acceptance 3: NATS, then Postgres with all its backends, is killed under 300 running calls. All end, once."""

import asyncio
import shutil

import pytest

from tests.cluster.place import Place, again, codes, halt, kinds, log, results, submit, until
from tests.requirements import requirement
from toolcrib import Event, Session
from toolcrib.errors import StoreUnavailable
from toolcrib.testing.services import NatsServer, PostgresServer

SLOTS = ("--slots", "200")


async def _running(place: Place, session: Session) -> tuple[dict[int, str], dict[int, str]]:
    """300 calls that run on two workers, half of them once, and 100 more that found no place."""
    charges = await submit(session, "charge", range(200), wait="go")
    indexed = await submit(session, "index", range(200), wait="go")
    await place.happened(300, "charge", "index")
    return charges, indexed


@requirement("engine.4")
@pytest.mark.parametrize("data", ["kept", "lost"])
async def test_killed_nats_loses_no_call_and_doubles_none(frail: Place, own_nats: NatsServer, data: str) -> None:
    await frail.workers(2, "--slots", "150")
    async with frail.session() as session:
        charges, indexed = await _running(frail, session)
        own_nats.kill()
        meanwhile = await submit(session, "charge", range(1000, 1020))
        frail.open("go")
        await asyncio.wait_for(session.result(charges[0]), 30)  # what runs needs no NATS to end
        if data == "lost":
            shutil.rmtree(own_nats.folder / "data")
        own_nats.start()
        assert codes(await results(session, charges | meanwhile)) == {"ok": 220}
        assert codes(await results(session, indexed)) == {"ok": 200}
        assert frail.effects("charge") == dict.fromkeys([*charges, *meanwhile], 1)
        assert frail.effects("index") == dict.fromkeys(indexed, 1)
        events = await log(session)
        assert all(kinds(events, call)[-1] == "done" for call in (*charges.values(), *indexed.values()))


async def _read(session: Session, seen: list[Event]) -> None:
    """Follows a session to the notice `end`; whoever is cut off comes back where he was."""
    while True:
        try:
            async for event in session.events(after=len(seen)):
                seen.append(event)
                if event.kind == "notice":
                    return
        except StoreUnavailable:
            await asyncio.sleep(0.1)


@requirement("store.9", "store.4")
async def test_killed_postgres_loses_nothing_that_was_acknowledged(frail: Place, own_postgres: PostgresServer) -> None:
    await frail.workers(2, *SLOTS)
    async with frail.session() as session, frail.session() as there:
        seen: list[Event] = []
        reading = asyncio.ensure_future(_read(there, seen))
        charges, indexed = await _running(frail, session)
        acknowledged: dict[int, str] = {}

        async def load() -> None:
            for n in range(1000, 100_000):
                acknowledged[n] = (await again(lambda n=n: session.submit("charge", {"n": n}, key=f"k{n}"))).id  # type: ignore[misc]

        loading = asyncio.ensure_future(load())
        await until(lambda: len(acknowledged) > 20)
        own_postgres.kill()
        before = len(acknowledged)
        frail.open("go")
        await asyncio.sleep(2)  # away for as long as the lease of the nodes
        await asyncio.to_thread(own_postgres.start)
        await until(lambda: len(acknowledged) > before + 20)
        loading.cancel()
        await asyncio.wait([loading])
        found = await results(session, charges | acknowledged)
        print(f"{len(acknowledged)} acknowledged: {codes(found)}")
        assert codes(found) == {"ok": len(found)}
        assert codes(await results(session, indexed)) == {"ok": 200}
        effects = frail.effects("charge")
        assert {n: effects[n] for n in found} == dict.fromkeys(found, 1)
        assert max(effects.values()) == 1
        await session.notice("end")
        await asyncio.wait_for(reading, 30)
        events = await log(session)
        assert seen == events
        for call in (*charges.values(), *indexed.values(), *acknowledged.values()):
            assert kinds(events, call).count("done") == 1


@requirement("store.9")
@pytest.mark.parametrize("halted", [False, True], ids=["killed", "halted"])
async def test_after_postgres_was_away_for_longer_than_a_lease_nobody_takes_the_living_for_dead(
    frail: Place, own_postgres: PostgresServer, halted: bool
) -> None:
    await frail.workers(3, "--slots", "100")
    async with frail.session() as session:
        charges = await submit(session, "charge", range(60), wait="go")
        indexed = await submit(session, "index", range(60), wait="go")
        await frail.happened(120, "charge", "index")
        for _ in range(2):
            if halted:
                await halt(own_postgres, 1.5 * frail.lease)
            else:
                own_postgres.kill()
                await asyncio.sleep(1.5 * frail.lease)
                await asyncio.to_thread(own_postgres.start)
            await asyncio.sleep(frail.lease)  # long enough for anybody to take something over
        frail.open("go")
        assert codes(await results(session, charges)) == {"ok": 60}
        assert codes(await results(session, indexed)) == {"ok": 60}
        assert frail.effects("charge") == dict.fromkeys(charges, 1)
        assert frail.effects("index") == dict.fromkeys(indexed, 1)


@requirement("store.9", "store.3")
async def test_a_worker_that_died_while_postgres_was_away_is_found_dead_when_it_is_back(
    frail: Place, own_postgres: PostgresServer
) -> None:
    one = await frail.worker("w1")
    async with frail.session() as session:
        charges = await submit(session, "charge", range(20), wait="go")
        indexed = await submit(session, "index", range(20), wait="go")
        await frail.happened(40, "charge", "index")
        two = await frail.worker("w2")
        own_postgres.kill()
        one.kill()
        frail.open("go")
        await asyncio.to_thread(own_postgres.start)
        assert codes(await results(session, charges)) == {"unknown": 20}
        assert codes(await results(session, indexed)) == {"ok": 20}
        assert frail.effects("charge") == dict.fromkeys(charges, 1)
        assert two.pid in frail.by("index")
