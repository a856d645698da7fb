"""A kill while sessions move loses none and makes none twice."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.archive.test_archive import DAY, archived, files_of, lines, look, stored
from tests.requirements import requirement
from tests.session.place import log
from toolcrib import Crib
from toolcrib.store.rollup_check import problems
from toolcrib.testing import FakeClock

pytestmark = pytest.mark.process


async def moved(store: str, archive: str, moment: str) -> None:
    """Let another process begin to move the session, and be killed."""
    command = [sys.executable, "-m", "tests.archive.mover", store, archive, moment]
    process = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert process.returncode == -9, process.stderr


@requirement("scale.archive.4")
@pytest.mark.parametrize(
    ("moment", "place"),
    [
        ("before the file", "folder_url"),
        ("after the file", "folder_url"),
        ("after the file", "bucket_url"),
        ("after it left the store", "folder_url"),
        ("before it is back", "folder_url"),
        ("after it is back", "folder_url"),
        ("after it is back", "bucket_url"),
    ],
)
async def test_a_kill_loses_nothing_and_doubles_nothing(
    store_url: str, place: str, moment: str, request: pytest.FixtureRequest
) -> None:
    archive: str = request.getfixturevalue(place)
    clock = FakeClock()
    async with Crib([look], store=store_url, archive=archive, clock=clock) as crib:
        session = await crib.open("s-1", owner="ada")
        await session.call("look")
        await session.close()
        whole = await log(session)
    if moment.endswith("back"):
        await clock.advance(8 * DAY)
        async with Crib(store=store_url, archive=archive, clock=clock) as crib:
            assert await crib.sweep() == 1
    await moved(store_url, archive, moment)
    async with Crib([look], store=store_url, archive=archive, clock=clock) as crib:
        places = await stored(crib) + await archived(crib)
        assert places == ["s-1"]
        row = await crib.store.session("s-1")
        assert row is not None
        assert lines(await log(await crib._session_table.attach(row))) == lines(whole)
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 1
        assert (await stored(crib), await archived(crib)) == ([], ["s-1"])
        assert await problems(crib.store, crib.pipeline.clock.now()) == []
        assert crib.archiver is not None
        assert len([file async for file in crib.archiver.files.files()]) == 1


@requirement("scale.archive.4")
async def test_a_file_that_was_half_written_is_not_taken_for_a_whole_one(tmp_path: Path, folder_url: str) -> None:
    store, clock = f"sqlite:///{tmp_path / 'log.db'}", FakeClock()
    async with Crib([look], store=store, archive=folder_url, clock=clock) as crib:
        await (await crib.open("s-1", owner="ada")).close()
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 1
        (path,) = files_of(folder_url)
        half = path.with_name(f"{path.name}.0123.part")
        half.write_bytes(path.read_bytes()[:50])
        assert await crib.store.session("s-1") is not None
        assert await crib.sweep() == 1
        assert crib.archiver is not None
        assert (await crib.archiver.unused()).names == []
