"""Roll-ups of stores that were written before there were any, and what their times come down to."""

import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from tests.requirements import requirement
from toolcrib.store import Store, open_store
from toolcrib.store.rollup_check import problems
from toolcrib.store.rollups import BOUNDS, milliseconds, quantiles, slot_of
from toolcrib.store.sqlite import rollups
from toolcrib.testing.stores.fixture import AT
from toolcrib.testing.stores.rollups import called, tallies


async def _written_before(store: Store) -> None:
    await store.start("worker-1")
    await store.open("s", "ada", AT)
    await called(store, "c1")
    await called(store, "c2", "denied")
    await store.close()


async def _counted(url: str) -> list[tuple[str, int]]:
    store = open_store(url)
    await store.start("worker-2")
    try:
        return [(tally.code, tally.number) for tally in await tallies(store)]
    finally:
        await store.close()


@requirement("console.overview.3")
async def test_an_old_file_is_counted_after_its_migration(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    await _written_before(open_store(url))
    with closing(sqlite3.connect(tmp_path / "log.db")) as db, db:
        db.execute("DROP TRIGGER events_counted")
        db.execute("DROP TABLE rollups")
        db.execute("DROP TABLE unrolled")
        db.execute("DROP TABLE archived")
        db.execute("PRAGMA user_version = 8")
    db.close()
    assert await _counted(url) == [("", 1), ("denied", 1)]


async def test_an_old_database_is_counted_after_its_migration(postgres_url: str) -> None:
    await _written_before(open_store(postgres_url))
    db = await asyncpg.connect(postgres_url)
    await db.execute(
        "DROP TRIGGER events_counted ON events; DROP FUNCTION toolcrib_counted;"
        "DROP TABLE rollups; DROP TABLE unrolled; DROP TABLE archived; UPDATE schema_version SET version = 10"
    )
    await db.close()
    assert await _counted(postgres_url) == [("", 1), ("denied", 1)]


async def test_a_roll_up_that_lacks_something_is_noticed(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    await store.start("worker-1")
    await store.open("s", "ada", AT)
    await called(store, "c1")
    assert await problems(store, AT) == []
    with closing(sqlite3.connect(tmp_path / "log.db")) as db, db:
        db.execute("DELETE FROM rollups WHERE cube = 'agent'")
    db.close()
    assert len(await problems(store, AT)) == 1
    await store.close()


async def test_a_file_is_rolled_up_in_pieces_and_nothing_between_them_is_left_out(tmp_path: Path) -> None:
    await _written_before(open_store(f"sqlite:///{tmp_path}/log.db"))
    with closing(sqlite3.connect(tmp_path / "log.db")) as db, db:
        lines = rollups.left(db)
        assert (rollups.roll(db, 1), rollups.left(db)) == (1, lines - 1)
    assert await _counted(f"sqlite:///{tmp_path}/log.db") == [("", 1), ("denied", 1)]


@pytest.mark.parametrize("took", [0, 99, 100, 101, 5_000, 123_456, 10**7, 86_400 * 10**6, BOUNDS[-1] * 2])
def test_a_time_is_near_the_middle_of_its_slot(took: int) -> None:
    if took < BOUNDS[-1]:
        assert abs(milliseconds(slot_of(took)) - took / 1000) <= max(0.05 * took / 1000, 0.05)
    else:
        assert slot_of(took) == len(BOUNDS)


def test_quantiles_are_those_of_the_times_to_a_twentieth() -> None:
    times = [1_000 + number * 97 for number in range(10_000)]
    slots: dict[int, int] = {}
    for took in times:
        slots[slot_of(took)] = slots.get(slot_of(took), 0) + 1
    for part, quantile in zip((0.5, 0.95, 0.99), quantiles(slots, (0.5, 0.95, 0.99)), strict=True):
        exact = times[int(part * len(times)) - 1] / 1000
        assert quantile is not None
        assert abs(quantile - exact) <= 0.055 * exact
    assert quantiles({}, (0.5,)) == [None]
