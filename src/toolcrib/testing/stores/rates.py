"""Rates: so many at once and one more each interval, whoever spends."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio

from toolcrib.store import Store
from toolcrib.testing.stores.fixture import AT, StoreFixture

RATE = ("tool:pay", 2.0, 3)
"""Three at once, then one each two seconds."""

FINE = ("tool:look", 0.1, 7)
"""An interval that no binary number is equal to."""


async def spent(store: Store, *rates: tuple[str, float, int], at: float = AT, times: int = 1) -> list[float]:
    """What spending so often at one moment gives, to the microsecond."""
    return [round(await store.spend(list(rates), at), 5) for _ in range(times)]


class RateTests(StoreFixture):
    """Spending."""

    async def test_a_rate_gives_its_burst_and_then_tells_how_long_to_wait(self) -> None:
        async with self.opened() as store:
            assert await spent(store, RATE, times=5) == [0, 0, 0, 2, 2]

    async def test_a_refused_spender_took_nothing(self) -> None:
        async with self.opened() as store:
            assert await spent(store, RATE, times=20) == [0, 0, 0, *[2] * 17]
            assert await spent(store, RATE, at=AT + 2, times=2) == [0, 2]

    async def test_a_rate_fills_up_again_to_its_burst_and_no_further(self) -> None:
        async with self.opened() as store:
            await spent(store, RATE, times=3)
            assert await spent(store, RATE, at=AT + 4, times=3) == [0, 0, 2]
            assert await spent(store, RATE, at=AT + 1000, times=4) == [0, 0, 0, 2]

    async def test_who_waits_as_long_as_told_is_served_and_who_comes_before_is_not(self) -> None:
        async with self.opened() as store:
            now = AT
            assert await spent(store, FINE, times=7) == [0] * 7
            for _ in range(50):
                wait = await store.spend([FINE], now)
                assert 0.0999 < wait <= 0.1001
                assert await store.spend([FINE], now + wait - 0.001) > 0
                now += wait
                assert await store.spend([FINE], now) == 0

    async def test_rates_of_other_keys_are_apart(self) -> None:
        async with self.opened() as store:
            other = ("owner:ada", 2.0, 3)
            await spent(store, RATE, times=3)
            assert await spent(store, other, times=4) == [0, 0, 0, 2]

    async def test_of_several_rates_all_give_or_none(self) -> None:
        async with self.opened() as store:
            few, many = ("session:s", 10.0, 1), ("owner:ada", 1.0, 3)
            assert await spent(store, few, many, times=4) == [0, 10, 10, 10]
            assert await spent(store, many, times=3) == [0, 0, 1]

    async def test_of_several_rates_the_longest_wait_is_told(self) -> None:
        async with self.opened() as store:
            rates = [("a", 5.0, 1), ("b", 60.0, 1), ("c", 1.0, 1)]
            assert await spent(store, *rates) == [0]
            assert await spent(store, *rates, at=AT + 2) == [58]
            assert await spent(store, *rates, at=AT + 60) == [0]

    async def test_of_many_spenders_at_once_the_burst_is_served(self) -> None:
        async with self.opened() as store:
            stores = [store, await self.second(store)]
            rates = [("tool:pay", 2.0, 7), ("owner:ada", 1.0, 100)]
            waits = await asyncio.gather(*(stores[n % 2].spend(rates, AT) for n in range(40)))
            assert sorted(waits) == [0] * 7 + [2] * 33

    async def test_a_rate_survives_a_restart(self) -> None:
        async with self.opened() as store:
            await spent(store, RATE, times=3)
            again = await self.restarted(store)
            assert await spent(again, RATE) == [2]

    async def test_without_a_time_the_clock_of_the_store_counts(self) -> None:
        async with self.opened() as store:
            rate = ("tool:slow", 3600.0, 1)
            assert await store.spend([rate]) == 0
            assert 3500 < await store.spend([rate]) <= 3600

    async def test_a_sweep_forgets_no_rate_that_is_in_use(self) -> None:
        async with self.opened() as store:
            await spent(store, RATE, times=3)
            await store.sweep(AT, AT + 1)
            assert await spent(store, RATE, at=AT + 1) == [1]
            await store.sweep(AT, AT + 6)
            assert await spent(store, RATE, at=AT + 6, times=4) == [0, 0, 0, 2]
