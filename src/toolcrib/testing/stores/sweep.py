"""The sweep: what nobody used goes with all that is its, what somebody needs stays whole."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio

from toolcrib.store import OWNER, Store, Write
from toolcrib.testing.index_check import read_all
from toolcrib.testing.stores.fixture import (
    AT,
    StoreFixture,
    answer,
    claim,
    commit,
    finish,
    line,
    new,
    note,
    park,
    submit,
    texts,
)

LATER = AT + 1000.0


async def swept(store: Store) -> list[str]:
    """What is left after everything from before `LATER` was swept."""
    await store.sweep(LATER, LATER)
    return sorted(row.id for row in await store.sessions())


class SweepTests(StoreFixture):
    """Retention."""

    async def test_a_session_goes_when_it_was_not_used_since(self) -> None:
        async with self.opened("old", "used", "opened") as store:
            await store.commit(note("used", at=LATER))
            await store.commit(note("opened", at=AT + 1))
            assert await store.sweep(AT + 1, LATER) == 1
            assert sorted(row.id for row in await store.sessions()) == ["opened", "used"]
            assert await store.sweep(AT + 2, LATER) == 1
            assert await store.sweep(LATER, LATER) == 0
            assert [row.id for row in await store.sessions()] == ["used"]

    async def test_a_swept_session_that_is_opened_again_begins_anew(self) -> None:
        async with self.opened("s") as store:
            for _ in range(3):
                await store.commit(note("s"))
            assert await store.sweep(LATER, LATER) == 1
            await store.open("s", "bob", LATER)
            await commit(store, submit(new("c")))
            assert [event.seq for event in await store.read("s")] == [1]

    async def test_what_the_crib_keeps_for_itself_stays(self) -> None:
        async with self.opened("s") as store:
            await store.open("toolcrib.notes", OWNER, AT)
            assert await store.sweep(LATER, LATER, dry_run=True) == 1
            assert await swept(store) == ["toolcrib.notes"]

    async def test_with_a_session_goes_all_that_is_its(self) -> None:
        async with self.opened("s") as store:
            await store.commit(finish(await commit(store, submit(new("c", key="k")))))
            await store.keep("s", "id", b"data")
            await store.move_cursor("s", "ui", 2)
            assert await store.sweep(LATER, LATER) == 1
            again = await self.restarted(store)
            await again.open("s", "bob", LATER)
            assert await again.read("s") == []
            assert await again.call("c") is None
            assert await again.calls("s") == []
            assert await again.kept("s", "id") is None
            assert await again.cursor("s", "ui") == 0

    async def test_a_session_that_was_swept_can_be_opened_anew(self) -> None:
        async with self.opened("s", "t") as store:
            await store.commit(Write("s", [line("old"), line("old")]))
            await store.commit(Write("t", [line("old")]))
            assert await swept(store) == []
            await store.open("t", "bob", LATER)
            row, made = await store.open("s", "bob", LATER)
            await store.commit(note("s", "new", at=LATER))
            assert (row.owner, row.seq, made) == ("bob", 0, True)
            assert [(event.seq, event.fields["text"]) for event in await store.read("s")] == [(1, "new")]
            assert await store.read("t") == []

    async def test_a_session_that_was_swept_takes_no_more_writes(self) -> None:
        async with self.opened("s", "t") as store:
            await store.commit(note("s"))
            assert await swept(store) == []
            outcomes = await asyncio.gather(store.commit(note("s")), return_exceptions=True)
            assert isinstance(outcomes[0], Exception)
            await store.open("other", "bob", LATER)
            assert await store.read("other") == []

    async def test_a_followed_session_that_is_swept_shows_nothing_old(self) -> None:
        async with self.opened("s") as store:
            reader = asyncio.create_task(store.wait("s", 2))
            await store.commit(Write("s", [line("old"), line("old")]))
            assert await swept(store) == []
            await store.open("s", "bob", LATER)
            assert await store.read("s") == []
            await store.commit(note("s", "new", at=LATER))
            assert await texts(store) == ["new"]
            reader.cancel()

    async def test_what_runs_or_waits_or_is_queued_stays(self) -> None:
        async with self.opened("queued", "running", "waiting", "answered", "idle") as store:
            rows = {id: await commit(store, submit(new(f"c-{id}", id))) for id in ("queued", "running", "waiting")}
            await store.commit(claim(rows["running"]))
            await store.commit(park(rows["waiting"], expires_at=LATER + 1))
            waiting = await commit(store, submit(new("c-answered", "answered")))
            await store.commit(answer(await commit(store, park(waiting, expires_at=AT + 1))))
            assert await swept(store) == ["answered", "queued", "running", "waiting"]

    async def test_what_is_done_or_waited_too_long_goes(self) -> None:
        async with self.opened("done", "expired") as store:
            await store.commit(finish(await commit(store, submit(new("c1", "done")))))
            await store.commit(park(await commit(store, submit(new("c2", "expired"))), expires_at=LATER - 1))
            assert await swept(store) == []

    async def test_what_waits_without_an_end_stays(self) -> None:
        async with self.opened("s") as store:
            await store.commit(submit(new("c", state="waiting", question="c-1")))
            assert await swept(store) == ["s"]

    async def test_a_dry_run_only_counts(self) -> None:
        async with self.opened("a", "b", "running") as store:
            await store.commit(claim(await commit(store, submit(new("c", "running")))))
            assert await store.sweep(LATER, LATER, dry_run=True) == 2
            assert len(await store.sessions()) == 3

    async def test_two_sweepers_at_once_share_the_work(self) -> None:
        sessions = [f"s{number}" for number in range(30)]
        async with self.opened(*sessions) as store:
            for session in sessions:
                await store.commit(Write(session, [line() for _ in range(20)]))
            other = await self.second(store)
            gone = await asyncio.gather(store.sweep(LATER, LATER), other.sweep(LATER, LATER))
            assert sum(gone) == 30
            assert await store.sessions() == []

    async def test_a_long_session_goes_whole(self) -> None:
        async with self.opened("long", "short") as store:
            for _ in range(12):
                await store.commit(Write("long", [line() for _ in range(1000)]))
            await store.commit(note("short", "stays", at=LATER))
            assert await swept(store) == ["short"]
            assert await store.read("long") == []
            assert await texts(store, "short") == ["stays"]

    async def test_whoever_opens_a_session_that_is_being_swept_finds_all_of_it_or_none(self) -> None:
        async with self.opened("s") as store:
            for _ in range(20):
                await store.commit(Write("s", [line("old") for _ in range(1000)]))
            sweeping = asyncio.create_task(store.sweep(LATER, LATER))
            while not sweeping.done():  # a store does not tell how far it is
                await asyncio.sleep(0)
                if [event.seq for event in await store.read("s", limit=1)] != [1]:
                    break
            await store.open("s", "ada", LATER)
            await store.commit(note("s", "new", at=LATER))
            await sweeping
            log = await read_all(store, "s")
            assert [event.seq for event in log] == list(range(1, len(log) + 1))

    async def test_writers_go_on_while_others_are_swept(self) -> None:
        async with self.opened("busy", *(f"s{number}" for number in range(20))) as store:
            for number in range(20):
                await store.commit(Write(f"s{number}", [line() for _ in range(500)]))
            sweeping = asyncio.create_task(store.sweep(LATER, LATER))
            for number in range(50):
                await store.commit(note("busy", str(number), at=LATER))
            assert await sweeping == 20
            assert await texts(store, "busy") == [str(number) for number in range(50)]
