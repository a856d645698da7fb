"""Sweep: sessions that nobody used for a week are deleted, those with something open are not."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.session.place import Gate, Place, first, log
from toolcrib import Context, Refused, tool
from toolcrib.testing import FakeClock

HOUR = 3600.0
DAY = 24 * HOUR


@tool(read_only=True)
async def look() -> str:
    """Look."""
    return "x" * 100_000


@tool(requires_confirmation=True, wait_s=30 * DAY)
async def approve() -> str:
    """Wait for somebody."""
    return "approved"


@requirement("aomi.sweep.1")
async def test_a_session_unused_for_a_week_is_deleted_with_all_that_is_its(file_place: Place, tmp_path: Path) -> None:
    clock = FakeClock()
    async with file_place.crib(look, clock=clock) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("look")
        await session.result(call.id)
        await session.consume("ui", 2)
        await session.close()
        await clock.advance(7 * DAY + 1)
        assert await crib.sweep(dry_run=True) == 1
        assert await crib.sweep() == 1
        assert await crib.sessions("ada") == []
        again = await crib.open("s-1", owner="bob")  # the id is free again
        with pytest.raises(Refused):
            await again.result(call.id)
        await again.close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as db:
        left = [db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("calls", "kept", "cursors")]
        assert left == [0, 0, 0]


@requirement("aomi.sweep.1")
async def test_another_retention_counts_and_none_keeps_everything(place: Place) -> None:
    clock = FakeClock()
    for retention, gone in ((None, 0), (timedelta(days=30), 0), (timedelta(hours=1), 1)):
        async with place.crib(clock=clock, retention=retention) as crib:
            await (await crib.open("s-1", owner="ada")).close()
            await clock.advance(8 * DAY)
            assert await crib.sweep() == gone


@requirement("aomi.sweep.2")
async def test_story_9_what_runs_or_waits_is_kept_until_it_expires(place: Place) -> None:
    clock, gate = FakeClock(), Gate()

    @tool(timeout=100 * DAY)
    async def slow() -> None:
        """Take for ever."""
        await gate.passed()

    async with place.crib(look, slow, approve, clock=clock) as crib:
        for id, name in (("idle", "look"), ("running", "slow"), ("waiting", "approve")):
            session = await crib.open(id, owner="ada")
            await session.submit(name)
        await gate.wait()
        await first(await crib.open("idle", owner="ada"), "done")
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 1
        assert {row.id for row in await crib.sessions("ada")} == {"running", "waiting"}
        waiting = await crib.open("waiting", owner="ada")
        assert [question.tool for question in await waiting.questions()] == ["default.approve"]
        await clock.advance(23 * DAY)  # the question expires, which is an event of its own
        ended = await first(waiting, "done")
        assert ended.fields["failure"]["code"] == "timeout"
        await clock.advance(7 * DAY + 1)
        assert await crib.sweep() == 1
        assert {row.id for row in await crib.sessions("ada")} == {"running"}
        gate.opened.set()


@requirement("aomi.sweep.2")
async def test_reading_does_not_count_as_use_but_opening_does(place: Place) -> None:
    clock = FakeClock()
    async with place.crib(look, clock=clock) as crib:
        read, opened = await crib.open("read", owner="ada"), await crib.open("opened", owner="ada")
        await opened.call("look")
        await clock.advance(6 * DAY)
        assert len(await log(read)) == 1
        assert await read.completed("model") == []
        await crib.open("opened", owner="ada")  # it is open all the time, in another tab
        with pytest.raises(Refused):
            await crib.open("read", owner="bob")
        await clock.advance(2 * DAY)
        assert await crib.sweep() == 1
        assert [row.id for row in await crib.sessions("ada")] == ["opened"]


async def test_an_embedded_crib_sweeps_at_open_at_most_hourly(place: Place) -> None:
    clock = FakeClock()
    async with place.crib(clock=clock, retention=timedelta(minutes=10)) as crib:
        await (await crib.open("one", owner="ada")).close()
        await clock.advance(0.5 * HOUR)
        await (await crib.open("two", owner="ada")).close()
        assert {row.id for row in await crib.sessions("ada")} == {"one", "two"}  # the last sweep was just now
        await clock.advance(0.6 * HOUR)
        await crib.open("three", owner="ada")
        assert {row.id for row in await crib.sessions("ada")} == {"three"}


@requirement("aomi.sweep.4")
async def test_6_days_23_hours_stay_and_7_days_1_second_go(place: Place) -> None:
    clock = FakeClock()
    async with place.crib(clock=clock) as crib:
        await crib.open("s-1", owner="ada")
        await clock.advance(6 * DAY + 23 * HOUR)
        assert await crib.sweep() == 0
        await clock.advance(HOUR + 1)
        assert await crib.sweep() == 1


@requirement("aomi.sweep.4")
async def test_two_sweepers_at_once_do_no_harm(place: Place) -> None:
    clock = FakeClock()
    async with place.crib(look, clock=clock) as one, place.crib(look, clock=clock) as two:
        for n in range(30):
            await (await one.open(f"old-{n}", owner="ada")).call("look")
        await clock.advance(7 * DAY + 1)
        fresh = await one.open("fresh", owner="ada")
        await asyncio.gather(one.sweep(), two.sweep(), one.sweep())
        assert [row.id for row in await two.sessions("ada")] == ["fresh"]
        assert (await fresh.call("look")).ok


@requirement("aomi.sweep.5")
async def test_an_idle_session_is_only_its_rows(place: Place) -> None:
    """Memory has nothing to do with retention: whoever comes back within the week finds everything."""

    @tool(read_only=True)
    async def who(ctx: Context) -> str:
        """Say who."""
        return ctx.session

    clock = FakeClock()
    async with place.crib(who, approve, clock=clock) as crib:
        session = await crib.open("s-1", owner="anonymous")
        await session.call("who")
        await session.submit("approve")
        await session.close()
        await clock.advance(6 * DAY)
        assert crib._session_table.all() == []
        again = await crib.open("s-1", owner="anonymous")
        assert [e.result.data for e in await again.completed("model") if e.result] == ["s-1"]
        assert len(await again.questions()) == 1


async def test_what_the_crib_keeps_for_itself_is_not_among_the_sessions(place: Place) -> None:
    async with place.crib() as crib:
        for number in range(3):
            await crib.store.open(f"toolcrib.own{number}", "toolcrib", 2.0 + number)
        await crib.store.open("old", "ada", 1.0)
        await crib.store.open("new", "ada", 9.0)
        first = await crib.sessions(limit=1)
        assert [row.id for row in first] == ["new"]
        assert [row.id for row in await crib.sessions(limit=1, before=first[0])] == ["old"]
        assert [row.id for row in await crib.sessions()] == ["new", "old"]
