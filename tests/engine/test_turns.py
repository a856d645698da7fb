"""Serial tools: who waits for its turn takes neither a slot nor a place from anybody who could run."""

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.engine.place import SOON_S, Log, cluster, result, until
from tests.requirements import requirement
from toolcrib import tool
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
