"""What is committed is found by every reader, also where the hint of it was never sent or did not arrive."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.durability.processes import script
from tests.engine.place import until
from tests.requirements import requirement
from toolcrib.store.postgres import hints, listener
from toolcrib.store.postgres.store import PostgresStore
from toolcrib.store.schema import queries
from toolcrib.testing.services import execute
from toolcrib.testing.stores.fixture import note

SOON_S = 60


@asynccontextmanager
async def stores(url: str, *workers: str) -> AsyncIterator[list[PostgresStore]]:
    """Stores over one database, with the session `s`."""
    async with AsyncExitStack() as stack:
        made = [PostgresStore(url) for _ in workers]
        for store, worker in zip(made, workers, strict=True):
            await store.start(worker)
            stack.push_async_callback(store.close)
        await made[0].open("s", "ada", 1.0)
        yield made


async def texts(store: PostgresStore, session: str = "s") -> list[str]:
    return [event.fields["text"] for event in await store.read(session)]


@requirement("store.11")
async def test_a_reader_finds_what_a_process_wrote_that_was_killed_before_it_told_of_it(postgres_url: str) -> None:
    with script("unsaid.py", postgres_url) as writer:
        await asyncio.to_thread(writer.until, "ready")
        async with stores(postgres_url, "a") as (reader,):
            changed: asyncio.Queue[str] = asyncio.Queue()
            reader.own_changed = changed.put_nowait
            waiting = asyncio.create_task(reader.wait("s", 0))
            await until(lambda: followed(reader, "s"))
            writer.say(["s"])
            await asyncio.wait_for(waiting, SOON_S)
            assert await texts(reader) == ["committed"]
            assert await asyncio.wait_for(changed.get(), SOON_S) == ""  # any session may have been changed
            assert await asyncio.to_thread(writer.process.wait) == -signal.SIGKILL


async def followed(store: PostgresStore, session: str) -> bool:
    """Whether somebody waits for more of a session."""
    return session in store._followers and bool(store._followers.sessions[session].waiters)


@requirement("store.11")
async def test_hints_that_do_not_arrive_are_noticed_and_later_ones_still_heard(postgres_url: str) -> None:
    async with stores(postgres_url, "a", "b") as (reader, writer):
        await writer.commit(note("s", "first"))
        await asyncio.wait_for(reader.wait("s", 0), SOON_S)
        writer.carry = lambda hints: True  # it was sent, and nobody got it
        for number in (2, 3):
            waiting = asyncio.create_task(reader.wait("s", number - 1))
            await until(lambda: followed(reader, "s"))
            await writer.commit(note("s", f"unheard {number}"))
            await asyncio.wait_for(waiting, SOON_S)
        writer.carry = None
        await writer.commit(note("s", "last"))
        await asyncio.wait_for(reader.wait("s", 3), SOON_S)
        assert await texts(reader) == ["first", "unheard 2", "unheard 3", "last"]


@requirement("store.11")
async def test_a_hint_that_was_lost_is_noticed_although_a_later_one_of_the_same_node_comes(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "COMPARE_S", 10 * SOON_S)
    async with stores(postgres_url, "a", "b") as (reader, writer):
        await writer.open("other", "ada", 1.0)
        await writer.commit(note("other", "first"))
        await asyncio.wait_for(reader.wait("other", 0), SOON_S)
        changed: asyncio.Queue[str] = asyncio.Queue()
        reader.own_changed = changed.put_nowait
        waiting = asyncio.create_task(reader.wait("s", 0))
        await until(lambda: followed(reader, "s"))
        lost: asyncio.Queue[list[str]] = asyncio.Queue()

        def lose(lines: list[str]) -> bool:
            lost.put_nowait(lines)
            return True

        writer.carry = lose
        await writer.commit(note("s", "unheard"))
        await asyncio.wait_for(lost.get(), SOON_S)
        writer.carry = None
        await writer.commit(note("other", "second"))
        await asyncio.wait_for(waiting, SOON_S)
        while await asyncio.wait_for(changed.get(), SOON_S):
            pass  # of the other session; at last any session may have been changed
        assert await texts(reader) == ["unheard"]


@requirement("store.11")
async def test_a_part_of_a_long_hint_that_was_lost_is_noticed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "COMPARE_S", 10 * SOON_S)
    monkeypatch.setattr(hints, "TOGETHER", 1)
    async with stores(postgres_url, "a", "b") as (reader, writer):
        await writer.open("other", "ada", 1.0)
        await writer.commit(note("other", "first"))
        await asyncio.wait_for(reader.wait("other", 0), SOON_S)
        waiting = asyncio.create_task(reader.wait("s", 0))
        await until(lambda: followed(reader, "s"))

        def lose_the_first(lines: list[str]) -> bool:
            for line in lines[1:]:
                reader.heard(line)
            return True

        writer.carry = lose_the_first
        await asyncio.gather(writer.commit(note("s", "unheard")), writer.commit(note("other", "second")))
        await asyncio.wait_for(waiting, SOON_S)
        assert await texts(reader) == ["unheard"]


@requirement("store.11")
async def test_hints_that_arrive_in_another_order_are_not_missed_again(postgres_url: str) -> None:
    async with stores(postgres_url, "a") as (reader,):
        told = [f"b ^{line} #{line}" for line in (1, 2, 4, 3, 5, 5, 4, 6)]
        before = reader._followers.nudges
        for hint in told:
            reader.heard(hint)
        assert reader._followers.nudges - before == 1  # the third came after the fourth


@requirement("store.11")
async def test_a_follower_of_a_session_that_was_deleted_without_a_word_is_not_left_waiting(postgres_url: str) -> None:
    async with stores(postgres_url, "a", "b") as (reader, writer):
        await writer.open("toolcrib.deleted", "toolcrib", 1.0)
        await writer.commit(note("s"))
        await reader.wait("s", 0)
        waiting = asyncio.create_task(reader.wait("s", 1))
        await until(lambda: followed(reader, "s"))
        writer.carry = lambda hints: True
        assert await writer.delete("s", note("toolcrib.deleted"))
        await asyncio.wait([waiting], timeout=SOON_S)
        assert waiting.done()


@requirement("store.11")
@pytest.mark.parametrize(("hint", "nudges"), [("old 1:1", 0), ("new 1:1 #4", 1)])
async def test_only_a_writer_that_tells_numbers_can_be_missed(postgres_url: str, hint: str, nudges: int) -> None:
    async with stores(postgres_url, "a") as (reader,):
        before, writer = reader._followers.nudges, hint.split(" ")[0]
        reader.heard(hint)
        line = f"INSERT INTO batches (writer, number, outcome, at) VALUES ('{writer}', 5, '{{}}', clock_timestamp())"
        await asyncio.to_thread(execute, postgres_url, line)
        for _ in range(2):
            await reader._listener._compare()
        assert reader._followers.nudges - before == nudges


@requirement("store.11")
async def test_nothing_that_is_written_notifies_in_its_transaction(postgres_url: str) -> None:
    async with stores(postgres_url, "a"):
        assert [name for name, text in queries("postgres").items() if "notify" in text] == ["notify"]
        used = await asyncio.to_thread(
            execute, postgres_url, "SELECT strpos(prosrc, 'notify') FROM pg_proc WHERE proname = 'toolcrib_commit'"
        )
        assert used.strip() == "0"
