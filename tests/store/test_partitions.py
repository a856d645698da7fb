"""A store that is divided by hash of its sessions: the promise of every store, and what a statement looks into."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.requirements import requirement
from tests.services import dropped, migrated
from toolcrib.errors import StoreError
from toolcrib.store import Store
from toolcrib.store.postgres.connection import Connection, DatabaseAddress, hang_up
from toolcrib.store.postgres.lanes import LANES
from toolcrib.store.postgres.migrations import divide
from toolcrib.store.postgres.partitions import OF_CALLS, ONE_SESSION, SEVERAL
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.store.schema import divided_queries, queries
from toolcrib.testing import StoreSuite
from toolcrib.testing.services import execute
from toolcrib.testing.stores.fixture import AT, answer, claim, commit, finish, new, note, park, submit, texts

PARTITIONS = 16
DIVIDED = ("sessions", "swept", "events", "calls", "cursors", "kept", "unrolled")
OTHERS = ("batches", "nodes", "rates", "rollups")


@pytest.fixture(scope="session")
def divided_database(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A divided database, made once: it has a thousand tables and indexes."""
    name = f"test_divided_{secrets.token_hex(6)}"
    execute(postgres_server, f"CREATE DATABASE {name} TEMPLATE {postgres_template}")
    url = urlsplit(postgres_server)._replace(path=f"/{name}").geturl()
    with ThreadPoolExecutor(1) as other:  # there may be a loop in our thread
        other.submit(asyncio.run, migrated(f"{url}?partitions={PARTITIONS}")).result()
        yield url
        other.submit(asyncio.run, dropped(postgres_server, name)).result()


@pytest.fixture
def divided_url(divided_database: str) -> Iterator[str]:
    """The same without anything in it, and how it is divided is not told."""
    yield divided_database
    execute(divided_database, "; ".join(f"DELETE FROM {table}" for table in (*DIVIDED, *OTHERS)))


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    connection = await DatabaseAddress(url).connect(60)
    try:
        yield connection
    finally:
        await hang_up(connection)


@asynccontextmanager
async def alone(url: str) -> AsyncIterator[Connection]:
    """A connection when all others have ended: what they looked into is counted then."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    async with connected(url) as db:
        async with asyncio.timeout(60):
            while await db.fetchval(others):  # noqa: ASYNC110 - see below
                await asyncio.sleep(0.02)  # nobody tells of the end of a backend
        yield db


@asynccontextmanager
async def opened(url: str, worker: str = "worker-1") -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.start(worker)
    try:
        yield store
    finally:
        await store.close()


@requirement("store.4", "scale.partitions.1")
class TestSixteen(StoreSuite):
    @pytest.fixture(autouse=True)
    def _database(self, divided_url: str) -> None:
        self.database = f"{divided_url}?partitions={PARTITIONS}"

    async def make(self) -> Store:
        return PostgresStore(self.database)

    async def reopen(self, store: Store) -> Store:
        return PostgresStore(store.url)


# What a statement looks into

VALUES: dict[str, Any] = {"int4": 10, "text": "new", "float8": AT, "bool": True, "bytea": b"1"}


def looked_into(plan: dict[str, Any]) -> set[str]:
    """The partitions of which a plan, as it was executed, has read anything."""
    own = re.fullmatch(r"\w+_p(\d+)", plan.get("Relation Name", ""))
    places = {own[1]} if own and plan["Actual Loops"] else set()
    return places.union(*(looked_into(part) for part in plan.get("Plans", ())))


async def places(db: Connection, text: str, number: int) -> set[str]:
    """The partitions that a statement looks into for the session of that number."""
    types = [one.name for one in (await db.prepare(text)).get_parameters()]
    values = [number if kind == "int8" else VALUES.get(kind) or [VALUES.get(kind.removesuffix("[]"))] for kind in types]
    transaction = db.transaction()
    await transaction.start()
    try:
        plan = await db.fetchval(f"EXPLAIN (ANALYZE, COSTS off, FORMAT json) {text}", *values)
    finally:
        await transaction.rollback()
    return looked_into(json.loads(plan)[0]["Plan"])


@requirement("scale.partitions.2")
async def test_a_statement_of_one_session_looks_into_one_partition(divided_url: str) -> None:
    async with opened(divided_url) as store:
        for session in ("s", "t", "u", "v"):
            await store.open(session, "ada", AT)
        await commit(store, submit(new("c")))
    templates = {"write", "log_accepted", "log_ended"}  # the test after this one runs what they look into
    async with connected(divided_url) as db:
        number = await db.fetchval(divided_queries()["number"], "s")
        looked = {name: await places(db, divided_queries()[name], number) for name in ONE_SESSION - templates}
        everywhere = await places(db, "SELECT * FROM events WHERE call = $1::text", number)
    assert {name: some for name, some in looked.items() if len(some) > 1} == {}
    assert len(everywhere) == PARTITIONS


@requirement("scale.partitions.2")
async def test_the_life_of_a_call_stays_in_the_partition_of_its_session(divided_url: str) -> None:
    async with alone(divided_url) as db:
        await db.execute("SELECT pg_stat_reset()")
    async with opened(divided_url) as store:
        store.bound(4, None, lambda rows: None)
        await store.open("s", "ada", AT)
        await store.commit(note("s", "hello"))
        write = claim(await commit(store, submit(new("c", key="once"))))
        write.bounded = write.serial = True
        row = await commit(store, park(await commit(store, write)))
        row = await commit(store, claim(await commit(store, answer(row))))
        row = await commit(store, finish(row))
        assert await store.commit(submit(new("d", key="once"))) is not None
        await commit(store, submit(new("open")))
        for states in ((), ("waiting",), ("queued", "running"), ("waiting", "queued", "running"), ("held",)):
            await store.calls("s", states)
        await store.calls("s", parent="c")
        await store.calls("s", done_after=0)
        await store.take(["c"])
        assert (await texts(store))[0] == "hello"
        await store.read("s", call="c")
        await store.stories([row])
        await store.move_cursor("s", "model", 1)
        await store.keep("s", "k", b"1")
        assert (await store.cursor("s", "model"), await store.kept("s", "k")) == (1, b"1")
        assert await store.call("c") is not None
        assert await store.session("s") is not None
        await store.look("s")
    async with alone(divided_url) as db:
        used = await db.fetch(
            "SELECT relname, seq_scan, idx_scan, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables"
            " WHERE relname ~ '_p\\d+$' AND seq_scan + coalesce(idx_scan, 0) + n_tup_ins + n_tup_upd + n_tup_del > 0"
        )
    names = [one["relname"].rpartition("_p") for one in used]
    assert {table for table, _, _ in names} == {"sessions", "events", "calls", "cursors", "kept", "unrolled"}
    assert len({place for _, _, place in names}) == 1, [tuple(one) for one in used]


@requirement("scale.partitions.3")
def test_every_statement_that_looks_into_several_partitions_is_declared() -> None:
    several = {name for names in SEVERAL.values() for name in names.split()}
    uses = re.compile(rf"\b(FROM|JOIN|UPDATE|INTO|USING|TABLE|TRUNCATE)\s+({'|'.join(DIVIDED)})\b")
    of_divided = {name for name, text in divided_queries().items() if uses.search(text)}
    assert of_divided - several - ONE_SESSION - OF_CALLS == {
        "pages",
        "go_on_counting",
    }  # of whole stores, and of a sequence
    assert not several & (ONE_SESSION | OF_CALLS)
    assert (several | ONE_SESSION | OF_CALLS) <= set(divided_queries())


@requirement("scale.partitions.2")
async def test_no_transaction_writes_to_two_sessions(divided_url: str) -> None:
    async with opened(divided_url) as store:
        sessions = [f"s{n}" for n in range(3 * LANES)]
        for session in sessions:
            await store.open(session, "ada", AT)
        await asyncio.gather(*(store.commit(note(session, str(n))) for n in range(4) for session in sessions))
        assert [await texts(store, session) for session in sessions] == [["0", "1", "2", "3"]] * len(sessions)
    async with connected(divided_url) as db:
        written = await db.fetch("SELECT count(DISTINCT session) FROM events GROUP BY xmin::text")
    assert {count for (count,) in written} == {1}


async def test_a_session_that_was_made_anew_is_found_by_who_knew_the_one_before(
    divided_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(divided_url, "one") as one, opened(divided_url, "two") as two:
        await one.open("s", "ada", AT)
        await one.open("logs", "toolcrib", AT)
        await one.commit(note("s", "before"))
        await two.session("s")
        monkeypatch.setattr(two._listener, "heard", lambda hint: None)
        assert await one.delete("s", note("logs", "deleted"))
        await one.open("s", "ada", AT)
        await two.commit(note("s", "after"))
        assert await texts(two) == ["after"]
        assert await texts(one) == ["after"]


# Dividing


@requirement("scale.partitions.4")
async def test_a_whole_store_is_divided_with_all_that_is_in_it(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        await store.open("s", "ada", AT)
        await store.commit(note("s", "kept"))
        await commit(store, submit(new("c", key="once")))
        await store.move_cursor("s", "model", 1)
        with pytest.raises(StoreError, match="is in use"):
            await divide(DatabaseAddress(postgres_url), 4)
    with pytest.raises(StoreError, match=r"not divided into 4 partitions.*store migrate --partitions 4"):
        await PostgresStore(f"{postgres_url}?partitions=4").start("a")
    await divide(DatabaseAddress(postgres_url), 4)
    async with opened(postgres_url) as store:
        assert store.partitions == 4
        assert (await texts(store))[0] == "kept"
        row = await store.call("c")
        assert row is not None
        assert row.key == "once"
        assert await store.cursor("s", "model") == 1
        assert await store.damages() == []
        await store.open("t", "ada", AT)
        numbers = execute(postgres_url, "SELECT count(DISTINCT n), count(*) FROM sessions")
        assert numbers.replace("|", " ").split() == ["2", "2"]
    with pytest.raises(StoreError, match="has 4 partitions already"):
        await divide(DatabaseAddress(postgres_url), 8)


def test_a_number_of_partitions_is_a_number() -> None:
    with pytest.raises(StoreError, match="partitions is a number from 1 to 999"):
        PostgresStore("postgresql://localhost/db?partitions=many")


def test_a_divided_store_has_every_statement_of_a_whole_one() -> None:
    assert set(queries("postgres")) <= set(divided_queries())
