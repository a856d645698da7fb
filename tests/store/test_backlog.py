"""Reads are answered before they are in the file; but nobody who writes leaves the file behind for ever."""

import asyncio
import threading
from pathlib import Path

import pytest

from toolcrib import Crib, tool
from toolcrib.session import Session
from toolcrib.store.sqlite import writer
from toolcrib.store.sqlite.store import SqliteStore


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(f"sqlite:///{tmp_path}/log.db")


async def _call(session: Session, times: int) -> None:
    for _ in range(times):
        assert (await session.call("add", {"a": 1, "b": 2})).data == 3


def _behind(store: SqliteStore) -> bool:
    return store.behind


async def test_reads_wait_for_the_file_once_too_much_is_behind(store: SqliteStore) -> None:
    async with Crib([add], store=store) as crib:
        session = await crib.open("main", owner="ada")
        go_on = threading.Event()
        held = store._writer.do(lambda db: go_on.wait())
        try:
            async with asyncio.timeout(60):
                await _call(session, writer.BACKLOG - 1)  # these are answered while nothing can be written
                while not _behind(store):  # noqa: ASYNC110 - time alone makes it so: one burst is not enough
                    await asyncio.sleep(0.01)
            late = asyncio.create_task(_call(session, 1))
            opening = asyncio.create_task(crib.open("other", owner="ada"))
            done, _ = await asyncio.wait([late, opening], timeout=0.2)
            assert not done
        finally:
            go_on.set()
        async with asyncio.timeout(60):
            await asyncio.gather(held, late, opening)
        assert not _behind(store)
        events = await store.read("main", limit=10_000)
    assert sum(event.kind == "done" for event in events) == writer.BACKLOG


async def test_whoever_opens_a_session_gets_it_however_many_go_on_calling(store: SqliteStore) -> None:
    async with Crib([add], store=store) as crib:

        async def busy(name: str) -> None:
            session = await crib.open(name, owner="ada")
            while not opened:
                await _call(session, 10)
                await asyncio.sleep(0)

        opened: list[Session] = []
        callers = [asyncio.create_task(busy(f"busy-{number}")) for number in range(64)]
        async with asyncio.timeout(120):
            opened = [await crib.open(f"late-{number}", owner="ada") for number in range(20)]
        await asyncio.gather(*callers)
        async with asyncio.timeout(60):
            await store.flush()
        assert {row.id for row in await store.sessions(limit=100)} >= {session.id for session in opened}
    assert len(opened) == 20
