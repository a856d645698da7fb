"""What only a file can do: be too new, broken, full, locked, shared with another process, or read with plain SQL."""

import asyncio
import fcntl
import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import ROOT
from toolcrib import ToolFailure, testing, tool
from toolcrib.errors import StoreError, StoreTooNew, StoreUnavailable
from toolcrib.events import Event
from toolcrib.store import State, Write
from toolcrib.store.codec import LARGE, encode, raw
from toolcrib.store.schema import migrate, migrations, queries
from toolcrib.store.sqlite import writer
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.store.sqlite.workers import Workers, _byte
from toolcrib.store.sqlite.writer import insert_row
from toolcrib.testing.index_check import read_all
from toolcrib.testing.stores.fixture import AT, claim, commit, finish, line, new, note, settle, submit, texts
from toolcrib.testing.stores.followers import follow
from toolcrib.types import Effect


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@asynccontextmanager
async def opened(file: Path, worker: str = "worker-1") -> AsyncIterator[SqliteStore]:
    store = SqliteStore(f"sqlite:///{file}")
    await store.start(worker)
    try:
        await store.open("s", "ada", AT)
        yield store
    finally:
        await store.close()


@contextmanager
def no_room(store: SqliteStore) -> Iterator[None]:
    """There is room for two more pages."""
    (pages,) = store._writing.execute("PRAGMA page_count").fetchone()
    store._writing.execute(f"PRAGMA max_page_count = {pages + 2}")
    yield
    store._writing.execute("PRAGMA max_page_count = 1000000")


async def refusal(file: Path) -> str:
    """What `start` says of a file that it does not take."""
    with pytest.raises(StoreUnavailable) as caught:
        await SqliteStore(f"sqlite:///{file}").start("worker-1")
    return str(caught.value)


def sql(file: Path, statement: str) -> list[Any]:
    """What anybody reads with plain SQL."""
    with closing(sqlite3.connect(file)) as db:
        return db.execute(statement).fetchall()


@asynccontextmanager
async def second(file: Path, worker: str, count: int = 0) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that has the file open."""
    command = (sys.executable, "-m", "tests.store.second", f"sqlite:///{file}", worker, str(count))
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, **pipes)  # type: ignore[arg-type]
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None and process.stdin is not None:
            process.stdin.close()
        await process.wait()


# Opening


async def test_a_newer_schema_is_refused(file: Path) -> None:
    async with opened(file) as store:
        await store.commit(note("s", "kept"))
    newest = migrations()[-1][0]
    sql(file, f"PRAGMA user_version = {newest + 1}")
    with pytest.raises(StoreTooNew, match=f"{file.name} has schema {newest + 1}, this program knows {newest}"):
        await SqliteStore(f"sqlite:///{file}").start("worker-1")
    sql(file, f"PRAGMA user_version = {newest}")
    async with opened(file) as store:
        assert await texts(store) == ["kept"]


async def test_a_file_is_migrated_once_by_two_who_open_it_at_once(file: Path) -> None:
    stores = [SqliteStore(f"sqlite:///{file}") for _ in range(4)]
    await asyncio.gather(*(store.start(f"w{n}") for n, store in enumerate(stores)))
    assert sql(file, "PRAGMA user_version") == [(migrations()[-1][0],)]
    for store in stores:
        await store.close()


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "the folder" in await refusal(tmp_path / "absent" / "log.db")


async def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    assert "unable to open" in await refusal(tmp_path)


async def test_a_file_that_is_no_database_is_refused_and_left_alone(file: Path) -> None:
    file.write_text("my notes\n" * 1000)
    assert "not a database" in await refusal(file)
    assert file.read_text() == "my notes\n" * 1000


async def test_a_lock_file_that_cannot_be_made_is_explained(file: Path) -> None:
    Path(f"{file}-workers").mkdir()
    assert "log.db-workers" in await refusal(file)


async def test_a_file_that_was_refused_can_be_opened_once_it_is_mended(file: Path) -> None:
    file.write_text("my notes\n" * 1000)
    store = SqliteStore(f"sqlite:///{file}")
    with pytest.raises(StoreUnavailable):
        await store.start("worker-1")
    file.unlink()
    await store.start("worker-1")
    await store.open("s", "ada", AT)
    await store.close()


READ_ONLY = """
import asyncio, os, sys
from toolcrib.errors import StoreUnavailable
from toolcrib.store.schema import migrations, queries
from toolcrib.store.sqlite.store import SqliteStore

queries()
if os.geteuid() == 0:  # root may write anything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    asyncio.run(SqliteStore(f"sqlite:///{sys.argv[1]}").start("worker-1"))
except StoreUnavailable as error:
    print(error)
"""


@pytest.mark.process
async def test_a_file_that_may_not_be_written_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.db"
        async with opened(file) as store:
            await store.commit(note("s"))
        file.chmod(0o444)
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", READ_ONLY, str(file)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, cwd=ROOT)
        Path(folder).chmod(0o755)
    assert done.stdout.startswith(f"Cannot open {file}: "), done.stderr
    assert "readonly" in done.stdout or "unable to open" in done.stdout


def test_a_url_without_a_file_is_refused() -> None:
    for url in ("sqlite:", "sqlite:///", "sqlite://host/x.db?sync=never"):
        with pytest.raises(StoreError):
            SqliteStore(url)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("sync=never", "sync is 'start' or 'full'"),
        ("lease=soon", "lease is a number of seconds"),
        ("lease=-1", "lease is a number of seconds"),
        ("lease=0", "lease is a number of seconds"),
        ("lease=0.0", "lease is a number of seconds"),
    ],
)
def test_an_option_of_a_url_that_makes_no_sense_is_refused(file: Path, option: str, words: str) -> None:
    assert SqliteStore(f"sqlite:///{file}?sync=full&lease=0.5").path == file
    with pytest.raises(StoreError, match=words):
        SqliteStore(f"sqlite:///{file}?{option}")


# When the file cannot be written


async def test_a_full_disk_leaves_nothing_half_written_and_is_forgotten_when_there_is_room(file: Path) -> None:
    async with opened(file) as store:
        row = await commit(store, claim(await commit(store, submit(new("c")))))
        (pages,) = store._writing.execute("PRAGMA page_count").fetchone()
        store._writing.execute(f"PRAGMA max_page_count = {pages + 2}")
        big = finish(row, data="x" * 500_000)
        with pytest.raises(StoreUnavailable, match="free some space"):
            await store.commit(Write("s", [line("first"), *big.events], big.row, big.expect))
        assert [event.kind for event in await store.read("s")] == ["accepted", "started"]
        assert (await testing.check_index(store, "s"))["c"].status == "running"
        store._writing.execute("PRAGMA max_page_count = 1000000")
        assert await store.commit(big) is None
        assert (await testing.check_index(store, "s"))["c"].status == "succeeded"


async def test_a_put_waits_for_room_and_nothing_that_builds_on_it_is_lost(file: Path) -> None:
    async with opened(file) as store:
        row = await commit(store, submit(new("c")))
        (pages,) = store._writing.execute("PRAGMA page_count").fetchone()
        store._writing.execute(f"PRAGMA max_page_count = {pages + 2}")
        running = claim(row)
        running.events = [*running.events, line("x" * 500_000, call="c")]
        store.put(running)
        assert running.row is not None
        with pytest.raises(StoreUnavailable):
            await store.commit(finish(running.row))
        store._writing.execute("PRAGMA max_page_count = 1000000")
        assert await store.commit(finish(running.row)) is None
        assert [event.kind for event in await store.read("s")] == ["accepted", "started", "notice", "done"]
        await testing.check_index(store, "s")


async def test_writes_that_nobody_waits_for_keep_their_order_until_there_is_room_and_are_told_once(file: Path) -> None:
    heard: list[str] = []
    async with opened(file) as store:
        row = await commit(store, submit(new("c")))
        with no_room(store):
            running = claim(row)
            running.events = [*running.events, line("x" * 500_000, call="c")]
            assert running.row is not None
            done = finish(running.row)
            running.on_commit, done.on_commit = partial(heard.append, "running"), partial(heard.append, "done")
            done.on_conflict = lambda _: heard.append("refused")
            store.put(running)
            store.put(done)
            await store.flush()
            await store.flush()  # it was tried twice, and neither is given up
            assert heard == []
        await store.commit(note("s", "after"))
        assert heard == ["running", "done"]
        kinds = [event.kind for event in await store.read("s")]
        assert kinds == ["accepted", "started", "notice", "done", "notice"]
        await testing.check_index(store, "s")


async def test_of_writes_that_nobody_waits_for_the_first_are_kept_while_there_is_no_room(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LATE", 2)
    async with opened(file) as store:
        with no_room(store):
            for number in range(4):
                store.put(note("s", f"{number}" * 500_000))
            await store.flush()
        await store.commit(note("s", "after"))
        assert [text[:5] for text in await texts(store)] == ["00000", "11111", "after"]


async def test_who_made_a_write_that_nobody_waits_for_is_told_what_stood_in_its_way(file: Path) -> None:
    heard: list[Any] = []
    async with opened(file) as store:
        row = await commit(store, claim(await commit(store, submit(new("c")))))
        await store.commit(finish(row))
        late = finish(row)
        late.on_commit, late.on_conflict = partial(heard.append, "written"), heard.append
        store.put(late)
        await store.flush()
        assert [conflict.row.state for conflict in heard] == ["done"]
        assert [event.kind for event in await store.read("s")] == ["accepted", "started", "done"]


async def test_a_locked_file_is_an_error_and_then_goes_on(file: Path) -> None:
    async with opened(file) as store:
        store._writing.execute("PRAGMA busy_timeout = 20")
        with closing(sqlite3.connect(file, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            outcomes = await asyncio.gather(*(store.commit(note("s")) for _ in range(3)), return_exceptions=True)
            assert all(isinstance(outcome, StoreUnavailable) and "locked" in str(outcome) for outcome in outcomes)
            holder.execute("ROLLBACK")
        assert await store.commit(note("s", "after")) is None
        assert await texts(store) == ["after"]


async def test_a_store_that_cannot_write_its_rest_still_lets_go(file: Path) -> None:
    store = SqliteStore(f"sqlite:///{file}")
    await store.start("worker-1")
    store._writing.execute("PRAGMA busy_timeout = 20")
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        await store.close()
    async with opened(file, "worker-2") as after:
        assert not await after.alive("worker-1")


async def test_a_broken_page_is_an_error_with_advice(file: Path) -> None:
    async with opened(file) as store:
        for _ in range(50):
            await store.commit(Write("s", [line("x" * 5000)]))
    with file.open("r+b") as pages:
        pages.seek(8192)
        pages.write(b"\xff" * (file.stat().st_size - 8192))
    with pytest.raises(StoreUnavailable, match=r"malformed|not a database"):
        await _read(file)


async def _read(file: Path) -> None:
    async with opened(file) as store:
        await read_all(store, "s")


async def test_whoever_follows_a_store_that_closes_hears_of_it(file: Path) -> None:
    async with opened(file) as store:
        reader = asyncio.create_task(follow(store, "s", []))
        await store.commit(note("s"))
    with pytest.raises(StoreUnavailable, match="closed"):
        await asyncio.wait_for(reader, 60)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell which files are open")
async def test_a_closed_store_leaves_no_file_open(file: Path) -> None:
    for _ in range(2):
        async with opened(file):
            pass
        links = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        assert [link for link in links if str(file) in link] == []


async def test_a_closed_store_takes_no_writes(file: Path) -> None:
    async with opened(file) as store:
        pass
    store.put(note("s"))
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.commit(note("s"))


# Another process


@requirement("store.4")
@pytest.mark.process
async def test_a_reader_sees_all_that_another_process_writes_in_order(file: Path) -> None:
    async with opened(file) as store:
        seen: list[Event] = []
        reader = asyncio.create_task(follow(store, "s", seen, 700))
        async with second(file, "other", 500):
            for number in range(200):
                await store.commit(note("s", f"own {number}"))
            await reader
        assert [event.seq for event in seen] == list(range(1, 701))
        for who, count in (("own", 200), ("other", 500)):
            said = [event.fields["text"] for event in seen if event.fields["text"].startswith(who)]
            assert said == [f"{who} {number}" for number in range(count)]
        assert seen == await read_all(store, "s")


@pytest.mark.parametrize(
    "write", [Write("s", [line()]), Write("s", [line(call="c")], revision=(0, 1))], ids=["own line", "state"]
)
async def test_a_change_of_a_session_itself_or_of_its_state_is_told_to_others(file: Path, write: Write) -> None:
    async with opened(file) as one, opened(file, "worker-2") as other:
        changed = asyncio.Event()
        one.own_changed = lambda session: changed.set()
        assert one.moved is not None
        before = one.moved()
        await other.commit(Write("s", [line(call="c")]))
        assert one.moved() == before, "events of calls concern nobody else"
        await other.commit(write)
        assert one.moved() != before
        await asyncio.wait_for(changed.wait(), 60)


@pytest.mark.process
async def test_a_worker_is_alive_until_its_process_is_killed(file: Path) -> None:
    async with opened(file) as store:
        async with second(file, "other") as process:
            assert await store.alive("other")
            assert await store.alive("worker-1")
            process.send_signal(signal.SIGKILL)
            await process.wait()
            assert not await store.alive("other")
        assert await store.alive("worker-1")


@pytest.mark.process
@pytest.mark.process
def test_a_worker_that_had_its_file_alone_keeps_its_own_lock_and_no_other(file: Path) -> None:
    look = (
        "import sys; from pathlib import Path; from toolcrib.store.sqlite.workers import Workers\n"
        "other = Workers(Path(sys.argv[1]), 'other')\n"
        "with other.alone() as alone: print(other.alive('worker-1'), other.alive('third'), alone)"
    )
    worker = Workers(file, "worker-1")
    try:
        for _ in range(2):
            with worker.alone() as alone:
                assert alone
            command = [sys.executable, "-c", look, str(file)]
            assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True False False\n"
        fcntl.lockf(worker.shared.fd, fcntl.LOCK_UN, 1, _byte("worker-1"))
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert found == "False False True\n"  # not a byte of it was left locked
    finally:
        worker.leave()


@pytest.mark.process
async def test_what_a_killed_process_committed_is_there(file: Path) -> None:
    async with opened(file) as store:
        async with second(file, "other", 100) as process:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"done\n"
            process.send_signal(signal.SIGKILL)
            await process.wait()
        assert await texts(store) == [f"other {number}" for number in range(100)]
        assert await store.commit(note("s", "after")) is None


# What the file holds


class Traced(SqliteStore):
    """A store that remembers every statement of its connections, in order."""

    def _connect(self) -> sqlite3.Connection:
        self.statements: list[str] = getattr(self, "statements", [])
        db = super()._connect()
        db.set_trace_callback(self.statements.append)
        return db

    def levels(self, kind: str) -> list[str]:
        """How the transactions were synced that wrote an event of that kind."""
        level, wrote, found, within = "NORMAL", False, [], False
        for statement in self.statements:
            if statement.startswith("PRAGMA synchronous") and not within:  # SQLite takes no heed of it within one
                level = statement.rpartition(" ")[2]
            within = within or statement.startswith("BEGIN")
            wrote = wrote or (statement.startswith("INSERT INTO events") and f"'{kind}'" in statement)
            if statement in ("COMMIT", "ROLLBACK"):
                found += [level] if wrote and statement == "COMMIT" else []
                wrote = within = False
        return found


@requirement("reliability.proof.17")
@pytest.mark.parametrize(("effect", "level"), [("once", "FULL"), ("idempotent", "NORMAL")])
async def test_the_start_of_a_once_call_waits_for_the_disk(file: Path, effect: Effect, level: str) -> None:
    store = Traced(f"sqlite:///{file}")
    seen: list[list[str]] = []

    @tool(effect=effect)
    async def pay() -> None:
        """Pay."""
        await store.flush()
        seen.append(store.levels("started"))

    async with testing.crib(pay, store=store) as crib:
        session = await crib.open("s", owner="ada")
        for number in range(3):
            assert (await session.call("pay")).ok
            assert seen[-1] == [level] * (number + 1)
        assert "NORMAL" in store.levels("opened")


@requirement("reliability.proof.17")
async def test_a_start_among_many_writes_waits_for_the_disk_too(file: Path) -> None:
    store = Traced(f"sqlite:///{file}")

    @tool(effect="once")
    async def pay(n: int) -> int:
        """Pay."""
        return n

    async with testing.crib(pay, store=store) as crib:
        session = await crib.open("s", owner="ada")
        await asyncio.gather(*(session.call("pay", {"n": n}) for n in range(50)))
        assert set(store.levels("started")) == {"FULL"}


@requirement("store.6")
async def test_large_data_is_in_the_file_once(file: Path) -> None:
    json_text = encode("x" * (LARGE + 1))
    async with opened(file) as store:
        for _ in range(3):
            await store.commit(Write("s", [line(args=raw(json_text), data=raw(json_text))]))
    assert sql(file, "SELECT count(*), sum(length(data)) FROM kept") == [(1, len(json_text))]
    assert sql(file, "SELECT max(length(data)) FROM events")[0][0] < 100


@requirement("store.6")
async def test_any_large_field_is_kept_beside_the_log_and_read_back_whole(file: Path) -> None:
    value = {"name": "x" * (LARGE + 1)}
    async with opened(file) as store:
        await store.commit(Write("s", [line(key="pay", value=value, note="small")]))
    assert sql(file, "SELECT max(length(data)) FROM events")[0][0] < 100
    async with opened(file) as store:
        assert (await store.read("s"))[0].fields == {"text": "", "key": "pay", "value": value, "note": "small"}


@requirement("store.6")
async def test_a_sweep_deletes_a_long_session_in_several_transactions(file: Path) -> None:
    async with opened(file) as store:
        for _ in range(200):
            await store.commit(Write("s", [line() for _ in range(1000)]))
        commits: list[str] = []
        store._writing.set_trace_callback(lambda said: commits.append(said) if said == "COMMIT" else None)
        assert await store.sweep(AT + 1, AT + 1) == 1
        store._writing.set_trace_callback(None)
        assert len(commits) >= 40
    left = [sql(file, f"SELECT count(*) FROM {name}")[0][0] for name in ("sessions", "events", "calls", "swept")]
    assert left == [0, 0, 0, 0]


async def test_what_a_killed_sweep_left_is_deleted_by_the_next(file: Path) -> None:
    async with opened(file) as store:
        await store.commit(Write("s", [line() for _ in range(7000)]))
        sweeping = asyncio.create_task(store.sweep(AT + 1, AT + 1))
        while await store.session("s") is not None:
            pass
        sweeping.cancel()
        await asyncio.wait([sweeping])
    async with opened(file) as store:
        await store.sweep(AT, AT)
    assert sql(file, "SELECT count(*) FROM events") == [(0,)]
    assert sql(file, "SELECT count(*) FROM swept") == [(0,)]


async def test_a_sessions_own_lines_are_found_without_reading_its_calls(file: Path) -> None:
    async with opened(file) as store:
        plan: list[str] = []
        store._reading.set_trace_callback(plan.append)
        await store.read("s", call="")
        (statement,) = [said for said in plan if "FROM events" in said]
    assert "events_of_session" in str(sql(file, f"EXPLAIN QUERY PLAN {statement}"))


# Aomi's table


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


def rows(file: Path) -> list[dict[str, Any]]:
    """The view, as anybody reads it."""
    with closing(sqlite3.connect(file)) as db:
        db.row_factory = sqlite3.Row
        found = [dict(row) for row in db.execute("SELECT * FROM session_tool_state ORDER BY session_id")]
    return [{**row, "handler_state": json.loads(row["handler_state"])} for row in found]


@requirement("store.8")
async def test_the_view_shows_sessions_to_plain_sql(file: Path) -> None:
    async with testing.crib(echo, broken, store=f"sqlite:///{file}") as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["time"])
        await crib.clock.advance(90.5)
        await session.notice("used")
        await crib.open("s-2", owner="bob", namespaces=["forge"])
        first, second = rows(file)
    assert list(first) == ["session_id", "user_id", "last_updated", "handler_state", "created_at"]
    assert (first["session_id"], first["user_id"]) == ("s-1", "ada")
    assert (first["created_at"], first["last_updated"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:30.500Z")
    assert (second["session_id"], second["user_id"]) == ("s-2", "bob")


async def test_the_view_cannot_be_written(file: Path) -> None:
    async with opened(file):
        with pytest.raises(sqlite3.OperationalError, match="view"):
            sql(file, "DELETE FROM session_tool_state")


@requirement("aomi.table.2")
async def test_the_view_names_namespaces_and_tools_of_now(file: Path) -> None:
    async with testing.crib(echo, broken, store=f"sqlite:///{file}") as crib:
        await crib.open("s", owner="ada", namespaces=["time"])
        (row,) = rows(file)
        assert row["handler_state"] == {"namespaces": ["time"], "available_tools": ["time.echo"], "completed_calls": []}
        await crib.open("s", owner="ada", namespaces=["forge", "time"])
        (row,) = rows(file)
        assert row["handler_state"]["namespaces"] == ["forge", "time"]
        assert row["handler_state"]["available_tools"] == ["forge.broken", "time.echo"]
        crib.add(later)
        await crib.clock.settle()
        await crib.store.flush()
        (row,) = rows(file)
        assert row["handler_state"]["available_tools"] == ["forge.broken", "time.echo", "time.later"]


@requirement("store.8", "aomi.table.3")
async def test_the_view_lists_what_the_model_has_not_consumed(file: Path) -> None:
    async with testing.crib(echo, later, broken, store=f"sqlite:///{file}") as crib:
        session = await crib.open("s", owner="ada", namespaces=["time", "forge"])
        first = await session.submit("echo", {"value": {"status": "success", "n": [1, None, "é"]}})
        await session.result(first.id)
        second = await session.submit("later", {"value": "soon"})
        await session.result(second.id)
        third = await session.submit("broken")
        await session.result(third.id)
        (row,) = rows(file)
        assert row["handler_state"]["completed_calls"] == [
            _entry(first.id, "echo", True, {"Ok": {"status": "success", "n": [1, None, "é"]}}),
            _entry(second.id, "later", False, {"Ok": "soon"}),
            _entry(third.id, "broken", True, {"Err": "The forge is cold"}),
        ]
        await session.consume("model", (await session._row(second.id)).done_seq or 0)
        (row,) = rows(file)
        assert [entry["call_id"] for entry in row["handler_state"]["completed_calls"]] == [third.id]


def _entry(call: str, tool: str, sync: bool, result: Any) -> dict[str, Any]:
    return {"call_id": call, "tool_name": tool, "sync": sync, "result": result}


async def test_the_view_shows_any_result_as_it_is(file: Path) -> None:
    values: list[Any] = [None, True, 0, 1.5, "", "text", [], {}, {"a": {"b": [1]}}, "x" * (LARGE + 1), 2**64]
    async with testing.crib(echo, store=f"sqlite:///{file}") as crib:
        session = await crib.open("s", owner="ada", namespaces=["time"])
        for value in values:
            await session.call("echo", {"value": value})
        await crib.store.flush()
        (row,) = rows(file)
        shown = [entry["result"]["Ok"] for entry in row["handler_state"]["completed_calls"]]
        assert shown == values


async def test_the_view_shows_a_settled_call_once_with_what_it_was_settled_to(file: Path) -> None:
    async with opened(file) as store:
        running = await commit(store, claim(await commit(store, submit(new("c")))))
        unknown = await commit(store, finish(running, "unknown"))
        assert completed(file) == [{"Err": "It went wrong"}]
        await store.commit(settle(unknown, data="paid"))
        assert completed(file) == [{"Ok": "paid"}]
        await store.move_cursor("s", "model", 3)
        assert completed(file) == [{"Ok": "paid"}]
        await store.move_cursor("s", "model", 4)
        assert completed(file) == []


def completed(file: Path) -> list[Any]:
    (row,) = rows(file)
    return [entry["result"] for entry in row["handler_state"]["completed_calls"]]


@requirement("aomi.table.4")
async def test_sessions_are_found_by_owner_and_by_last_use_without_a_scan(file: Path) -> None:
    async with opened(file):
        for column in ("owner", "updated_at"):
            plan = sql(file, f"EXPLAIN QUERY PLAN SELECT * FROM sessions WHERE {column} = 1")
            assert "SEARCH sessions USING INDEX" in str(plan)


@pytest.mark.parametrize(
    "statement",
    ["insert_call", "insert_plain_call", "insert_open_call", "update_call", "update_plain_call", "insert_event"],
)
def test_no_index_makes_a_table_of_its_own_for_every_row_that_is_written(statement: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, "memory")
        text = queries()[statement]
        steps = {step for _, step, *_ in db.execute(f"EXPLAIN {text}", (0,) * text.count("?"))}
    assert steps & {"Insert", "IdxInsert"}
    assert not steps & {"OpenEphemeral", "OpenAutoindex"}


def test_the_leases_of_a_session_are_found_by_their_index() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, "memory")
        plan = [line for *_, line in db.execute(f"EXPLAIN QUERY PLAN {queries()['delete_leases']}", {"n": 1})]
    assert plan == ["SEARCH calls USING INDEX calls_leases (session=?)"]


async def test_a_call_that_goes_on_as_a_plain_one_keeps_nothing_of_what_it_had(file: Path) -> None:
    before = new("c", state="waiting", code="denied", question="{}", expires_at=AT + 9, crashes=2)
    after = before.but(state="running", attempt=1, worker="w", code=None, question=None, expires_at=None, crashes=0)
    async with opened(file) as store:
        await commit(store, submit(before))
        await commit(store, Write("s", [], after, ("waiting", 0)))
        assert await store.call("c") == after.but(accepted_seq=1)


@pytest.mark.parametrize("state", ["queued", "running", "done"])
def test_the_statements_of_plain_calls_write_what_that_of_all_calls_does(state: State) -> None:
    done_seq = 9 if state == "done" else None
    plain = new("c", state=state).but(attempt=1, worker="w", accepted_seq=7, done_seq=done_seq)
    rows = []
    for row in (plain, plain.but(background=True)):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            migrate(db, "memory")
            assert insert_row(db, 3, row)
            assert not insert_row(db, 3, row)
            db.execute("UPDATE calls SET background = 0")
            rows.append(db.execute("SELECT * FROM calls").fetchall())
    assert rows[0] == rows[1]


async def test_nobody_looks_for_what_others_write_when_nobody_follows(tmp_path: Path) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/log.db")
    await store.start("w")
    before = asyncio.all_tasks()
    stop = store.watch(lambda session: None)
    (looking,) = asyncio.all_tasks() - before
    stop()
    await asyncio.wait_for(looking, 60)
    again = store.watch(lambda session: None)
    assert asyncio.all_tasks() - before
    again()
    await store.close()
    assert asyncio.all_tasks() <= before
