"""Damage of a file is found: changed pages, changed bytes inside a value, and a copy that lost its WAL."""

import asyncio
import random
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.durability.processes import Script
from tests.requirements import requirement
from toolcrib import Crib, tool
from toolcrib.cli.verify import differences, every_session
from toolcrib.errors import StoreUnavailable
from toolcrib.store import open_store
from toolcrib.store.sqlite.checkpoint import IN_USE, wal
from toolcrib.store.sqlite.integrity import accept_loss, damages

CALLS = 150


@tool(read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def problems(file: Path) -> list[str]:
    """All that a verification tells of a file."""
    if found := [one.problem for one in damages(file)]:
        return found
    store = open_store(f"sqlite:///{file}")
    await store.start("verifier")
    try:
        rows = [row async for row in every_session(store)]
        return [one.problem for row in rows for one in await differences(store, row.id)]
    finally:
        await store.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with logs, large values and cursors in which nothing was ever deleted."""
    file = tmp_path_factory.mktemp("filled") / "log.db"

    async def fill() -> None:
        async with Crib([echo], store=f"sqlite:///{file}") as crib:
            for name in ("a", "b"):
                session = await crib.open(name, owner="ada")
                for number in range(CALLS):
                    await session.call("echo", {"text": f"{number} " * 20})
                for number in range(3):
                    await session.call("echo", {"text": f"{number}" * 70_000})
                await session.completed("ui")

    asyncio.run(fill())
    return file


def page_size(file: Path) -> int:
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA freelist_count").fetchone() == (0,)
        return int(db.execute("PRAGMA page_size").fetchone()[0])


@requirement("reliability.keep.1")
@pytest.mark.parametrize("seed", range(12))
async def test_a_damaged_page_is_found(filled: Path, tmp_path: Path, seed: int) -> None:
    chance, size = random.Random(seed), page_size(filled)
    content = bytearray(filled.read_bytes())
    start = chance.randrange(len(content) // size) * size
    content[start : start + size] = chance.choice([bytes(size), chance.randbytes(size)])
    copy = tmp_path / "copy.db"
    copy.write_bytes(content)
    assert await problems(copy)


@requirement("reliability.keep.1")
@pytest.mark.parametrize("seed", range(12))
async def test_bytes_that_changed_inside_a_value_are_found(filled: Path, tmp_path: Path, seed: int) -> None:
    chance, content = random.Random(seed), bytearray(filled.read_bytes())
    values = list(re.finditer(rb"(\d+ ){20}|\d{3000}", content))
    place = chance.randrange(*chance.choice(values).span())
    content[place] ^= 1 << chance.randrange(5)
    copy = tmp_path / "copy.db"
    copy.write_bytes(content)
    assert any("not what was written" in one for one in await problems(copy))


async def test_an_intact_file_has_no_problems(filled: Path) -> None:
    assert await problems(filled) == []


def test_lines_of_an_older_schema_without_checksums_are_right(filled: Path, tmp_path: Path) -> None:
    old = Path(shutil.copy(filled, tmp_path / "old.db"))
    with closing(sqlite3.connect(old)) as db, db:
        db.execute("UPDATE events SET crc = NULL")
        db.execute("UPDATE kept SET crc = NULL")
    assert damages(old) == []


# A copy without its WAL


@asynccontextmanager
async def acknowledged(file: Path) -> AsyncIterator[Script]:
    """A process that uses the file and was told that its calls are durable."""
    script = Script("acknowledged.py", f"sqlite:///{file}", 40)
    try:
        await asyncio.to_thread(script.until, "acknowledged")
        yield script
    finally:
        if script.process.returncode is None:
            script.kill()


@requirement("reliability.keep.2")
@pytest.mark.process
async def test_a_copy_that_lost_its_wal_is_found_and_not_opened(tmp_path: Path) -> None:
    file, copy = tmp_path / "log.db", tmp_path / "copy.db"
    async with acknowledged(file):
        shutil.copy(file, copy)
        assert await problems(file) == []
    assert any("without its -wal" in one for one in await problems(copy))
    with pytest.raises(StoreUnavailable, match="without its -wal"):
        await open_store(f"sqlite:///{copy}").start("w")
    assert any("without its -wal" in one for one in await problems(copy))
    accept_loss(copy)
    assert await problems(copy) == []


@requirement("reliability.keep.2")
@pytest.mark.process
async def test_a_copy_with_its_wal_is_right(tmp_path: Path) -> None:
    file, copy = tmp_path / "log.db", tmp_path / "copy.db"
    async with acknowledged(file):
        shutil.copy(wal(file), wal(copy))
        shutil.copy(file, copy)
    assert await problems(copy) == []


@requirement("reliability.keep.2")
@pytest.mark.parametrize("others_look_first", [False, True])
@pytest.mark.process
async def test_a_file_whose_process_was_killed_is_right(tmp_path: Path, others_look_first: bool) -> None:
    file = tmp_path / "log.db"
    async with acknowledged(file) as script:
        script.kill()
    if others_look_first:  # any program that opens the file moves the WAL into it and takes it away
        with closing(sqlite3.connect(file)) as db:
            assert db.execute("SELECT count(*) FROM calls").fetchone() == (40,)
        assert not wal(file).exists()
    assert await problems(file) == []
    async with Crib([echo], store=f"sqlite:///{file}") as crib:
        assert len(await crib.store.calls("s", ("done",))) == 40


@pytest.mark.process
async def test_the_file_alone_is_whole_once_all_have_closed_it(tmp_path: Path) -> None:
    file, copy = tmp_path / "log.db", tmp_path / "copy.db"
    async with acknowledged(file) as script:
        script.say("end")
        await asyncio.to_thread(script.process.wait, 60)
        script.kill()
    shutil.copy(file, copy)
    assert await problems(copy) == []


@requirement("reliability.keep.2")
@pytest.mark.process
async def test_one_of_two_processes_may_end_without_hiding_the_wal_of_the_other(tmp_path: Path) -> None:
    file, copy = tmp_path / "log.db", tmp_path / "copy.db"
    async with acknowledged(file):
        store = open_store(f"sqlite:///{file}")
        await store.start("second")
        await store.open("t", "ada", 1.0)
        await store.close()
        shutil.copy(file, copy)
    assert any("without its -wal" in one for one in await problems(copy))


@requirement("reliability.keep.2")
async def test_a_file_whose_process_was_killed_while_it_moved_the_wal_opens_more_than_once(
    filled: Path, tmp_path: Path
) -> None:
    file, killed = tmp_path / "log.db", tmp_path / "killed.db"
    shutil.copy(filled, file)
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {IN_USE}")  # the last that the process wrote
        shutil.copy(file, killed)
        shutil.copy(wal(file), wal(killed))
    for _ in range(2):
        assert await problems(killed) == []


# The WAL shrinks


@requirement("reliability.keep.3")
async def test_the_wal_is_emptied_when_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.store.sqlite.checkpoint.QUIET_S", 0.05)
    file, copy = tmp_path / "log.db", tmp_path / "copy.db"
    async with Crib([echo], store=f"sqlite:///{file}") as crib:
        session = await crib.open("s", owner="ada")
        await session.call("echo", {"text": "x" * 50_000})
        async with asyncio.timeout(60):
            while wal(file).stat().st_size:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.02)
        shutil.copy(file, copy)
    assert await problems(copy) == []


@requirement("reliability.keep.3")
async def test_the_wal_stays_small_under_load(tmp_path: Path) -> None:
    file = tmp_path / "log.db"
    async with Crib([echo], store=f"sqlite:///{file}") as crib:
        session = await crib.open("s", owner="ada")
        largest = 0
        for _ in range(400):
            await session.call("echo", {"text": "x" * 60_000})
            await crib.store.flush()
            largest = max(largest, wal(file).stat().st_size)
    assert file.stat().st_size > 40_000_000
    assert largest < 12_000_000


@pytest.mark.parametrize(
    ("change", "session", "problem"),
    [
        ("UPDATE events SET at = 'then' WHERE key & 0xFFFFFFFF = 5 AND key >> 32 = 1", "a", "event 5 is not what"),
        ("UPDATE events SET at = at + 1 WHERE key & 0xFFFFFFFF = 5 AND key >> 32 = 2", "b", "event 5 is not what"),
        ("UPDATE events SET kind = x'ff' WHERE key & 0xFFFFFFFF = 6 AND key >> 32 = 1", "a", "event 6 is not what"),
        ("UPDATE events SET call = 'k' WHERE key & 0xFFFFFFFF = 7 AND key >> 32 = 1", "a", "event 7 is not what"),
        ("UPDATE events SET data = 7 WHERE key & 0xFFFFFFFF = 8 AND key >> 32 = 1", "a", "event 8 is not what"),
        ("UPDATE events SET crc = NULL, data = '[]' WHERE key & 0xFFFFFFFF = 9 AND key >> 32 = 1", "a", "event 9 is"),
        ("UPDATE kept SET data = 7 WHERE rowid = (SELECT min(rowid) FROM kept)", "a", "the large value "),
        ("UPDATE kept SET data = data || x'20' WHERE rowid = (SELECT min(rowid) FROM kept)", "a", "the large value "),
        ("INSERT INTO cursors (session, consumer, seq) VALUES (1, 'x', -1)", "a", "the cursor 'x' stands nowhere"),
        ("INSERT INTO cursors (session, consumer, seq) VALUES (77, 'x', 1)", "", "1 rows of cursors belong to"),
    ],
)
def test_each_kind_of_damage_is_told_with_its_place(
    filled: Path, tmp_path: Path, change: str, session: str, problem: str
) -> None:
    file = tmp_path / "log.db"
    shutil.copy(filled, file)
    with closing(sqlite3.connect(file)) as db:
        db.executescript(f"BEGIN; {change}; COMMIT")
    (damage,) = damages(file)
    assert (damage.session, damage.problem[: len(problem)]) == (session, problem)
