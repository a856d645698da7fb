"""What only a database can do: be elsewhere, be too new, and be shared by nodes that know and bound each other.

What happens when it goes away has a file of its own.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import ToolFailure, testing, tool
from toolcrib.errors import StoreError, StoreTooNew, StoreUnavailable
from toolcrib.events import Event
from toolcrib.extras import install
from toolcrib.store import OWNER, Conflict, Row, Write
from toolcrib.store.codec import LARGE, Stored, encode, raw
from toolcrib.store.postgres import listener
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.store.schema import migrations
from toolcrib.store.shared import SharedStore
from toolcrib.testing.index_check import read_all
from toolcrib.testing.services import ServiceError, execute
from toolcrib.testing.stores.fixture import AT, claim, commit, finish, line, new, note, park, submit, texts
from toolcrib.testing.stores.followers import follow


@asynccontextmanager
async def opened(url: str, *workers: str) -> AsyncIterator[list[PostgresStore]]:
    """Stores over one database, with the session `s`."""
    async with AsyncExitStack() as stack:
        stores = [PostgresStore(url) for _ in workers]
        for store, worker in zip(stores, workers, strict=True):
            await store.start(worker)
            stack.push_async_callback(store.close)
        await stores[0].open("s", "ada", AT)
        yield stores


def sql(url: str, statement: str) -> str:
    """What anybody reads with plain SQL."""
    return execute(urlsplit(url)._replace(query="").geturl(), statement)


async def refusal(url: str) -> str:
    """What `start` says of a database that it does not get."""
    with pytest.raises(StoreUnavailable) as caught:
        await PostgresStore(url).start("worker-1")
    return str(caught.value)


async def until(condition: Callable[[], Any]) -> None:
    """Waits for what another thread or process does; it has no event to wait for."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


def bounded(row: Row, worker: str = "worker-1") -> Write:
    """A claim that needs a place."""
    write = claim(row, worker)
    write.bounded = True
    return write


def serial(row: Row) -> Write:
    """A claim that needs its session to be free of its tool."""
    write = bounded(row)
    write.serial = True
    return write


# Opening


def test_a_postgres_store_is_a_shared_one() -> None:
    store: SharedStore = PostgresStore("postgresql://localhost/db")
    assert store.url == "postgresql://localhost/db"


@requirement("store.7")
async def test_a_newer_schema_is_refused(empty_postgres_url: str) -> None:
    async with opened(empty_postgres_url, "a") as (store,):
        await store.commit(note("s", "kept"))
    newest = migrations("postgres")[-1][0]
    sql(empty_postgres_url, f"UPDATE schema_version SET version = {newest + 1}")
    with pytest.raises(StoreTooNew, match=f"has schema {newest + 1}, this program knows {newest}"):
        await PostgresStore(empty_postgres_url).start("a")
    sql(empty_postgres_url, f"UPDATE schema_version SET version = {newest}")
    async with opened(empty_postgres_url, "a") as (store,):
        assert await texts(store) == ["kept"]


@requirement("store.7")
async def test_a_database_is_migrated_once_by_many_who_open_it_at_once(empty_postgres_url: str) -> None:
    stores = [PostgresStore(empty_postgres_url) for _ in range(4)]
    await asyncio.gather(*(store.start(f"w{n}") for n, store in enumerate(stores)))
    newest = migrations("postgres")[-1][0]
    assert sql(empty_postgres_url, "SELECT version FROM schema_version") == str(newest)
    assert {store.migrated[1] for store in stores} == {newest}
    assert len({await store.cluster() for store in stores}) == 1
    await asyncio.gather(*(store.close() for store in stores))


async def test_stores_in_two_schemas_of_a_database_are_apart(postgres_url: str) -> None:
    async with opened(f"{postgres_url}?schema=one", "a") as (one,), opened(f"{postgres_url}?schema=Two", "a") as (two,):
        await one.commit(note("s", "first"))
        assert (await texts(one), await texts(two)) == (["first"], [])
        assert await one.cluster() != await two.cluster()


async def test_tables_of_somebody_else_are_left_alone(empty_postgres_url: str) -> None:
    sql(empty_postgres_url, "CREATE TABLE sessions (id integer)")
    with pytest.raises(StoreError, match=r"already exists.*schema=toolcrib"):
        await PostgresStore(empty_postgres_url).start("a")
    assert sql(empty_postgres_url, "SELECT count(*) FROM sessions") == "0"


async def test_a_database_that_may_not_be_changed_is_refused(empty_postgres_url: str) -> None:
    sql(
        empty_postgres_url,
        "ALTER ROLE CURRENT_USER IN DATABASE " + urlsplit(empty_postgres_url).path[1:] + " SET role = pg_monitor",
    )
    assert "permission denied" in await refusal(empty_postgres_url)


async def test_what_is_wrong_with_an_address_is_said_without_its_password(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    user, host = parts.username, parts.hostname
    wrong = {
        f"postgresql://{user}:se%2Fcret@{host}:{parts.port}/postgres": "the user or the password is wrong",
        f"postgresql://nobody:se%2Fcret@{host}:{parts.port}/postgres": "the user or the password is wrong",
        f"postgresql://{user}:{parts.password}@{host}:{parts.port}/absent": 'database "absent" does not exist',
        f"postgresql://{user}:se%2Fcret@{host}:1/postgres": "nothing listens at",
        "postgresql://ada:se%2Fcret@no-such-host.invalid/db": "cannot be reached",
    }
    for url, reason in wrong.items():
        said = await refusal(url)
        assert reason in said
        assert "se%2Fcret" not in said
        assert str(parts.password) not in said


async def test_a_server_that_is_no_postgres_is_named(unused_tcp_port: int) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", unused_tcp_port):
        said = await refusal(f"postgresql://ada:secret@127.0.0.1:{unused_tcp_port}/db?sslmode=disable")
    assert "does not speak as Postgres does" in said


@pytest.mark.process
async def test_without_the_driver_it_is_said_how_to_get_it() -> None:
    code = "import sys; sys.modules['asyncpg'] = None; from toolcrib.store import open_store; open_store('postgresql:')"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stderr=pipe, cwd=ROOT)
    _, said = await process.communicate()
    assert install("postgres").encode() in said.splitlines()[-1]


def test_an_address_that_makes_no_sense_is_refused_without_its_password() -> None:
    for end in ("?schema=a;b", "?lease=soon", "?lease=0"):
        with pytest.raises(StoreError) as caught:
            PostgresStore(f"postgresql://ada:secret@host/db{end}")
        assert "secret" not in str(caught.value)
    assert PostgresStore("postgresql://ada:a%40b@host/db?schema=x").shown == "postgresql://ada:***@host/db?schema=x"


async def test_a_closed_store_takes_no_writes_and_lets_its_followers_know(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        reader = asyncio.create_task(follow(store, "s", []))
        await store.commit(note("s"))
    store.put(note("s"))
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.commit(note("s"))
    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(reader, 60)


# Writing together


@requirement("store.4")
async def test_two_stores_that_write_at_once_leave_no_gap(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as stores:
        for session in ("t", "u"):
            await stores[0].open(session, "ada", AT)

        async def write(writer: int) -> None:
            for number in range(30):
                session = "stu"[(writer + number) % 3]
                await stores[writer % 2].commit(Write(session, [line(f"{writer}/{number}"), line("and")]))

        await asyncio.gather(*(write(writer) for writer in range(30)))
        logs = [await read_all(stores[0], session) for session in "stu"]
        assert sum(map(len, logs)) == 30 * 30 * 2
        for log in logs:
            assert [event.seq for event in log] == list(range(1, len(log) + 1))


async def test_one_bad_write_takes_no_other_of_its_batch_with_it(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        bad = [submit(new("nul\x00")), submit(new("half\ud800")), Write("s", [(AT, None, "odd\x00", Stored(b"{}"))])]
        good = [note("s", str(number)) for number in range(20)]
        writes = [*good[:10], *bad, *good[10:]]
        for text in ("one", "two"):  # nobody waits for these, and they are in the same batch
            store.put(note("s", text))
        outcomes = await asyncio.gather(*(store.commit(write) for write in writes), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[10:13]] == [StoreError] * 3
        assert [*outcomes[:10], *outcomes[13:]] == [None] * 20
        assert await texts(store) == ["one", "two", *map(str, range(20))]


async def test_a_key_that_is_given_back_may_be_used_at_once(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        for number in range(10):
            row = await commit(store, submit(new(f"a{number}", key="pay")))
            back = finish(row, "unavailable")
            back.frees_key = True
            store.put(back)
            row = await commit(store, submit(new(f"b{number}", key="pay")))
            back = finish(row, "unavailable")
            back.frees_key = True
            await store.commit(back)
        assert {row.key for row in await store.calls("s")} == {None}


async def test_odd_names_are_refused_in_our_own_words(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        for name in ("nul\x00", "half\ud800"):
            with pytest.raises(StoreError):
                await store.open(name, "ada", AT)
        assert await store.session("s") is not None


async def test_the_same_call_id_in_two_sessions_at_once_is_one_call(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as stores:
        await stores[0].open("t", "ada", AT)
        for number in range(20):
            writes = [store.commit(submit(new(f"c{number}", id))) for store, id in zip(stores, "st", strict=True)]
            outcomes = await asyncio.gather(*writes)
            assert outcomes.count(None) == 1


async def test_a_writer_that_is_told_badly_disturbs_no_other(postgres_url: str) -> None:
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))
    async with opened(postgres_url, "a") as (store,):
        bad = Write("s", [line("one")], on_commit=lambda: complaints[9])
        outcomes = await asyncio.gather(*map(store.commit, [bad, note("s", "two")]))
        assert outcomes == [None, None]
        assert await texts(store) == ["one", "two"]
    assert [type(error) for error in complaints] == [IndexError]


# Following


@requirement("aomi.push.3", "store.4")
async def test_a_follower_is_told_by_whoever_wrote(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as (reader, writer):
        seen: list[Event] = []
        following = asyncio.create_task(follow(reader, "s", seen, 50))
        for number in range(50):
            await writer.commit(note("s", str(number)))
            await asyncio.wait_for(reader.wait("s", number), 60)
        await following
        assert [event.fields["text"] for event in seen] == [str(number) for number in range(50)]


@requirement("aomi.push.3")
@pytest.mark.parametrize("words", ["x", "x y:1", "x 1:y", "x :", "x 1", "x -1:1 1:-1", "x ²:1"])
async def test_what_a_stranger_says_on_the_channel_disturbs_nobody(postgres_url: str, words: str) -> None:
    wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
    async with opened(postgres_url, "a", "b") as (reader, writer):
        waiting = asyncio.create_task(reader.wait("s", 0))
        await asyncio.to_thread(sql, postgres_url, f"SELECT pg_notify(toolcrib_channel(), '{words}')")
        await writer.commit(note("s", "hello"))
        await asyncio.wait_for(waiting, 60)
        assert [event.fields["text"] for event in await reader.read("s")] == ["hello"]
    assert wrong == []


@requirement("aomi.push.3")
async def test_who_only_waits_asks_the_database_nothing(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as (reader, writer):
        waiting = asyncio.create_task(reader.wait("s", 0))
        await until(lambda: _true("s" in reader._followers))
        await reader.flush()
        asked = reader._pool.requests
        await asyncio.sleep(1.5)  # longer than any poller would wait
        assert reader._pool.requests == asked
        await writer.commit(note("s"))
        await waiting


async def _true(value: bool) -> bool:
    return value


async def test_a_follower_of_a_session_that_another_swept_finds_the_new_one(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as (reader, sweeper):
        await sweeper.commit(Write("s", [line("old"), line("old")]))
        await reader.wait("s", 0)
        waiting = asyncio.create_task(reader.wait("s", 2))
        await asyncio.sleep(0)
        assert await sweeper.sweep(AT + 1, AT + 1) == 1
        await asyncio.wait([waiting])
        await sweeper.open("s", "bob", AT + 9)
        again = asyncio.create_task(follow(reader, "s", seen := list[Event](), 1))
        await sweeper.commit(note("s", "new", at=AT + 9))
        await again
        assert [(event.seq, event.fields["text"]) for event in seen] == [(1, "new")]


async def test_a_follower_of_a_session_that_was_deleted_finds_the_new_one(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "COMPARE_S", 3600.0)  # it is told, and does not find out by itself
    async with opened(postgres_url, "a", "b") as (reader, other):
        await other.open("toolcrib.deleted", OWNER, AT)
        await other.commit(note("s", "old"))
        for store in (reader, other):
            await store.wait("s", 0)
        waiting = [asyncio.create_task(store.wait("s", 1)) for store in (reader, other)]
        await asyncio.sleep(0)
        assert await other.delete("s", Write("toolcrib.deleted", []))
        await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
        await other.open("s", "bob", AT + 9)
        again = asyncio.create_task(follow(reader, "s", seen := list[Event](), 1))
        await other.commit(note("s", "new", at=AT + 9))
        await asyncio.wait_for(again, 60)
        assert [(event.seq, event.fields["text"]) for event in seen] == [(1, "new")]


@requirement("aomi.push.3")
async def test_who_hears_that_anything_may_have_moved_looks_at_what_it_follows(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "COMPARE_S", 3600.0)
    async with opened(postgres_url, "a", "b") as (reader, writer):
        writer.carry = lambda hints: True  # they are lost
        waiting = asyncio.create_task(reader.wait("s", 0))
        await until(lambda: _true("s" in reader._followers and reader._followers.sessions["s"].looked >= 0))
        await writer.commit(note("s", "unheard"))
        assert not waiting.done()
        reader.heard("somebody *")
        await asyncio.wait_for(waiting, 60)
        assert await texts(reader) == ["unheard"]


@requirement("aomi.push.3")
async def test_a_hint_that_came_in_part_is_missed_all_the_same(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "COMPARE_S", 0.05)
    async with opened(postgres_url, "a", "b") as (reader, writer):
        writer.carry = lambda hints: True  # they are lost
        waiting = asyncio.create_task(reader.wait("s", 0))
        await until(lambda: _true("s" in reader._followers and reader._followers.sessions["s"].looked >= 0))
        reader.heard(f"{writer._sender} #0")
        await writer.commit(note("s", "unheard"))
        await asyncio.wait_for(waiting, 60)
        assert await texts(reader) == ["unheard"]


async def test_a_node_hears_of_what_concerns_a_session_that_it_knows(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as (one, other):
        heard: asyncio.Queue[str] = asyncio.Queue()
        one.own_changed = heard.put_nowait
        await other.open("unknown", "ada", AT)
        await other.commit(note("unknown"))
        await other.commit(Write("s", [line(call="c")]))
        await other.commit(Write("s", [line(call="c"), line(), line(call="c")]))
        await one.commit(note("s"))
        assert await asyncio.wait_for(heard.get(), 60) == "s"
        assert heard.empty()
        await other.commit(submit(new("c")))
        assert (await other.take(["c"]))["c"].own == 5


# Nodes


async def test_a_node_is_dead_when_its_lease_is_over(postgres_url: str) -> None:
    code = (
        "import asyncio, sys; from toolcrib.store.postgres.store import PostgresStore\n"
        "async def main():\n"
        "    store = PostgresStore(sys.argv[1]); await store.start('other'); print('ready', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    url = f"{postgres_url}?lease=1"
    async with opened(url, "a") as (store,):
        await store.commit(submit(row := new("c")))
        await store.commit(claim(row, "other"))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, url, stdout=pipe, cwd=ROOT)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        await asyncio.sleep(1.5)  # longer than the lease: it lives because it beats
        assert await store.alive("other")
        assert await store.stale(1000) == []
        process.kill()
        await process.wait()
        assert await store.alive("other")
        await until(lambda: _not(store.alive("other")))
        assert [(node.name, node.alive) for node in await store.nodes()] == [("a", True), ("other", False)]
        assert [row.id for row in await store.stale(1000)] == ["c"]


async def _not(work: Any) -> bool:
    return not await work


async def test_a_blocked_event_loop_keeps_its_lease(postgres_url: str) -> None:
    async with opened(f"{postgres_url}?lease=1", "a", "b") as (store, other):
        deadline = asyncio.get_running_loop().time() + 2
        while asyncio.get_running_loop().time() < deadline:
            pass
        assert await other.alive("a")
        assert await store.alive("b")


async def test_a_heartbeat_that_failed_leaves_no_connection_behind(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcrib.store")
    connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"

    async def failed() -> bool:
        return sum(record.getMessage().startswith("beating again soon") for record in caplog.records) >= 5

    async def as_before() -> bool:
        return await asyncio.to_thread(sql, postgres_url, connections) == before

    async with opened(f"{postgres_url}?lease=0.5", "a"):
        before = await asyncio.to_thread(sql, postgres_url, connections)
        await asyncio.to_thread(sql, postgres_url, "ALTER TABLE nodes RENAME TO away")
        await until(failed)
        await asyncio.to_thread(sql, postgres_url, "ALTER TABLE away RENAME TO nodes")
        await until(as_before)
        assert await failed()
        assert await failed()


async def test_nodes_tell_of_themselves(postgres_url: str) -> None:
    async with opened(f"{postgres_url}?lease=0.5", "a", "b") as (store, other):
        store.facts["tools"] = ["pay"]

        async def told() -> bool:
            return [node.facts for node in await other.nodes() if node.name == "a"] == [{"tools": ["pay"]}]

        await until(told)
        assert {node.name: node.alive for node in await other.nodes()} == {"a": True, "b": True}
        assert all(node.age < 0.5 for node in await other.nodes())


async def test_what_nobody_runs_is_found_the_oldest_first(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        rows = [await commit(store, submit(new(id).but(accepted_at=AT + at))) for id, at in (("x", 2), ("y", 1))]
        await store.commit(submit(new("waits", state="waiting")))
        await store.commit(claim(await commit(store, submit(new("mine"))), "a"))
        await store.commit(claim(await commit(store, submit(new("lost").but(accepted_at=AT + 3))), "gone"))
        assert [row.id for row in await store.stale(60)] == ["lost"]
        assert [row.id for row in await store.stale(0)] == ["y", "x", "lost"]
        assert [row.id for row in await store.stale(0, limit=1)] == ["x"]  # queued for the longest time
        await store.commit(claim(rows[0], "a"))
        assert [row.id for row in await store.stale(0)] == ["y", "lost"]
        assert await store.counts() == {"shop.refund": {"queued": 1, "running": 3, "waiting": 1}}


async def test_a_call_is_taken_with_all_that_its_runner_needs(postgres_url: str) -> None:
    large = {"pages": ["x" * 1000] * 100}
    async with opened(postgres_url, "a", "b") as (store, other):
        await store.commit(note("s", "own"))
        row = await commit(store, submit(new("c")))
        await store.commit(Write("s", [line("large", call="c", args=raw(encode(large))), line(call="d")]))
        await store.commit(submit(new("e")))
        taken = await other.take(["c", "absent", "e"])
        assert sorted(taken) == ["c", "e"]
        assert taken["c"].row == row == await store.call("c")
        assert taken["c"].session == await store.session("s")
        assert (taken["c"].own, [event.seq for event in taken["c"].events]) == (1, [2, 3])
        assert taken["c"].events == await store.read("s", call="c")
        assert taken["c"].events[1].fields["args"] == large


# Bounds


async def test_a_session_runs_as_many_calls_as_it_may_and_the_oldest_follow(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as stores:
        freed: asyncio.Queue[list[str]] = asyncio.Queue()
        for store in stores:
            store.bound(2, None, lambda rows: freed.put_nowait([row.id for row in rows]))
        rows = [new(f"c{n}").but(accepted_at=AT + n) for n in range(5)]
        for row in rows:
            await stores[0].commit(submit(row))
        outcomes = await asyncio.gather(*(stores[n % 2].commit(bounded(row, "a")) for n, row in enumerate(rows)))
        assert outcomes.count(None) == 2
        refused = [row for row, outcome in zip(rows, outcomes, strict=True) if outcome is not None]
        assert [outcome for outcome in outcomes if outcome] == [Conflict(row, full=True) for row in refused]
        assert await stores[0].stale(-1000) == []
        running = await stores[0].calls("s", ["running"])
        await stores[1].commit(finish(running[0]))
        assert await asyncio.wait_for(freed.get(), 60) == [refused[0].id]
        await stores[0].commit(park(running[1]))
        assert await asyncio.wait_for(freed.get(), 60) == [refused[1].id]


async def test_a_place_is_kept_for_the_call_that_was_told_of_it(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        freed: asyncio.Queue[list[str]] = asyncio.Queue()
        store.bound(1, None, lambda rows: freed.put_nowait([row.id for row in rows]))
        first, second, third = [await commit(store, submit(new(f"c{n}").but(accepted_at=AT + n))) for n in range(3)]
        running = await commit(store, bounded(first, "a"))
        assert await store.commit(bounded(second, "a")) == Conflict(second, full=True)
        await store.commit(finish(running))
        assert await asyncio.wait_for(freed.get(), 60) == ["c1"]
        assert await store.commit(bounded(third, "a")) == Conflict(third, full=True)
        assert await store.commit(bounded(second, "a")) is None


async def test_calls_of_a_serial_tool_run_one_at_a_time_in_their_session(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        store.bound(16, None, lambda rows: None)
        await store.open("t", "ada", AT)
        rows = [await commit(store, submit(new(id, session))) for id, session in (("x", "s"), ("y", "s"), ("z", "t"))]
        claims = [serial(row) for row in rows]
        outcomes = await asyncio.gather(*map(store.commit, claims))
        assert outcomes == [None, Conflict(rows[1], full=True), None]
        assert claims[0].row is not None
        await store.commit(finish(claims[0].row))
        assert await store.commit(serial(rows[1])) is None


@requirement("engine.5")
async def test_calls_of_a_serial_tool_run_in_the_order_in_which_they_were_accepted(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as (store, other):
        for each in (store, other):
            each.bound(16, None, lambda rows: None)
        first, second, third = [await commit(store, submit(new(id))) for id in ("x", "y", "z")]
        assert await other.commit(serial(third)) == Conflict(third, full=True)
        claims = [serial(second), serial(first)]
        assert await asyncio.gather(*map(store.commit, claims)) == [Conflict(second, full=True), None]
        assert claims[1].row is not None
        await store.commit(finish(claims[1].row))
        assert await other.commit(serial(third)) == Conflict(third, full=True)
        assert await other.commit(serial(second)) is None


@requirement("engine.5")
async def test_the_next_call_of_a_serial_tool_is_told_when_the_one_before_ends_without_a_run(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        freed: asyncio.Queue[list[str]] = asyncio.Queue()
        store.bound(16, None, lambda rows: freed.put_nowait([row.id for row in rows]))
        first, second = [await commit(store, submit(new(id))) for id in ("x", "y")]
        assert await store.commit(serial(second)) == Conflict(second, full=True)
        await store.commit(finish(first))
        assert await asyncio.wait_for(freed.get(), 60) == ["y"]
        assert await store.commit(serial(second)) is None


@requirement("engine.5")
async def test_a_call_that_another_made_waits_for_no_queued_call_of_its_serial_tool(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        store.bound(1, None, lambda rows: None)
        parent = await commit(store, submit(new("p").but(tool="shop.order")))
        await store.commit(bounded(parent))
        queued = await commit(store, submit(new("x")))  # it waits for the place that the parent has
        child = await commit(store, submit(new("y", parent="p")))
        assert await store.commit(serial(queued)) == Conflict(queued, full=True)
        write = serial(child)
        write.bounded = False
        assert await store.commit(write) is None


async def test_an_owner_runs_as_many_calls_as_it_may_over_all_its_sessions(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as stores:
        freed: asyncio.Queue[list[str]] = asyncio.Queue()
        for store in stores:
            store.bound(16, 3, lambda rows: freed.put_nowait([row.id for row in rows]))
        for n in range(10):
            await stores[0].open(f"s{n}", "bob" if n == 9 else "eve", AT)
            await stores[0].commit(submit(new(f"c{n}", f"s{n}").but(accepted_at=AT + n)))
        rows = [new(f"c{n}", f"s{n}") for n in range(10)]
        outcomes = await asyncio.gather(*(stores[n % 2].commit(bounded(row)) for n, row in enumerate(rows)))
        assert outcomes[9] is None
        assert outcomes[:9].count(None) == 3
        first = outcomes.index(None)
        parked = [row.id for row, outcome in zip(rows, outcomes, strict=True) if outcome is not None]
        (row,) = await stores[0].calls(f"s{first}")
        await stores[0].commit(finish(row))
        assert await asyncio.wait_for(freed.get(), 60) == parked[:1]


async def test_no_more_than_the_bound_ever_run_at_once(postgres_url: str) -> None:
    async with opened(postgres_url, "a", "b") as stores:
        running, most, over = 0, 0, asyncio.Event()
        waiting = {f"c{n}": n % 2 for n in range(60)}
        tasks: set[asyncio.Task[None]] = set()

        async def run(row: Row) -> None:
            nonlocal running, most
            store = stores[waiting[row.id]]
            claimed = bounded(row)
            if await store.commit(claimed) is not None:
                return
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            assert claimed.row is not None
            await store.commit(finish(claimed.row))
            del waiting[row.id]
            if not waiting:
                over.set()

        def again(rows: list[Row]) -> None:
            tasks.update(asyncio.create_task(run(row)) for row in rows)

        for store in stores:
            store.bound(8, 5, again)
        for id in waiting:
            await stores[0].open(f"of-{id[-1]}", "eve", AT)
            await stores[0].commit(submit(new(id, f"of-{id[-1]}")))
        again([new(id, f"of-{id[-1]}") for id in waiting])
        await asyncio.wait_for(over.wait(), 60)
        await asyncio.gather(*tasks)
        assert 1 < most <= 5


async def test_a_parked_call_is_stale_once_nothing_runs_that_could_free_it(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        store.bound(1, None, lambda rows: None)
        first, second = [await commit(store, submit(new(id))) for id in ("c1", "c2")]
        running = await commit(store, bounded(first, "a"))
        assert await store.commit(bounded(second)) == Conflict(second, full=True)
        assert await store.stale(-1000) == []
        sql(postgres_url, "UPDATE calls SET state = 'done' WHERE id = 'c1'")  # as if nobody had been told
        assert [row.id for row in await store.stale(-1000)] == [second.id]
        assert await store.commit(bounded(second)) is None
        assert running.state == "running"


async def test_a_call_that_goes_back_to_the_queue_frees_its_place(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        freed: asyncio.Queue[list[str]] = asyncio.Queue()
        store.bound(1, 1, lambda rows: freed.put_nowait([row.id for row in rows]))
        first, second = [await commit(store, submit(new(id))) for id in ("c1", "c2")]
        running = await commit(store, bounded(first))
        assert await store.commit(bounded(second)) == Conflict(second, full=True)
        await store.commit(Write("s", [line(call="c1")], running.but(state="queued"), ("running", 1)))
        assert await asyncio.wait_for(freed.get(), 60) == ["c2"]


async def test_what_ran_already_needs_no_second_place(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        store.bound(1, 1, lambda rows: None)
        running = await commit(store, bounded(await commit(store, submit(new("c"))), "dead"))
        assert await store.commit(bounded(running, "a")) is None


# What the database holds


@requirement("store.6")
async def test_large_data_is_in_the_database_once(postgres_url: str) -> None:
    text = encode("x" * (LARGE + 1))
    async with opened(postgres_url, "a") as (store,):
        for _ in range(3):
            await store.commit(Write("s", [line(args=raw(text), data=raw(text))]))
    assert sql(postgres_url, "SELECT count(*), sum(length(data)) FROM kept") == f"1|{len(text)}"
    assert int(sql(postgres_url, "SELECT max(length(data)) FROM events")) < 100


@requirement("store.6")
async def test_a_sweep_leaves_nothing_behind(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        for _ in range(6):
            await store.commit(Write("s", [line() for _ in range(2000)]))
        await store.commit(finish(await commit(store, submit(new("c")))))
        await store.commit(park(await commit(store, submit(new("d"))), expires_at=AT))
        await store.keep("s", "id", b"data")
        await store.move_cursor("s", "ui", 2)
        assert await store.sweep(AT + 1, AT + 1) == 1
    for table in ("sessions", "events", "calls", "kept", "cursors", "swept"):
        assert sql(postgres_url, f"SELECT count(*) FROM {table}") == "0"


@requirement("store.3")
async def test_who_ended_leaves_no_trace_among_the_nodes(postgres_url: str) -> None:
    async with opened(postgres_url, "a") as (store,):
        await store.commit(note("s"))
        assert sql(postgres_url, "SELECT count(*) FROM nodes, batches") == "1"
    assert sql(postgres_url, "SELECT (SELECT count(*) FROM nodes) + (SELECT count(*) FROM batches)") == "0"


# The view for Aomi


@tool(namespace="time", read_only=True)
async def echo(value: Any) -> Any:
    """Give back what was given."""
    return value


@tool(namespace="time", background=True)
async def later(value: str) -> str:
    """Give it back some time."""
    return value


@tool(namespace="forge")
async def broken() -> None:
    """Fail on purpose."""
    raise ToolFailure("failed", "The forge is cold")


def rows(url: str) -> list[dict[str, Any]]:
    """The view, as anybody reads it."""
    found = sql(url, "SELECT row_to_json(v) FROM session_tool_state v ORDER BY session_id")
    return [json.loads(row) for row in found.splitlines()]


@requirement("store.8", "aomi.table.1")
async def test_the_view_shows_sessions_to_plain_sql(postgres_url: str) -> None:
    async with testing.crib(echo, broken, store=postgres_url) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["time"])
        await crib.clock.advance(90.5)
        await session.notice("used")
        await crib.open("s-2", owner="bob", namespaces=["forge"])
        first, second = rows(postgres_url)
    assert list(first) == ["session_id", "user_id", "last_updated", "handler_state", "created_at"]
    assert (first["session_id"], first["user_id"]) == ("s-1", "ada")
    assert (first["created_at"], first["last_updated"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:30.500Z")
    assert first["handler_state"] == {"namespaces": ["time"], "available_tools": ["time.echo"], "completed_calls": []}
    assert (second["session_id"], second["user_id"]) == ("s-2", "bob")


@requirement("aomi.table.1")
async def test_the_view_cannot_be_written(postgres_url: str) -> None:
    async with opened(postgres_url, "a"):
        for statement in ("DELETE FROM session_tool_state", "UPDATE session_tool_state SET user_id = 'eve'"):
            with pytest.raises(ServiceError, match="view"):
                sql(postgres_url, statement)


@requirement("store.8", "aomi.table.3")
async def test_the_view_lists_what_the_model_has_not_consumed(postgres_url: str) -> None:
    async with testing.crib(echo, later, broken, store=postgres_url) as crib:
        session = await crib.open("s", owner="ada", namespaces=["time", "forge"])
        first = await session.submit("echo", {"value": {"status": "success", "n": [1, None, "é", "\\u0000\x00"]}})
        await session.result(first.id)
        second = await session.submit("later", {"value": "soon"})
        await session.result(second.id)
        third = await session.submit("broken")
        await session.result(third.id)
        await crib.store.flush()
        (row,) = rows(postgres_url)
        assert row["handler_state"]["completed_calls"] == [
            _entry(first.id, "echo", True, {"Ok": {"status": "success", "n": [1, None, "é", "\\u0000\ufffd"]}}),
            _entry(second.id, "later", False, {"Ok": "soon"}),
            _entry(third.id, "broken", True, {"Err": "The forge is cold"}),
        ]
        await session.consume("model", (await session._row(second.id)).done_seq or 0)
        (row,) = rows(postgres_url)
        assert [entry["call_id"] for entry in row["handler_state"]["completed_calls"]] == [third.id]


def _entry(call: str, tool: str, sync: bool, result: Any) -> dict[str, Any]:
    return {"call_id": call, "tool_name": tool, "sync": sync, "result": result}


async def test_the_view_shows_any_result_as_it_is(postgres_url: str) -> None:
    values: list[Any] = [None, True, 0, 1.5, "", "text", [], {}, {"a": {"b": [1]}}, "x" * (LARGE + 1), 2**64]
    async with testing.crib(echo, store=postgres_url) as crib:
        session = await crib.open("s", owner="ada", namespaces=["time"])
        for value in values:
            await session.call("echo", {"value": value})
        await crib.store.flush()
        (row,) = rows(postgres_url)
        shown = [entry["result"]["Ok"] for entry in row["handler_state"]["completed_calls"]]
        assert shown == values


@requirement("aomi.table.4")
async def test_sessions_are_found_by_owner_and_by_last_use_without_a_scan(postgres_url: str) -> None:
    async with opened(postgres_url, "a"):
        for column, value in (("owner", "'ada'"), ("updated_at", "1")):
            statement = f"SET enable_seqscan = off; EXPLAIN SELECT * FROM sessions WHERE {column} = {value}"
            assert "sessions_" in sql(postgres_url, statement)
