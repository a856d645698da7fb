"""Sweeping happens by time in whatever uses a store, and gives the space of what it deleted back."""

import asyncio
import sqlite3
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Crib, tool
from toolcrib._session.retention import SWEEP_S
from toolcrib.errors import StoreError
from toolcrib.events import Opened
from toolcrib.store import Write, draft, open_store
from toolcrib.store.sqlite import sessions
from toolcrib.store.sqlite.checkpoint import wal
from toolcrib.store.sqlite.vacuum import vacuum


@tool(read_only=True)
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def fill(crib: Crib, *ids: str) -> None:
    for id in ids:
        session = await crib.open(id, owner="ada")
        for number in range(40):
            await session.call("echo", {"text": f"{number}" * 10_000})
        await session.close()
    await crib.store.flush()


@requirement("reliability.keep.6")
async def test_a_crib_that_opens_nothing_sweeps_by_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib([echo], store=url) as crib:
        await fill(crib, "old")
        assert await crib.store.session("old") is not None
    async with Crib([echo], store=url, retention=timedelta(0)) as crib, asyncio.timeout(60):
        while await crib.store.session("old") is not None:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)


@requirement("reliability.keep.6")
async def test_a_sweep_makes_the_file_smaller_and_the_wal_too(tmp_path: Path) -> None:
    file = tmp_path / "log.db"
    async with Crib([echo], store=f"sqlite:///{file}") as crib:
        await fill(crib, "a", "b")
    full = file.stat().st_size
    async with Crib([echo], store=f"sqlite:///{file}", retention=timedelta(0)) as crib:
        await crib.sweep()
        await crib.open("c", owner="ada")
    assert full > 1_000_000
    assert file.stat().st_size < full / 4
    assert not wal(file).exists()


@requirement("reliability.keep.6")
async def test_a_file_of_an_older_version_gives_space_back_once_it_was_vacuumed(tmp_path: Path) -> None:
    file = tmp_path / "log.db"
    async with Crib([echo], store=f"sqlite:///{file}") as crib:
        await fill(crib, "a", "b")
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA auto_vacuum = NONE")
        db.execute("VACUUM")
    async with Crib([echo], store=f"sqlite:///{file}", retention=timedelta(0)) as crib:
        assert await crib.sweep() == 2
        with pytest.raises(StoreError, match="in use"):
            vacuum(file)
    before, after = vacuum(file)
    assert after < before / 4
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (2,)


async def test_of_two_processes_one_sweeps_in_an_hour(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    await store.start("w")
    turns = [await store.spend([("toolcrib.sweep", SWEEP_S / 2, 1)], 1000.0) for _ in range(2)]
    await store.close()
    assert turns[0] == 0
    assert turns[1] > 0


@requirement("scale.sweep.1")
@pytest.mark.parametrize(("busy_s", "most"), [(60.0, 3), (0.0, 100)])
async def test_a_sweep_takes_as_many_sessions_in_a_transaction_as_its_time_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_s: float, most: int
) -> None:
    monkeypatch.setattr(sessions, "BUSY_S", busy_s)
    took: list[int] = []
    take_out = sessions.take_out

    def counted(*args: Any, **options: Any) -> tuple[int, int]:
        looked, gone = take_out(*args, **options)
        took.append(gone)
        return looked, gone

    monkeypatch.setattr(sessions, "take_out", counted)
    async with Crib([echo], store=f"sqlite:///{tmp_path}/log.db", retention=None) as crib:
        for number in range(100):
            await crib.store.open(f"s-{number}", "ada", 1.0)
            await crib.store.commit(Write(f"s-{number}", [draft(1.0, None, Opened("ada", (), [], False))]))
        assert await crib.store.sweep(time.time() + 60, time.time()) == 100
        assert (sum(took), len(took) <= most) == (100, True)
        assert await crib.store.damages() == []
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        assert db.execute("SELECT count(*) FROM swept").fetchone()[0] == 0
