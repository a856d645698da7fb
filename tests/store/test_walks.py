"""What walks over many calls cost, and that stores of an earlier schema have all that they need."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.requirements import requirement
from tests.shared import nonempty
from toolcrib.store import Store, WalkFilter, open_store, walks
from toolcrib.store.memory import MemoryStore
from toolcrib.store.schema import migrations, queries
from toolcrib.testing.services import execute
from toolcrib.testing.stores.fixture import AT, commit, finish, new, park, submit
from toolcrib.testing.stores.walks import walked

EVERY = [
    WalkFilter(),
    WalkFilter("ended"),
    WalkFilter(owner="ada"),
    WalkFilter("ended", owner="ada", oldest_first=True),
    WalkFilter(codes=("failed", "internal")),
    WalkFilter(codes=("unknown",)),
    WalkFilter(states=("waiting",)),
    WalkFilter(session="s"),
    WalkFilter("ended", session="s"),
]

LOG = """
INSERT INTO sessions (id, owner, created_at, updated_at) VALUES ('s', 'ada', 100, 104), ('t', 'bob', 100, 103);
INSERT INTO events ({place}, at, call, kind, data) VALUES
    ({s1}, 101, 'a', 'accepted', '{{"tool":"shop.refund"}}'), ({s2}, 104, 'a', 'done', '{{"ok":true}}'),
    ({t1}, 102, 'b', 'accepted', '{{"tool":"shop.refund"}}'), ({t2}, 103, 'b', 'done', '{{"ok":false}}');
INSERT INTO calls (id, session, {owner}tool, effect, state, attempt, accepted_at, background, code, crashes,
    accepted_seq, done_seq) VALUES
    ('a', 1, {ada}'shop.refund', 'once', 'done', 1, 101, {no}, NULL, 0, 1, 2),
    ('b', 2, {bob}'shop.refund', 'once', 'done', 1, 102, {no}, 'unknown', 0, 1, 2);
"""


async def has_all(store: Store) -> None:
    """The log of an earlier schema is found in every way."""
    await store.start("worker-1")
    try:
        assert [spot.row.id for spot in await walked(store, WalkFilter())] == ["b", "a"]
        assert [spot.row.id for spot in await walked(store, WalkFilter("ended"))] == ["a", "b"]
        assert [spot.owner for spot in await walked(store, WalkFilter(codes=("unknown",)))] == ["bob"]
        assert [spot.row.id for spot in await walked(store, WalkFilter(owner="ada"))] == ["a"]
        assert [row.id for row in await store.sessions(limit=1)] == ["s"]
        assert [event.kind for event in await store.read("s")] == ["accepted", "done"]
    finally:
        await store.close()


@requirement("store.7")
async def test_a_file_of_the_schema_before_is_brought_up_to_date(tmp_path: Path) -> None:
    old = "".join(text for number, text in migrations() if number < 3)
    places = {f"{'_st'[n]}{seq}": (n << 32) + seq for n in (1, 2) for seq in (1, 2)}
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        db.executescript(old + LOG.format(place="key", owner="", ada="", bob="", no=0, **places))
        db.execute("PRAGMA user_version = 2")
    await has_all(open_store(f"sqlite:///{tmp_path}/log.db"))


def make_old(postgres_url: str) -> None:
    """A database of schema 2."""
    for number, text in migrations("postgres"):
        if number < 3:
            execute(postgres_url, text)
    execute(postgres_url, "CREATE TABLE schema_version (version integer NOT NULL, cluster text NOT NULL)")
    execute(postgres_url, "INSERT INTO schema_version VALUES (2, 'one')")


async def test_a_database_is_brought_up_to_date_while_others_write(empty_postgres_url: str) -> None:
    make_old(empty_postgres_url)
    store = open_store(empty_postgres_url)
    writer = await asyncpg.connect(empty_postgres_url)
    watcher = await asyncpg.connect(empty_postgres_url)
    try:
        async with asyncio.timeout(60):
            # Whoever writes has locked a session first, as a node of the schema before does, and comes to the log then.
            write = writer.transaction()
            await write.start()
            await writer.execute("LOCK TABLE sessions IN ROW SHARE MODE")
            starting = asyncio.create_task(store.start("worker-1"))
            while not await watcher.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                assert not starting.done()
                await asyncio.sleep(0.01)
            await writer.execute("INSERT INTO events (session, seq, at, kind, data) VALUES (1, 1, 100, 'opened', '{}')")
            await write.commit()
            await starting
    finally:
        await writer.close()
        await watcher.close()
    assert [event.kind for event in await store.read("s")] == []
    await store.close()
    assert execute(empty_postgres_url, "SELECT version FROM schema_version") == str(migrations("postgres")[-1][0])


@requirement("store.7")
async def test_a_database_of_the_schema_before_is_brought_up_to_date(empty_postgres_url: str) -> None:
    make_old(empty_postgres_url)
    places = {"s1": "1, 1", "s2": "1, 2", "t1": "2, 1", "t2": "2, 2"}
    names = {"owner": "owner, ", "ada": "'ada', ", "bob": "'bob', "}
    execute(empty_postgres_url, LOG.format(place="session, seq", no="false", **names, **places))
    execute(empty_postgres_url, "UPDATE sessions SET seq = 2")
    await has_all(open_store(empty_postgres_url))


@pytest.mark.parametrize("where", EVERY, ids=str)
def test_a_walk_over_a_file_goes_along_an_index_and_sorts_nothing(where: WalkFilter, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        db.executescript("".join(text for _, text in migrations()))
        for text in nonempty(walks.statements("sqlite", where)):
            plan = [line[3] for line in db.execute(f"EXPLAIN QUERY PLAN {text}", Anything())]
            assert "SEARCH" in plan[0]
            assert not [line for line in plan if "TEMP B-TREE" in line or line.startswith(("SCAN c", "SCAN events"))]


class Anything(dict[str, Any]):
    """A value for every name."""

    def __missing__(self, name: str) -> int:
        return 0


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    file = f"sqlite:///{tmp_path}/log.db"
    made = open_store(file if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    await made.start("worker-1")
    yield made
    await made.close()


@pytest.mark.parametrize("forward", [False, True])
async def test_a_walk_looks_at_so_many_calls_and_no_more_at_once(
    store: Store, forward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "SCAN", 10)
    monkeypatch.setattr(walks, "OWN_EVENTS", 1)  # more than that is much of one's own
    await store.open("s", "ada", AT)
    await store.open("t", "bob", AT)
    for number in range(35):
        row = new(f"c{number}", "t" if number == 17 else "s").but(accepted_at=AT + number // 4)
        await store.commit(finish(await commit(store, submit(row, at=row.accepted_at))))
    for where in (WalkFilter(owner="bob"), WalkFilter("ended", owner="bob")):
        pages = [await store.walk(where._replace(oldest_first=forward))]
        while pages[-1].next is not None:
            pages.append(await store.walk(where._replace(oldest_first=forward), pages[-1].next))
        assert [spot.row.id for page in pages for spot in page.spots] == ["c17"]
        assert len(pages) == 4
    assert len(await walked(store, WalkFilter(oldest_first=forward), 7)) == 35


@requirement("security.fair.3")
@pytest.mark.parametrize("forward", [False, True])
async def test_the_few_calls_of_an_owner_are_found_without_looking_at_those_of_others(
    store: Store, forward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "SCAN", 10)
    await store.open("s", "ada", AT)
    for session in ("t", "u"):
        await store.open(session, "bob", AT)
    own = {3: "t", 17: "u", 34: "t"}
    for number in range(35):
        row = new(f"c{number}", own.get(number, "s")).but(accepted_at=AT + number // 4)
        end = finish(await commit(store, submit(row, at=row.accepted_at)), "failed")
        end.events = [(row.accepted_at, *end.events[0][1:])]
        await store.commit(end)
    expected = ["c3", "c17", "c34"] if forward else ["c34", "c17", "c3"]
    for where in (WalkFilter(), WalkFilter("ended"), WalkFilter(states=("done",), codes=("failed",))):
        page = await store.walk(where._replace(owner="bob", oldest_first=forward))
        assert ([spot.row.id for spot in page.spots], page.next) == (expected, None)
        assert {spot.owner for spot in page.spots} == {"bob"}
        first = await store.walk(where._replace(owner="bob", oldest_first=forward), limit=2)
        rest = await store.walk(where._replace(owner="bob", oldest_first=forward), first.next)
        assert [spot.row.id for spot in first.spots + rest.spots] == expected


@requirement("security.fair.3")
def test_what_an_owner_has_is_looked_for_in_their_own_logs(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        db.executescript("".join(text for _, text in migrations()))
        for over in ("accepted", "ended"):
            for text in nonempty(walks.statements("sqlite", WalkFilter(over, owner="bob"), few=True)):
                plan = [line[3] for line in db.execute(f"EXPLAIN QUERY PLAN {text}", Anything())]
                assert [line for line in plan if "events_accepted" in line or "events_ended" in line] == []
                assert [line for line in plan if line.startswith("SEARCH o")]
                assert [line for line in plan if line.startswith("SEARCH e USING INTEGER PRIMARY KEY")]


class Unread(list[Any]):
    """A log that nobody may read."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("the log was read")


@pytest.mark.parametrize(
    "where", [WalkFilter(), WalkFilter(states=("waiting",), oldest_first=True), WalkFilter(session="s")], ids=str
)
async def test_calls_are_found_in_memory_without_reading_the_log(where: WalkFilter) -> None:
    store = MemoryStore()
    await store.open("s", "ada", AT)
    await store.commit(park(await commit(store, submit(new("c")))))
    store._logs["s"].events = Unread(store._logs["s"].events)
    assert [spot.row.id for spot in await walked(store, where)] == ["c"]


def steps(db: sqlite3.Connection, ask: Callable[[sqlite3.Connection], object]) -> int:
    """How many steps SQLite takes to answer."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    db.set_progress_handler(step, 1)
    try:
        ask(db)
    finally:
        db.set_progress_handler(None, 1)
    return count


@requirement("security.fair.3")
async def test_what_an_owner_has_open_is_found_in_a_file_without_a_look_at_what_others_have(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    await store.start("worker-1")
    await store.open("quiet", "bob", AT)
    await store.open("noisy", "ada", AT)
    await store.commit(park(await commit(store, submit(new("mine", "quiet")))))
    values = {"owner": "bob", "states": '["waiting"]', "limit": 10}
    asks: list[Callable[[sqlite3.Connection], object]] = [
        lambda db: walks.in_file(db, WalkFilter(states=("waiting",), owner="bob", oldest_first=True), None, 10).spots,
        lambda db: walks.in_file(db, WalkFilter(states=("queued", "running"), owner="bob"), None, 10).spots,
        lambda db: db.execute(queries()["calls_of_owner"], values).fetchall(),
        lambda db: db.execute(queries()["open_calls_of"], values).fetchall(),
    ]
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        for ask in asks:  # the first time it reads the schema
            ask(db)
        before = [steps(db, ask) for ask in asks]
        for number in range(200):
            row = await commit(store, submit(new(f"c{number}", "noisy")))
            if number % 2:
                await store.commit(park(row))
        after = [steps(db, ask) for ask in asks]
    await store.close()
    assert all(later <= first + 5 for first, later in zip(before, after, strict=True)), (before, after)
