"""Watching: whoever watches all sessions hears which of them has more, whoever wrote it."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio

from toolcrib.store import Write
from toolcrib.testing.stores.fixture import StoreFixture, claim, new, note, submit


class WatchRecord:
    """The notifications of a watcher, one by one."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self.tell = self._queue.put_nowait

    async def of(self, *sessions: str) -> None:
        """Return when one of these was notified."""
        while await self._queue.get() not in sessions:
            pass

    def all(self) -> list[str]:
        """Return the notifications that were not taken yet."""
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]


class WatcherTests(StoreFixture):
    """Watching all sessions."""

    async def test_a_watcher_hears_of_what_is_put_and_committed_in_any_session(self) -> None:
        async with self.opened("s", "t") as store:
            heard = WatchRecord()
            stop = store.watch(heard.tell)
            await store.commit(note("s"))
            await heard.of("s")
            store.put(note("t"))
            await heard.of("t")
            await store.open("u", "bob", 0.0)
            await store.commit(note("u"))
            await heard.of("u")
            stop()

    async def test_what_a_watcher_hears_of_can_be_read(self) -> None:
        async with self.opened("s") as store:
            heard = WatchRecord()
            stop = store.watch(heard.tell)
            for number in range(1, 20):
                store.put(note("s"))
                await heard.of("s")
                assert len(await store.read("s")) == number
            stop()

    async def test_a_watcher_hears_of_what_another_store_writes(self) -> None:
        async with self.opened() as store:
            other, heard = await self.second(store), WatchRecord()
            await other.open("t", "ada", 0.0)
            stop = store.watch(heard.tell)
            for number in range(1, 4):
                heard.all()
                await other.commit(note("t"))
                await heard.of("t", "")
                assert len(await store.read("t")) == number
            stop()

    async def test_nothing_is_told_of_what_was_not_written(self) -> None:
        async with self.opened("s", "t") as store:
            heard = WatchRecord()
            stop = store.watch(heard.tell)
            assert await store.commit(claim(new("c", "t"))) is not None
            await store.commit(Write("t", []))
            await store.commit(note("s"))
            await heard.of("s")
            assert "t" not in heard.all()
            stop()

    async def test_each_watcher_is_told_until_it_stops(self) -> None:
        async with self.opened("s") as store:
            first, second = WatchRecord(), WatchRecord()
            stops = [store.watch(one.tell) for one in (first, second)]
            await store.commit(note("s"))
            await asyncio.gather(first.of("s"), second.of("s"))
            stops[0]()
            stops[0]()
            first.all()
            await store.commit(submit(new("c")))
            await second.of("s")
            assert first.all() == []
            stops[1]()
