"""Whole sessions that a store takes in: all of one, or nothing where something of it is there already."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcrib.events import Event
from toolcrib.store import Archive, Row, SessionRow, Store, open_store
from toolcrib.store.codec import encode
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.testing.index_check import read_all
from toolcrib.testing.stores.fixture import AT, new, note

LARGE = encode({"text": "x" * 100_000})


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A started store of each kind."""
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/log.db"}
    url = urls.get(request.param) or str(request.getfixturevalue("postgres_url"))
    found = open_store(url)
    await found.start("worker-1")
    yield found
    await found.close()


def archive(session: str, *calls: str, large: bytes | None = None) -> Archive:
    """A session of a line of its own, one for each call, and the row of each."""
    rows = [new(id, session, "queued").but(accepted_seq=number) for number, id in enumerate(calls, 2)]
    own = Event(1, AT, None, "notice", large or encode({"text": "hello"}))
    accepted = [Event(row.accepted_seq, AT, row.id, "accepted", encode({"tool": row.tool})) for row in rows]
    head = SessionRow(session, "ada", 1 + len(rows), 0, AT, AT)
    return Archive(head, [own, *accepted], rows, {"ui": 1}, {"picture": b"\x00\xff"})


async def told(store: Store, session: str) -> tuple[list[Event], list[Row], int, bytes | None]:
    """All that a store says of a session."""
    events = await read_all(store, session)
    kept = await store.kept(session, "picture")
    return events, await store.calls(session), await store.cursor(session, "ui"), kept


async def test_a_session_is_taken_in_with_all_that_is_its(store: Store) -> None:
    whole = archive("s", "c1", "c2", large=LARGE)
    assert await store.adopt(whole)
    events, rows, cursor, kept = await told(store, "s")
    assert [(event.seq, event.call, event.kind, event.json) for event in events] == [
        (event.seq, event.call, event.kind, event.json) for event in whole.events
    ]
    assert ([row.id for row in rows], cursor, kept) == (["c1", "c2"], 1, b"\x00\xff")


async def test_what_follows_in_a_session_that_was_taken_in_is_counted_on(store: Store) -> None:
    assert await store.adopt(archive("s", "c1"))
    await store.commit(note("s", "more"))
    assert [event.seq for event in await read_all(store, "s")] == [1, 2, 3]
    assert [event.seq for event in await store.read("s", call="")] == [1, 3]


@pytest.mark.parametrize(
    "other", [archive("s", "c3"), archive("t", "c3", "c2"), archive("s")], ids=["session", "call", "empty"]
)
async def test_nothing_is_taken_in_where_a_session_or_a_call_of_that_id_is_there(store: Store, other: Archive) -> None:
    assert await store.adopt(archive("s", "c1", "c2"))
    before = await told(store, "s")
    assert not await store.adopt(other)
    assert await told(store, "s") == before
    assert await store.session("t") is None
    assert await store.call("c3") is None


async def test_a_call_that_was_taken_in_is_taken_with_the_last_own_event_of_its_session(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.start("worker-1")
    try:
        assert await store.adopt(archive("s", "c1", "c2"))
        assert (await store.take(["c2"]))["c2"].own == 1
        await store.commit(note("s", "more"))
        assert (await store.take(["c2"]))["c2"].own == 4
    finally:
        await store.close()
