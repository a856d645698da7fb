"""What happens when the database goes away: nothing told is lost, nothing is written twice, nobody is told a lie."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psutil
import pytest

from tests.cluster.place import halted
from tests.requirements import requirement
from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.events import Event
from toolcrib.store import Write
from toolcrib.store.postgres import connection, group_commit
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.testing.index_check import check_index, read_all
from toolcrib.testing.services import PostgresServer, execute
from toolcrib.testing.stores.fixture import AT, claim, finish, line, new, note, submit, texts
from toolcrib.testing.stores.followers import follow

CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE application_name = 'toolcrib' AND pid <> pg_backend_pid()"
)


@asynccontextmanager
async def opened(url: str, worker: str = "a") -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.start(worker)
    try:
        await store.open("s", "ada", AT)
        yield store
    finally:
        await store.close()


async def in_thread(work: Callable[..., object], *values: object) -> None:
    """What blocks is done aside, since the stores live in this loop."""
    await asyncio.to_thread(work, *values)


class Load:
    """Calls that live their lives while the database comes and goes, and what was told of each step."""

    def __init__(self, *stores: PostgresStore) -> None:
        self.stores = stores
        self.told: list[str] = []
        self.refused: list[str] = []
        self._enough = asyncio.Event()
        self._stop = False

    async def _live(self, worker: int) -> None:
        number = 0
        while not self._stop:
            number += 1
            store, id = self.stores[(worker + number) % len(self.stores)], f"c{worker}-{number}"
            row = new(id, f"s{worker % 4}")
            steps = [submit(row), claim(row)]
            assert steps[1].row is not None
            for step in [*steps, finish(steps[1].row)]:
                if not await self._told(store, step, f"{id} {step.events[0][2]}"):
                    break

    async def _told(self, store: PostgresStore, step: Write, name: str) -> bool:
        try:
            assert await store.commit(step) is None, name
        except StoreUnavailable:
            self.refused.append(name)
            return False
        self.told.append(name)
        self._enough.set()
        return True

    async def more(self, count: int = 50) -> None:
        """Returns when so many more steps have been told."""
        goal = len(self.told) + count
        while len(self.told) < goal:
            self._enough.clear()
            await self._enough.wait()

    async def through(self, trouble: Callable[[], Awaitable[None]]) -> None:
        """Runs while the trouble lasts, and a little after it; then all that was told is there, and nothing else."""
        for number in range(4):
            await self.stores[0].open(f"s{number}", "ada", AT)
        workers = [asyncio.create_task(self._live(worker)) for worker in range(16)]
        async with asyncio.timeout(120):
            await self.more()
            await trouble()
            await self.more()
            self._stop = True
            await asyncio.gather(*workers)
        logs = [await read_all(self.stores[0], f"s{number}") for number in range(4)]
        for number, log in enumerate(logs):
            assert [event.seq for event in log] == list(range(1, len(log) + 1))
            await check_index(self.stores[-1], f"s{number}")
        written = [f"{event.call} {event.kind}" for log in logs for event in log]
        assert sorted(written) == sorted(self.told)
        assert not set(self.refused) & set(written)


@requirement("store.9", "store.3")
async def test_what_was_told_is_there_once_though_connections_are_cut_all_the_time(postgres_url: str) -> None:
    async with opened(postgres_url) as one, opened(postgres_url, "b") as other:
        load = Load(one, other)

        async def cut() -> None:
            for _ in range(25):
                await in_thread(execute, postgres_url, CUT)
                await load.more(3)

        await load.through(cut)


@requirement("store.9")
async def test_what_was_told_is_there_once_though_the_server_is_killed(own_postgres: PostgresServer) -> None:
    async with opened(own_postgres.url) as one, opened(own_postgres.url, "b") as other:
        load = Load(one, other)

        async def kill() -> None:
            for _ in range(3):
                await in_thread(own_postgres.kill)
                await in_thread(own_postgres.start)
                await load.more(20)

        await load.through(kill)


@requirement("store.9")
async def test_a_restart_of_the_server_is_waited_for(own_postgres: PostgresServer) -> None:
    async with opened(own_postgres.url) as store:
        await in_thread(own_postgres.stop)
        store.put(note("s", "put"))
        waiting = [asyncio.create_task(store.commit(note("s", "committed")))]
        reading = asyncio.create_task(store.session("s"))
        await in_thread(own_postgres.start)
        assert await asyncio.gather(*waiting) == [None]
        assert (await reading) is not None
        assert await texts(store) == ["put", "committed"]


@requirement("store.9")
async def test_a_database_that_stays_away_is_an_error_and_puts_are_kept(
    own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connection, group_commit):
        monkeypatch.setattr(module, "AWAY_S", 0.3)
    async with opened(own_postgres.url) as store:
        await in_thread(own_postgres.stop)
        store.put(note("s", "kept"))
        for work in (store.commit(note("s", "refused")), store.flush(), store.read("s"), store.open("t", "ada", AT)):
            with pytest.raises(StoreUnavailable):
                await work
        assert await store.alive("a")
        for module in (connection, group_commit):
            monkeypatch.setattr(module, "AWAY_S", 60)  # a busy machine may need longer to connect again
        await in_thread(own_postgres.start)
        await store.commit(note("s", "after"))
        assert await texts(store) == ["kept", "after"]


async def test_a_store_lets_go_of_a_database_that_is_away(
    own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connection, group_commit):
        monkeypatch.setattr(module, "AWAY_S", 0.3)
    async with opened(own_postgres.url) as store:
        store.put(note("s", "lost"))
        await in_thread(own_postgres.stop)
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.commit(note("s"))


@requirement("store.9")
async def test_a_server_that_freezes_writes_nothing_twice(
    own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 0.3)
    async with opened(own_postgres.url) as store:
        load = Load(store)

        async def freeze() -> None:
            assert own_postgres.pid is not None
            family = [own_postgres.pid, *(child.pid for child in psutil.Process(own_postgres.pid).children())]
            for pid in family:
                os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(1)  # longer than an answer may take
            for pid in family:
                os.kill(pid, signal.SIGCONT)

        await load.through(freeze)


async def test_a_batch_that_waits_for_a_lock_is_written_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 0.2)
    async with opened(postgres_url) as store:
        holder = await connection.DatabaseAddress(postgres_url).connect(60)
        async with holder.transaction():
            await holder.execute("SELECT 1 FROM sessions FOR UPDATE")
            waiting = asyncio.create_task(store.commit(note("s", "once")))
            await asyncio.sleep(1)  # longer than an answer may take
            assert not waiting.done()
        assert await waiting is None
        await holder.close()
        assert await texts(store) == ["once"]


async def test_the_same_batch_again_writes_nothing_and_tells_the_same(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.commit(note("s", "first"))
        assert isinstance(store._group, group_commit.GroupCommit)
        store._group._number -= 1  # as if the answer had been lost
        seen: list[Event] = []
        following = asyncio.create_task(follow(store, "s", seen, 1))
        assert await store.commit(note("s", "first")) is None
        await following
        assert await texts(store) == ["first"]


@requirement("aomi.push.3", "store.4")
async def test_a_follower_misses_nothing_while_it_could_not_hear(postgres_url: str) -> None:
    async with opened(postgres_url) as reader, opened(postgres_url, "b") as writer:
        seen: list[Event] = []
        following = asyncio.create_task(follow(reader, "s", seen, 200))
        for number in range(200):
            if number % 20 == 10:
                await in_thread(execute, postgres_url, CUT)
            await writer.commit(note("s", str(number)))
        await asyncio.wait_for(following, 200)
        assert [event.fields["text"] for event in seen] == [str(number) for number in range(200)]


async def test_a_session_is_made_by_whoever_asked_though_its_answer_was_lost(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        for number in range(20):
            cut = asyncio.create_task(in_thread(execute, postgres_url, CUT))
            opening = [store.open(f"t{number}-{n}", "ada", AT) for n in range(30)]
            assert [made for _, made in await asyncio.gather(*opening)] == [True] * 30
            await cut


async def test_whoever_waits_when_a_store_closes_in_doubt_is_told_so(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "CLOSE_S", 0.3)
    store = PostgresStore(postgres_url)
    await store.start("a")
    await store.open("s", "ada", AT)
    holder = await connection.DatabaseAddress(postgres_url).connect(60)
    async with holder.transaction():
        await holder.execute("SELECT 1 FROM sessions FOR UPDATE")
        waiting = asyncio.create_task(store.commit(Write("s", [line("perhaps")])))
        await asyncio.sleep(0.1)
        await store._group.stop()
        with pytest.raises(StoreError, match="before the database told"):
            await waiting
    await holder.close()
    await store.close()


@requirement("reliability.stop.2")
async def test_a_queued_call_is_given_to_nobody_until_a_halted_database_has_answered_for_a_while(
    own_postgres: PostgresServer,
) -> None:
    async with opened(own_postgres.url) as store:
        await store.commit(submit(new("c")))
        assert [row.id for row in await store.stale(0.0)] == ["c"]
        with halted(own_postgres):
            with pytest.raises(StoreUnavailable):  # so long that a call may have been refused meanwhile
                await store.call("c")
            asked = asyncio.create_task(store.stale(0.0))
            await asyncio.sleep(0)
        assert await asked == []
        assert await store.stale(0.0) == []
        async with asyncio.timeout(60):
            while not (rows := await store.stale(0.0)):  # noqa: ASYNC110 - nobody tells when it has been a while
                await asyncio.sleep(0.1)
        assert [row.id for row in rows] == ["c"]
