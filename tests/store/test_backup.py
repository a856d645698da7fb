"""A backup is one moment of a store, made while others write; it is restored whole or not at all, into any database."""

import asyncio
import gzip
import hashlib
import json
import os
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.durability.processes import Script
from tests.requirements import requirement
from toolcrib import Context, Crib, Session, tool
from toolcrib.cli.verify import differences, every_session
from toolcrib.errors import StoreError
from toolcrib.store.backup import TABLES, back_up, check, restore
from toolcrib.store.schema import migrate, migrations
from toolcrib.store.sqlite.integrity import damages

BESIDE = {"swept", "nodes", "batches", "schema_version", "rollups", "unrolled", "session_ids", "call_ids"}
"""Tables of what a store does not need after a restore."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store to back up."""
    return f"sqlite:///{tmp_path}/log.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/restored.db"
    return f"{request.getfixturevalue('postgres_url')}?schema=restored"


@tool(read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def refund(ctx: Context) -> str:
    """Ask first."""
    return str((await ctx.ask("Really?", key="sure")).value)


TOOLS = (echo, refund)


async def fill(crib: Crib) -> Session:
    session = await crib.open("s", owner="ada")
    for number in range(20):
        await session.call("echo", {"text": f"{number} é\x00"})
    await session.call("echo", {"text": "x" * 100_000})
    await session.submit("refund")
    async for event in session.events():
        if event.kind == "waiting":
            break
    await crib.store.move_cursor("s", "ui", 2)
    await crib.store.flush()
    return session


async def told(crib: Crib) -> list[Any]:
    """All that a store says of session `s`."""
    events: list[Any] = [event.plain() async for event in (await crib.open("s", owner="ada")).events(follow=False)]
    rows = [row.but(worker=None, question=row.question) for row in await crib.store.calls("s")]
    return [events[:-1], rows, await crib.store.cursor("s", "ui")]


@requirement("reliability.keep.4")
async def test_what_was_backed_up_comes_back_whole_in_any_database(url: str, place: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.backup"
    async with Crib(TOOLS, store=url) as crib:
        await fill(crib)
        about = await back_up(url, file)
        assert about.counts["sessions"] >= 1
        before = await told(crib)
    await restore(file, place)
    async with Crib(TOOLS, store=place) as crib:
        assert (await told(crib))[1:] == before[1:]
        assert (await told(crib))[0][: len(before[0])] == before[0]
        assert [
            one async for row in every_session(crib.store) for one in [await differences(crib.store, row.id)] if one
        ] == []
        session = await crib.open("s", owner="ada")
        (question,) = await session.questions()
        await session.answer(question.id, "accept", "yes", actor="bob")
        assert (await session.result(question.call)).data == "yes"
        assert (await crib.open("another", owner="ada")).id == "another"
    if place.startswith("sqlite"):
        assert damages(tmp_path / "restored.db") == []


@requirement("reliability.keep.4")
async def test_a_backup_under_load_has_all_that_was_acknowledged_before_it_began(
    url: str, place: str, tmp_path: Path
) -> None:
    file, last = tmp_path / "shop.backup", 0
    async with Crib(TOOLS, store=url) as crib:
        session = await crib.open("s", owner="ada")
        stop = asyncio.Event()

        async def load() -> None:
            nonlocal last
            while not stop.is_set():
                await session.submit("echo", {"text": "x"})
                last += 1

        task = asyncio.create_task(load())
        while last < 30:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
        acknowledged = last
        await back_up(url, file)
        assert last >= acknowledged
        stop.set()
        await task
    await restore(file, place)
    async with Crib(TOOLS, store=place) as crib:
        assert len(await crib.store.calls("s", limit=100_000)) >= acknowledged
        assert await differences(crib.store, "s") == []


@requirement("reliability.keep.5")
@pytest.mark.process
async def test_calls_that_ran_in_the_old_place_are_recovered_in_the_new_one(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/log.db", tmp_path / "shop.backup"
    script = Script("acknowledged.py", url, 2, "hang")
    try:
        await asyncio.to_thread(script.until, "acknowledged")
        await back_up(url, file)
    finally:
        script.kill()
    place = f"sqlite:///{tmp_path}/restored.db"
    await restore(file, place)
    async with Crib([hang], store=place) as crib:
        session = await crib.open("s", owner="ada")
        (running,) = [row for row in await crib.store.calls("s") if row.tool.endswith("hang")]
        result = await session.result(running.id)
    assert result.failure is not None
    assert result.failure.code == "unknown"


@tool
async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


@requirement("reliability.keep.5")
@pytest.mark.parametrize("seed", range(8))
async def test_a_damaged_or_truncated_backup_touches_nothing(tmp_path: Path, seed: int) -> None:
    url, file = f"sqlite:///{tmp_path}/log.db", tmp_path / "shop.backup"
    async with Crib(TOOLS, store=url) as crib:
        await fill(crib)
        await back_up(url, file)
    chance, content = random.Random(seed), bytearray(file.read_bytes())
    if seed % 2:
        content = content[: chance.randrange(len(content))]
    else:
        content[chance.randrange(20, len(content) - 8)] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(StoreError, match="nothing was restored"):
        await restore(file, f"sqlite:///{tmp_path}/restored.db")
    assert not list(tmp_path.glob("restored.db*"))


@requirement("reliability.keep.5")
async def test_lines_that_were_taken_out_or_changed_are_noticed(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/log.db", tmp_path / "shop.backup"
    async with Crib(TOOLS, store=url) as crib:
        await fill(crib)
        await back_up(url, file)
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    for changed in (
        lines[:2] + lines[3:],
        lines[:-1],
        [*lines, lines[-1]],
        [line.replace(b"ada", b"eve") for line in lines],
    ):
        file.write_bytes(gzip.compress(b"".join(changed)))
        with pytest.raises(StoreError, match="nothing was restored"):
            check(file)


@requirement("reliability.keep.5")
async def test_nothing_is_written_over_unless_told_and_never_what_is_in_use(url: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.backup"
    async with Crib(TOOLS, store=url) as crib:
        await fill(crib)
        await back_up(url, file)
        with pytest.raises(StoreError, match="exists"):
            await back_up(url, file)
        with pytest.raises(StoreError, match="in use"):
            await restore(file, url, force=True)
        await crib.open("later", owner="ada")
    with pytest.raises(StoreError, match=r"exists|not empty"):
        await restore(file, url)
    await restore(file, url, force=True)
    async with Crib(TOOLS, store=url) as crib:
        assert await crib.store.session("later") is None
        assert await crib.store.session("s") is not None


async def test_a_backup_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, sync = tmp_path / "kept.backup", os.fsync
    synced: list[tuple[int, int, bool]] = []

    def noted(number: int) -> None:
        about = os.fstat(number)
        synced.append((about.st_ino, about.st_size, file.exists()))
        sync(number)

    async with Crib(TOOLS, store=f"sqlite:///{tmp_path}/log.db") as crib:
        await fill(crib)
        monkeypatch.setattr(os, "fsync", noted)
        await back_up(crib.store.url, file)
    about = file.stat()
    assert (about.st_ino, about.st_size, False) in synced


async def test_a_damaged_store_is_not_backed_up(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/log.db", tmp_path / "shop.backup"
    async with Crib(TOOLS, store=url) as crib:
        await fill(crib)
    with closing(sqlite3.connect(tmp_path / "log.db")) as db, db:
        db.execute("UPDATE events SET data = replace(data, '19 ', '91 ')")
    with pytest.raises(StoreError, match="damaged"):
        await back_up(url, file)
    assert not list(tmp_path.glob("shop.backup*"))


async def test_a_database_without_a_schema_or_with_an_older_one_is_not_backed_up(
    postgres_url: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="toolcrib store migrate"):
        await back_up(f"{postgres_url}?schema=empty", tmp_path / "shop.backup")
    async with Crib(TOOLS, store=postgres_url):
        pass
    await back_up(postgres_url, tmp_path / "shop.backup")
    db = await asyncpg.connect(postgres_url)
    try:
        await db.execute("UPDATE schema_version SET version = version - 1")
    finally:
        await db.close()
    with pytest.raises(StoreError, match="toolcrib store migrate"):
        await back_up(postgres_url, tmp_path / "older.backup")
    assert {path.name for path in tmp_path.iterdir()} == {"shop.backup"}


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_table_is_in_a_backup_or_left_out_for_a_reason(database: str) -> None:
    text = "\n".join(step for _, step in migrations(database))
    tables = set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", text)) - set(
        re.findall(r"DROP TABLE (\w+)", text)
    )
    assert tables - BESIDE == set(TABLES)


def test_every_column_of_sessions_and_calls_is_in_a_backup() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, "memory")
        for table in ("sessions", "calls"):
            assert {name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")} == set(TABLES[table])


@requirement("reliability.keep.4")
async def test_a_store_in_memory_has_no_backup_and_takes_none(tmp_path: Path) -> None:
    file = tmp_path / "shop.backup"
    with pytest.raises(StoreError, match="lives in its process alone"):
        await back_up("memory:", file)
    assert list(tmp_path.iterdir()) == []
    async with Crib(TOOLS, store=f"sqlite:///{tmp_path}/log.db") as crib:
        await crib.open("s", owner="ada")
        await back_up(crib.store.url, file)
    with pytest.raises(StoreError, match="is gone when its process ends"):
        await restore(file, "memory:")


@requirement("reliability.keep.4")
async def test_a_backup_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    async with Crib(TOOLS, store=f"sqlite:///{tmp_path}/log.db") as crib:
        await crib.open("s", owner="ada")
        with pytest.raises(StoreError, match="cannot be written"):
            await back_up(crib.store.url, tmp_path / "taken", force=True)
    assert not (tmp_path / "taken.part").exists()


def rewritten(file: Path, change: Callable[[list[Any]], None]) -> None:
    """Changes the lines of a backup, and has its checksum fit again."""
    with gzip.open(file) as lines:
        values = [json.loads(line) for line in lines][:-1]
    change(values)
    text = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    end = json.dumps({"sha256": hashlib.sha256(text).hexdigest()}).encode()
    file.write_bytes(gzip.compress(text + end + b"\n"))


@requirement("reliability.keep.4")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda values: values.append(["strangers", [[1]]]), "an unknown table 'strangers'"),
        (lambda values: values[1][1][0].append("more"), "rows of sessions have other columns"),
        (lambda values: values.pop(1), "rows are missing"),
        (lambda values: values[0].update(version=99), "is a backup of version 99"),
        (lambda values: values[0].update(toolcrib="export"), "is a backup of version"),
    ],
)
async def test_a_backup_that_says_something_else_than_it_holds_is_refused(
    tmp_path: Path, change: Callable[[list[Any]], None], why: str
) -> None:
    file, place = tmp_path / "shop.backup", tmp_path / "restored.db"
    async with Crib(TOOLS, store=f"sqlite:///{tmp_path}/log.db") as crib:
        await crib.open("s", owner="ada")
        await crib.store.flush()
        await back_up(crib.store.url, file)
    rewritten(file, lambda values: None)
    assert check(file).counts["sessions"] == 1
    rewritten(file, change)
    with pytest.raises(StoreError, match=why):
        await restore(file, f"sqlite:///{place}")
    assert not place.exists()
