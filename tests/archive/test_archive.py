"""Sessions that nobody used for long move into files, and come back when somebody asks for one."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import log
from toolcrib import Crib, Refused, Session, tool
from toolcrib._session import archiver as archiving
from toolcrib.errors import StoreError, StoreUnavailable
from toolcrib.store import SessionRow
from toolcrib.store.rollup_check import problems
from toolcrib.testing import FakeClock

DAY = 24 * 3600.0


@tool(read_only=True)
async def look(size: int = 100_000) -> str:
    """Look."""
    return "x" * size


@tool(requires_confirmation=True, wait_s=30 * DAY)
async def approve() -> str:
    """Wait for somebody."""
    return "approved"


@asynccontextmanager
async def crib_of(store: str, archive: str | None, clock: FakeClock, **options: Any) -> AsyncIterator[Crib]:
    async with Crib(
        [look, approve], store=store, archive=archive, clock=clock, retention=timedelta(days=7), **options
    ) as crib:
        yield crib


async def used(crib: Crib, id: str = "s-1", owner: str = "ada") -> Session:
    session = await crib.open(id, owner=owner)
    await session.call("look")
    await session.call("look", {"size": 3})
    await session.consume("ui", 2)
    return session


async def archived(crib: Crib) -> list[str]:
    assert crib.archiver is not None
    return [entry.session.id async for entry in crib.archiver.every()]


async def stored(crib: Crib) -> list[str]:
    return sorted(row.id for row in await crib.sessions())


def lines(events: list[Any]) -> list[tuple[int, str, bytes]]:
    return [(event.seq, event.kind, event.json) for event in events]


def files_of(archive: str) -> list[Path]:
    return sorted(Path(archive.removeprefix("file://")).rglob("*.gz"))


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.process)])
def archive(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@requirement("scale.archive.1", "scale.archive.2")
async def test_an_archived_session_is_read_as_if_it_had_never_gone(store_url: str, archive: str) -> None:
    clock = FakeClock()
    async with crib_of(store_url, archive, clock) as crib:
        session = await used(crib)
        before, exported = await log(session), [line async for line in crib.export_session("s-1")]
        await session.close()
        whole = [*before, *await log(session, after=before[-1].seq)]
        await clock.advance(8 * DAY)
        assert await crib.sweep(dry_run=True) == 1
        assert await crib.sweep() == 1
        assert (await stored(crib), await archived(crib)) == ([], ["s-1"])
    async with crib_of(store_url, archive, clock) as crib:
        row = await crib.store.session("s-1")
        assert row is not None
        back = await crib._session_table.attach(row)
        assert lines(await log(back)) == lines(whole)
        assert [entry.tool for entry in await back.completed("other")] == ["default.look", "default.look"]
        assert await crib.store.cursor("s-1", "ui") == 2
        assert len([line async for line in crib.export_session("s-1")]) == len(exported) + len(whole) - len(before)
        assert (await stored(crib), await archived(crib)) == (["s-1"], [])


@requirement("scale.archive.2")
async def test_whoever_opens_an_archived_session_goes_on_with_it(store_url: str, folder_url: str) -> None:
    clock = FakeClock()
    async with crib_of(store_url, folder_url, clock) as crib:
        await (await used(crib)).close()
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 1
        with pytest.raises(Refused):
            await crib.open("s-1", owner="bob")
        session = await crib.open("s-1", owner="ada")
        result = await session.call("look", {"size": 5})
        assert result.data == "xxxxx"
        events = await log(session)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.kind for event in events].count("done") == 3
        await session.close()
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 1  # with what came to it
        again = await crib.open("s-1", owner="ada")
        assert lines(await log(again))[: len(events)] == lines(events)


@requirement("scale.archive.2")
async def test_many_who_ask_at_once_for_an_archived_session_get_one(store_url: str, folder_url: str) -> None:
    clock = FakeClock()
    async with crib_of(store_url, folder_url, clock) as crib, crib_of(store_url, folder_url, clock) as other:
        await (await used(crib)).close()
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 1
        asked = [crib.store.session("s-1"), other.store.session("s-1"), crib.store.session("s-1")]
        rows = await asyncio.gather(*asked)
        assert {row and row.seq for row in rows} == {rows[0] and rows[0].seq}
        opened = await asyncio.gather(crib.open("s-1", owner="ada"), other.open("s-1", owner="ada"))
        assert [event.kind for event in await log(opened[0])].count("done") == 2
        assert await archived(crib) == []


@requirement("scale.archive.1")
async def test_what_waits_and_what_was_used_meanwhile_is_not_archived(store_url: str, folder_url: str) -> None:
    clock = FakeClock()
    async with crib_of(store_url, folder_url, clock) as crib:
        assert crib.archiver is not None
        waiting = await crib.open("waiting", owner="ada")
        await waiting.submit("approve")
        await (await used(crib)).close()
        await clock.advance(8 * DAY)
        (row,) = await crib.archiver.index.idle(clock.now() - 7 * DAY, 10)
        entry = await crib.archiver._written(row, clock.now())
        await (await crib.open("s-1", owner="ada")).call("look", {"size": 1})  # after its log was read
        assert await crib.archiver.index.put_away([entry]) == []
        assert await crib.sweep() == 0
        assert await stored(crib) == ["s-1", "waiting"]
        assert await archived(crib) == []


@requirement("scale.archive.3")
async def test_a_file_that_is_damaged_or_gone_is_told_and_not_served(store_url: str, folder_url: str) -> None:
    clock = FakeClock()
    async with crib_of(store_url, folder_url, clock) as crib:
        assert crib.archiver is not None
        for id in ("s-1", "s-2", "s-3"):
            await (await used(crib, id)).close()
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 3
        entries = {entry.session.id: entry async for entry in crib.archiver.every()}
        for id, data in (("s-1", b"no gzip"), ("s-2", gzip.compress(b"another text\n"))):
            (path,) = [path for path in files_of(folder_url) if path.name.startswith(entries[id].sha256)]
            path.write_bytes(data)
        told = [await crib.archiver.problem(entries[id]) for id in ("s-1", "s-2", "s-3")]
        assert [problem is None for problem in told] == [False, False, True]
        assert "its checksum does not fit" in str(told[1])
        with pytest.raises(StoreError, match="cannot be read from"):
            await crib.open("s-1", owner="ada")
        assert await archived(crib) == ["s-1", "s-2", "s-3"]  # it is still known where it was
        path.unlink()
        with pytest.raises(StoreError, match="is gone"):
            await crib.store.session("s-2")


@requirement("scale.archive.3")
@pytest.mark.process
async def test_an_archive_that_is_away_keeps_sessions_where_they_are(tmp_path: Path, bucket_url: str) -> None:
    clock, place = FakeClock(), f"sqlite:///{tmp_path / 'log.db'}"
    async with crib_of(place, f"{bucket_url}-2".replace("old-sessions", "no-such-bucket"), clock) as crib:
        await (await used(crib)).close()
        await clock.advance(8 * DAY)
        with pytest.raises(StoreUnavailable, match="no-such-bucket"):
            await crib.sweep()
        assert await stored(crib) == ["s-1"]


@requirement("scale.archive.4")
async def test_a_file_is_the_same_and_written_once_however_often_a_session_comes_back(
    store_url: str, folder_url: str
) -> None:
    clock = FakeClock()
    async with crib_of(store_url, folder_url, clock) as crib:
        await (await used(crib)).close()
        await clock.advance(8 * DAY)
        written = []
        for _ in range(2):
            assert await crib.sweep() == 1
            written.append([(path.name, path.stat().st_mtime_ns) for path in files_of(folder_url)])
            assert await crib.store.session("s-1") is not None
            await clock.advance(1)
        assert len(written[0]) == 1
        assert written[0] == written[1]
        assert crib.archiver is not None
        assert len((await crib.archiver.unused()).names) == 1  # a backup may need it


@requirement("scale.archive.5")
async def test_statistics_count_a_session_once_wherever_it_is(store_url: str, folder_url: str) -> None:
    clock = FakeClock()
    async with crib_of(store_url, folder_url, clock) as crib:
        await (await used(crib)).close()
        await clock.advance(8 * DAY)
        for step in (crib.sweep, lambda: crib.store.session("s-1"), crib.sweep):
            await step()
            assert await problems(crib.store, clock.now()) == []
        await crib.store.session("s-1")
        await crib.store.count_anew()
        assert await problems(crib.store, clock.now()) == []
        calls = [more.count for key, more in (await crib.store.rolled_up("hours")).items() if key.what == "call"]
        assert sum(calls) == 2


@requirement("scale.archive.6")
async def test_a_session_that_is_deleted_leaves_no_file(store_url: str, archive: str) -> None:
    clock = FakeClock()
    async with crib_of(store_url, archive, clock) as crib:
        await (await used(crib)).close()
        await (await used(crib, "s-2")).close()
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 2
        stone = await crib.delete_session("s-1", actor="root")
        assert stone.events > 4
        assert await crib.store.session("s-1") is None
        assert await archived(crib) == ["s-2"]
        assert crib.archiver is not None
        assert len([file async for file in crib.archiver.files.files()]) == 1
        with pytest.raises(Refused, match="no session"):
            await crib.delete_session("s-1", actor="root")


async def test_a_copy_of_an_archived_session_is_taken_in_beside_it(store_url: str, folder_url: str) -> None:
    clock = FakeClock()
    async with crib_of(store_url, folder_url, clock) as crib:
        await (await used(crib)).close()
        exported = [line async for line in crib.export_session("s-1")]
        await clock.advance(8 * DAY)
        assert await crib.sweep() == 1
        copied = await crib.import_session(exported, id="copy")
        assert isinstance(copied, SessionRow)
        original = await crib.store.session("s-1")
        assert original is not None
        ids = {row.id for id in ("s-1", "copy") for row in await crib.store.calls(id)}
        assert len(ids) == 4
        with pytest.raises(Refused, match="There is a session"):
            await crib.import_session(exported)


@requirement("scale.archive.1")
async def test_the_file_is_an_exported_session_that_others_can_read(tmp_path: Path, folder_url: str) -> None:
    clock = FakeClock()
    async with crib_of(f"sqlite:///{tmp_path / 'log.db'}", folder_url, clock) as crib:
        await (await used(crib)).close()
        await clock.advance(8 * DAY)
        await crib.sweep()
    (path,) = files_of(folder_url)
    content = gzip.decompress(path.read_bytes())
    first = json.loads(content.splitlines()[0])
    assert (first["toolcrib"], first["id"], first["owner"]) == ("session", "s-1", "ada")
    assert path.stat().st_mode & 0o077 == 0
    async with crib_of(f"sqlite:///{tmp_path / 'other.db'}", None, clock) as crib:
        assert (await crib.import_session(content.splitlines(keepends=True))).seq == len(content.splitlines()) - 3


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"archive": "ftp://x"}, "Unknown archive"),
        ({"archive": "s3://"}, "Unknown archive"),
        ({"archive": "file://host/folder"}, "Unknown archive"),
        ({"archive": "file:///a", "store": "memory:"}, "no place to note"),
        ({"archive": "file:///a", "retention": None}, "retention"),
        ({"archive": 7}, "archive: expected a URL"),
    ],
)
def test_an_archive_that_cannot_be_is_refused_at_once(options: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    with pytest.raises((StoreError, TypeError), match=wrong):
        Crib(**{"store": f"sqlite:///{tmp_path / 'log.db'}", **options})


async def test_many_sessions_are_archived_page_by_page(tmp_path: Path, folder_url: str) -> None:
    clock = FakeClock()
    async with crib_of(f"sqlite:///{tmp_path / 'log.db'}", folder_url, clock) as crib:
        count = 2 * archiving.AT_ONCE + 3
        for number in range(count):
            await (await crib.open(f"s-{number}", owner="ada")).close()
        await clock.advance(8 * DAY)
        assert await crib.sweep() == count
        assert len(await archived(crib)) == len(files_of(folder_url)) == count
