"""A process that is paused in the middle of a call, beside another one on the same store and without an engine."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster import cribs
from tests.cluster.place import Place, Process, kinds, log, until
from tests.requirements import requirement
from toolcrib import Crib, Session

FIRST = pytest.mark.parametrize("first", ["mail", "index", "peek"])


def filling(place: Place, first: str) -> Process:
    """Starts a process that fills an order."""
    return place.run([sys.executable, "-m", "tests.durability.orders", place.store, first], "orders")


def call_of(process: Process) -> str:
    """The id of its call."""
    return next(line.split()[1] for line in process.said if line.startswith("ready"))


async def started(session: Session, count: int) -> None:
    """Returns when so many calls of the session have started."""
    async with asyncio.timeout(60):
        async for event in session.events():
            count -= event.kind == "started"
            if not count:
                return


@asynccontextmanager
async def beside(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Crib]:
    """A crib of this process on the same store, whose tools leave their marks in the same place."""
    monkeypatch.setenv(cribs.FOLDER, str(place.folder))
    async with cribs.crib(store=place.store) as crib:
        yield crib


@requirement("reliability.fence.2", "reliability.fence.3")
@FIRST
async def test_a_process_whose_call_was_taken_over_makes_no_second_child(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    place = Place(postgres_url, "", tmp_path)
    one = filling(place, first)
    try:
        await one.ready()
        await place.happened(1, first)
        async with beside(place, monkeypatch) as crib:
            one.halt()
            row = await crib.store.call(call_of(one))
            assert row is not None
            while await crib.store.alive(row.worker or ""):  # noqa: ASYNC110 - nobody tells when a lease ends
                await asyncio.sleep(0.1)
            session = await crib.open("s", owner="ada")
            await place.happened(2, "order")
            place.open("go")
            assert (await asyncio.wait_for(session.result(row.id), 60)).data == "charged 1"
            one.go_on()
            await place.happened(1, "stopped")
            assert await one.ended() == 0
            assert "filled charged 1" in one.said
            assert one.pid not in place.by("charge")
            assert place.effects("charge") == {1: 1}
            assert kinds(await log(session), row.id)[-1] == "done"
    finally:
        place.close()


@requirement("reliability.fence.2")
@FIRST
async def test_on_one_file_a_paused_process_keeps_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    place = Place(f"sqlite:///{tmp_path}/log.db", "", tmp_path)
    place.store = place.store.partition("?")[0]
    one = filling(place, first)
    try:
        await one.ready()
        async with beside(place, monkeypatch) as crib:
            session = await crib.open("s", owner="ada")
            await started(session, 2)  # it holds no lock of the file now
            one.halt()
        async with beside(place, monkeypatch) as crib:
            session = await crib.open("s", owner="ada")
            place.open("go")
            row = await crib.store.call(call_of(one))
            assert row is not None
            assert row.state == "running"
            one.go_on()
            assert (await asyncio.wait_for(session.result(row.id), 60)).data == "charged 1"
            await until(lambda: "filled charged 1" in one.said)
            assert await one.ended() == 0
            assert place.by("order") == place.by("charge") == {one.pid}
            assert place.effects("charge") == {1: 1}
    finally:
        place.close()
