"""Watching all sessions: heard of when it happens, whoever wrote it, and free while nothing happens."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from tests.serve.api.place import Sent, desk, until
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.events import Event
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Principal
from toolcrib.store import SessionRow
from toolcrib.store.memory import MemoryStore
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.testing.stores.fixture import note


class Counted(MemoryStore):
    """A store that counts how often it is looked into."""

    looks = 0

    async def read(self, *given: Any, **more: Any) -> list[Event]:
        """Counts."""
        self.looks += 1
        return await super().read(*given, **more)

    async def sessions(self, *given: Any, **more: Any) -> list[SessionRow]:
        """Counts."""
        self.looks += 1
        return await super().sessions(*given, **more)


async def test_the_store_is_not_looked_into_while_nothing_happens() -> None:
    store = Counted()
    async with desk(Crib(TOOLS, store=store)) as served:
        session = await served.open()
        async with served.stream("/live") as live:
            await served.call(session, "add", {"a": 1})
            await until(live, "done")
            await asyncio.sleep(0.1)  # the look that found it ends
            before = store.looks
            await asyncio.sleep(0.5)
            assert store.looks == before
            await served.call(session, "add", {"a": 2})
            assert (await until(live, "done")).data["data"]["data"] == 3


async def test_what_another_process_writes_is_heard(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with desk(Crib(TOOLS, store=url)) as served:
        other = SqliteStore(url)
        await other.start("other")
        try:
            async with served.stream("/live") as live:
                for text in ("one", "two", "three"):
                    await other.open("theirs", "anonymous", time.time())
                    await other.commit(note("theirs", text, at=time.time()))
                    assert (await until(live, "notice")).data["data"]["text"] == text
        finally:
            await other.close()


async def test_each_event_of_many_sessions_is_heard_once_and_in_the_order_of_its_log(tmp_path: Path) -> None:
    async with desk(Crib(TOOLS, store=f"sqlite:///{tmp_path}/log.db")) as served:
        sessions = [await served.open() for _ in range(8)]
        async with served.stream("/live") as live, served.stream("/live") as second:
            await asyncio.gather(*(served.call(session, "add", {"a": n}) for n in range(5) for session in sessions))
            for stream in (live, second):
                seen: list[Sent] = []
                while sum(event.kind == "done" for event in seen) < 40:
                    seen.append(await anext(stream))
                for session in sessions:
                    seqs = [event.data["seq"] for event in seen if event.data["session"] == session]
                    assert seqs == sorted(set(seqs))
                    assert len(seqs) >= 10


async def test_nobody_watches_once_the_last_stream_is_closed() -> None:
    store = MemoryStore()
    async with desk(Crib(TOOLS, store=store)) as served:
        session = await served.open()
        for _ in range(2):
            async with served.stream("/live") as live:
                await served.call(session, "add", {"a": 1})
                await until(live, "done")
            async with asyncio.timeout(60):
                while store._watchers.all:  # noqa: ASYNC110 - nobody tells that a stream was let go
                    await asyncio.sleep(0.02)


async def emptied(store: MemoryStore) -> float:
    """Sweeps all there is; the time after that."""
    now = time.time() + 60.0
    assert await store.sweep(now, now)
    return now


async def test_a_session_that_was_swept_and_made_anew_is_told_to_its_owner_of_now_alone() -> None:
    store, keys = MemoryStore(), {name: new_key() for name in ("ada", "bob")}
    guard = ApiKeys({kept: Principal(name, auth="key") for name, (_, kept) in keys.items()})
    async with desk(Crib(TOOLS, store=store), guard=guard) as served:
        ada, bob = (served.as_(keys[name][0]) for name in ("ada", "bob"))
        async with ada.stream("/live") as hers, bob.stream("/live") as his:
            await ada.open("main")
            for number in range(5):
                await ada.call("main", "add", {"a": number})
            async for event in hers:
                if event.kind == "done" and event.data["data"]["data"] == 5:
                    break
            now = await emptied(store)
            await store.open("main", "bob", now)
            await store.commit(note("main", "his", at=now))
            told = await until(his, "notice")
            assert (told.data["data"]["text"], told.data["seq"]) == ("his", 1)
            await ada.open("other")
            await ada.call("other", "add", {"a": 1})
            while (event := await anext(hers)).data["session"] != "other":
                assert event.data["data"].get("text") != "his"


async def test_a_reader_that_came_back_hears_all_of_a_session_that_was_made_anew() -> None:
    store = MemoryStore()
    async with desk(Crib(TOOLS, store=store)) as served:
        session = await served.open("main")
        async with served.stream("/live") as live:
            await served.call(session, "add", {"a": 1})
            first = await until(live, "done")
        async with served.stream("/live", **{"Last-Event-ID": first.id}) as live:
            await served.call(session, "add", {"a": 2})
            await until(live, "done")
            now = await emptied(store)
            await store.open("main", "anonymous", now)
            await store.commit(note("main", "new", at=now))
            assert (await until(live, "notice")).data["seq"] == 1
