"""Serial tools: who waits for its turn takes neither a slot nor a place from anybody who could run."""

import asyncio
from typing import Any, cast

import asyncpg
import pytest

from tests.engine.place import SOON_S, Log, cluster, result, until
from tests.requirements import requirement
from toolcrib import Crib, tool
from toolcrib.store.shared import SharedStore, TakenCall
from toolcrib.types import CribLimits


@pytest.fixture
def urls(postgres_url: str, nats_url: str) -> tuple[str, str]:
    return postgres_url, nats_url


def turns(log: Log, node: str) -> list[Any]:
    """One that runs alone in its session, and one that does not."""

    @tool(namespace="shop", idempotent=True, serial=True)
    async def alone(order: str) -> str:
        """One at a time."""
        log.note("", order)
        await log.gate(order).wait()
        return order

    @tool(namespace="shop", idempotent=True)
    async def beside(order: str) -> str:
        """As many as there are places."""
        log.note("", order)
        await log.gate(order).wait()
        return order

    return [alone, beside]


def shared(crib: Crib) -> SharedStore:
    """The store of a node, which others use too."""
    return cast(SharedStore, crib.store)


async def parked(url: str, number: int) -> None:
    """Waits until so many calls are put aside."""
    connection = await asyncpg.connect(url)

    async def there() -> bool:
        return bool(await connection.fetchval("SELECT count(*) FROM calls WHERE parked") == number)

    try:
        await until(there)
    finally:
        await connection.close()


@requirement("engine.5")
async def test_calls_that_wait_for_their_turn_hold_no_slot(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, kit=turns, slots=4) as (api, _):
        ada = await api.open("a", owner="ada", namespaces=["shop"])
        bob = await api.open("b", owner="bob", namespaces=["shop"])
        calls = [await ada.submit("shop.alone", {"order": f"A{number}"}) for number in range(8)]
        await log.until_ran(("", "A0"))
        log.gate("B").set()
        async with asyncio.timeout(SOON_S):
            assert (await bob.call("shop.beside", {"order": "B"})).ok
        log.release()
        assert all([(await result(ada, call.id)).ok for call in calls])
        begun = [order for _, order in log.ran if order != "B"]
        assert begun == [f"A{number}" for number in range(8)]


@requirement("engine.5")
async def test_a_place_that_is_free_goes_to_a_call_whose_turn_it_is(urls: tuple[str, str]) -> None:
    log = Log()
    async with cluster(urls, log, ("w1", "w2"), kit=turns, limits=CribLimits(per_session=2)) as (api, *_):
        session = await api.open("s", owner="ada", namespaces=["shop"])
        calls = [await session.submit("shop.alone", {"order": "alone 1"})]
        calls.append(await session.submit("shop.beside", {"order": "beside 1"}))
        await log.until_ran(("", "alone 1"), ("", "beside 1"))
        calls += [await session.submit("shop.alone", {"order": f"alone {number}"}) for number in (2, 3, 4)]
        await parked(urls[0], 3)
        calls.append(await session.submit("shop.beside", {"order": "beside 2"}))
        await parked(urls[0], 4)
        log.gate("beside 1").set()
        await log.until_ran(("", "beside 2"))  # although three others came before it
        log.gate("alone 1").set()
        await log.until_ran(("", "alone 2"))
        log.release()
        assert all([(await result(session, call.id)).ok for call in calls])


@requirement("engine.5")
async def test_serial_calls_run_in_the_order_in_which_they_were_accepted(
    urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    async with cluster(urls, log, kit=turns) as (api, worker):
        asked, answered = asyncio.Event(), asyncio.Event()
        take = shared(worker).take

        async def take_late(ids: list[str]) -> dict[str, TakenCall]:
            """Answers the first look after all others, as a database may that is asked over several connections."""
            if not asked.is_set():
                asked.set()
                await answered.wait()
            return await take(ids)

        monkeypatch.setattr(worker.store, "take", take_late)
        session = await api.open("s", owner="ada", namespaces=["shop"])
        calls = [await session.submit("shop.alone", {"order": "A0"})]
        await asyncio.wait_for(asked.wait(), SOON_S)
        calls.append(await session.submit("shop.alone", {"order": "A1"}))
        await parked(urls[0], 1)
        answered.set()
        await log.until_ran(("", "A0"))
        log.release()
        assert all([(await result(session, call.id)).ok for call in calls])
        assert [order for _, order in log.ran] == ["A0", "A1"]
