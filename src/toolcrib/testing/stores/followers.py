"""Following: a reader that reads and waits sees every event once and in order, however often it comes back."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio
import random

import msgspec

from toolcrib.events import Event
from toolcrib.store import Store, Write
from toolcrib.store.codec import LARGE, PageLimit, encode, raw
from toolcrib.testing.index_check import read_all
from toolcrib.testing.stores.fixture import StoreFixture, commit, finish, line, new, note, submit


async def follow(store: Store, session: str, seen: list[Event], enough: int | None = None, limit: int = 1000) -> None:
    """Reads on where `seen` ends, and waits for more, until there is enough."""
    while enough is None or len(seen) < enough:
        after = seen[-1].seq if seen else 0
        page = await store.read(session, after, limit=limit)
        seen += page
        if not page:
            await store.wait(session, after)


async def write_until(store: Store, stop: asyncio.Event, name: str) -> int:
    """Writes one and two events at a time, now put, now committed; how many."""
    written = 0
    while not stop.is_set():
        events = [line(f"{name} {written + number}") for number in range(1 + written % 2)]
        written += len(events)
        if written % 5:
            store.put(Write("s", events))
        else:
            await store.commit(Write("s", events))
        await asyncio.sleep(0)
    await store.flush()
    return written


class FollowerTests(StoreFixture):
    """Reading and waiting."""

    async def test_a_waiting_reader_is_woken_by_a_commit(self) -> None:
        async with self.opened("s") as store:
            seen: list[Event] = []
            reader = asyncio.create_task(follow(store, "s", seen, 2))
            await store.commit(note("s", "one"))
            await store.commit(note("s", "two"))
            await reader
            assert [event.fields["text"] for event in seen] == ["one", "two"]

    async def test_parts_of_a_log_are_read_right_while_somebody_follows_it(self) -> None:
        async with self.opened("s") as store:
            follower = asyncio.create_task(store.wait("s", 1000))
            for _ in range(20):  # it has looked by then, and waits
                await store.flush()
            row = await commit(store, submit(new("c")))
            await store.commit(note("s", "own"))
            await store.commit(finish(row))
            await store.commit(note("s", "last"))
            log = await read_all(store, "s")
            for until in range(1, len(log) + 1):
                for after in range(until):
                    assert await store.read("s", after, until=until) == log[after:until]
                    assert await store.read("s", after, limit=until) == log[after : after + until]
            for after in range(len(log)):
                calls = [event for event in log[after:] if event.call == "c"]
                assert await store.read("s", after, call="c") == calls
                own = [event for event in log[after:] if event.call is None]
                assert await store.read("s", after, call="") == own
                for limit in range(1, len(log)):
                    assert await store.read("s", after, call="", limit=limit) == own[:limit]
                size = len(log[after].json)
                assert await store.read("s", after, extent=PageLimit(size)) == log[after : after + 1]
                assert await store.read("s", after, extent=PageLimit(size + 1)) == log[after : after + 2]
            assert await store.read("s", until=2, call="") == [event for event in log[:2] if event.call is None]
            follower.cancel()
            await asyncio.wait([follower])

    async def test_a_waiting_reader_is_woken_by_a_put(self) -> None:
        async with self.opened("s") as store:
            seen: list[Event] = []
            reader = asyncio.create_task(follow(store, "s", seen, 1))
            await asyncio.sleep(0)
            store.put(note("s", "soon"))
            await reader
            assert [event.fields["text"] for event in seen] == ["soon"]

    async def test_nobody_waits_for_what_is_there(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(), line()]))
            await asyncio.gather(store.wait("s", 0), store.wait("s", 1), store.wait("s", 0))
            again = await self.restarted(store)
            await asyncio.gather(again.wait("s", 1), again.wait("s", 0), again.wait("s", 1))

    async def test_nobody_waits_for_what_another_has_written(self) -> None:
        async with self.opened("s") as store:
            other = await self.second(store)
            early = asyncio.create_task(follow(store, "s", [], 2))
            await store.commit(note("s"))
            await store.wait("s", 0)
            await other.commit(note("s"))
            await early
            for _ in range(5):
                await store.wait("s", 1)

    async def test_a_reader_who_gives_up_takes_nothing_from_the_others(self) -> None:
        async with self.opened("s") as store:
            impatient = asyncio.create_task(store.wait("s", 0))
            patient = asyncio.create_task(store.wait("s", 0))
            await asyncio.sleep(0)
            impatient.cancel()
            await store.commit(note("s"))
            await patient
            await store.wait("s", 0)

    async def test_events_of_one_session_are_not_shown_in_another(self) -> None:
        async with self.opened("s", "t") as store:
            seen: list[Event] = []
            reader = asyncio.create_task(follow(store, "s", seen, 1))
            await store.commit(note("t", "other"))
            await store.commit(note("s", "own"))
            await reader
            assert [event.fields["text"] for event in seen] == ["own"]

    async def test_a_reader_far_behind_catches_up(self) -> None:
        async with self.opened("s") as store:
            seen: list[Event] = []
            await store.commit(note("s"))
            slow = asyncio.create_task(follow(store, "s", seen, 5001, limit=7))
            for number in range(100):
                await store.commit(Write("s", [line(f"{number}") for _ in range(50)]))
            await slow
            assert [event.seq for event in seen] == list(range(1, 5002))

    async def test_a_follower_gets_large_and_small_events_in_order_and_in_small_pages(self) -> None:
        async with self.opened("s") as store:
            seen: list[Event] = []
            reader = asyncio.create_task(follow(store, "s", seen, 90))
            large = raw(encode("x" * 3 * LARGE))
            for number in range(30):
                await store.commit(Write("s", [line(f"{number}"), line("l", args=large), line("m", more="y" * LARGE)]))
                page = await store.read("s", 0, extent=PageLimit(LARGE))
                assert sum(len(encode(event.fields)) for event in page) < 5 * LARGE
            await reader
            assert [event.seq for event in seen] == list(range(1, 91))
            assert [len(event.fields["args"]) for event in seen[1::3]] == [3 * LARGE] * 30
            assert [len(event.fields["more"]) for event in seen[2::3]] == [LARGE] * 30

    async def test_what_is_followed_is_what_is_written(self) -> None:
        async with self.opened("s") as store:
            seen: list[Event] = []
            reader = asyncio.create_task(follow(store, "s", seen, 3))
            await store.commit(Write("s", [line(raw=msgspec.Raw(b'{"a":[1,2.5,null]}')), line("ü", call="c")]))
            await store.commit(note("s", "last"))
            await reader
            again = await self.restarted(store)
            assert seen == await again.read("s")

    async def test_a_reader_that_reconnects_sees_every_event_once_and_in_order(self) -> None:
        await self._reconnect(seed=1, nodes=1)

    async def test_the_same_holds_where_two_stores_write_and_are_read(self) -> None:
        await self._reconnect(seed=2, nodes=2)

    async def _reconnect(self, seed: int, nodes: int) -> None:
        """Cut off a hundred times at random, in a read or in a wait, and at either of the stores."""
        chance, seen, stop = random.Random(seed), list[Event](), asyncio.Event()
        async with self.opened("s") as store:
            stores = [store] if nodes == 1 else [store, await self.second(store)]
            writers = [asyncio.create_task(write_until(stores[n % nodes], stop, f"w{n}")) for n in range(4)]
            for _ in range(100):
                try:
                    async with asyncio.timeout(chance.uniform(0, 0.01)):
                        await follow(chance.choice(stores), "s", seen, limit=chance.choice((1, 3, 1000)))
                except TimeoutError:
                    pass
            stop.set()
            written = sum(await asyncio.gather(*writers))
            await follow(chance.choice(stores), "s", seen, written)
            assert [event.seq for event in seen] == list(range(1, written + 1))
            assert seen == await read_all(await self.restarted(store), "s")

    async def test_many_readers_see_the_same(self) -> None:
        async with self.opened("s") as store:
            logs: list[list[Event]] = [[] for _ in range(20)]
            readers = [asyncio.create_task(follow(store, "s", log, 500, limit=1 + n)) for n, log in enumerate(logs)]
            for number in range(500):
                store.put(note("s", str(number)))
            await asyncio.gather(*readers)
            assert [event.seq for event in logs[0]] == list(range(1, 501))
            assert all(log == logs[0] for log in logs)

    async def test_a_closed_store_lets_its_readers_go(self) -> None:
        async with self.opened("s") as store:
            waiting = [asyncio.create_task(store.wait("s", 0)) for _ in range(3)]
            await asyncio.sleep(0)
            await self.restarted(store)
            await asyncio.wait(waiting)
