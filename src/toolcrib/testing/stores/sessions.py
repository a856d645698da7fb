"""Sessions, what readers remember of them, and the large values kept beside their logs."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from toolcrib.errors import StoreError
from toolcrib.store import SessionRow, Store, Write
from toolcrib.testing.stores.fixture import AT, StoreFixture, commit, finish, line, new, note, submit


async def refused(work: Awaitable[Any]) -> bool:
    """True if the store refused with an error of its own."""
    try:
        await work
    except StoreError:
        return True
    return False


async def listed(store: Store, **query: Any) -> list[str]:
    """The ids of a list of sessions."""
    return [row.id for row in await store.sessions(**query)]


async def paged(store: Store, limit: int) -> list[list[str]]:
    """The ids of one owner's sessions, page by page."""
    pages: list[list[str]] = []
    last: SessionRow | None = None
    while page := await store.sessions("ada", limit=limit, before=last):
        pages.append([row.id for row in page])
        last = page[-1]
    return pages


class SessionTests(StoreFixture):
    """Opening, listing, cursors, kept values, workers."""

    async def test_a_session_is_made_once_and_found_ever_after(self) -> None:
        async with self.opened() as store:
            made = SessionRow("s", "ada", 0, 0, AT, AT)
            assert await store.open("s", "ada", AT) == (made, True)
            assert await store.open("s", "ada", AT + 5) == (made, False)
            assert await store.session("s") == made
            again = await self.restarted(store)
            assert await again.open("s", "ada", AT + 9) == (made, False)

    async def test_opening_counts_as_use_where_its_owner_does_it(self) -> None:
        async with self.opened() as store:
            await store.open("s", "ada", AT)
            await store.open("s", "bob", AT + 500)
            assert (await store.open("s", "ada", AT + 3600))[0].updated_at == AT + 3600
            assert await store.sweep(AT + 3000, AT + 4000) == 0

    async def test_of_many_who_open_a_session_one_makes_it(self) -> None:
        async with self.opened() as store:
            stores = [store, await self.second(store)]
            outcomes = await asyncio.gather(*(stores[n % 2].open("s", f"owner-{n}", AT) for n in range(20)))
            assert [made for _, made in outcomes].count(True) == 1
            assert len({row.owner for row, _ in outcomes}) == 1
            assert await listed(store) == ["s"]

    async def test_a_session_stays_with_its_first_owner(self) -> None:
        async with self.opened("s") as store:
            row, made = await store.open("s", "eve", AT)
            assert (row.owner, made) == ("ada", False)

    async def test_a_session_knows_its_last_event_and_its_use(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(at=AT + 100), line(at=AT + 200)]))
            assert await store.session("s") == SessionRow("s", "ada", 2, 0, AT, AT + 200)

    async def test_an_event_of_the_past_makes_no_session_older(self) -> None:
        async with self.opened("s") as store:
            await store.commit(note("s", at=AT - 1000))
            assert await store.session("s") == SessionRow("s", "ada", 1, 0, AT, AT)

    async def test_the_last_used_session_is_listed_first(self) -> None:
        async with self.opened("a", "b", "c") as store:
            await store.commit(note("b", at=AT + 10))
            await store.commit(note("a", at=AT + 20))
            assert await listed(store) == ["a", "b", "c"]
            await store.commit(note("c", at=AT + 30))
            assert await listed(store) == ["c", "a", "b"]

    async def test_sessions_are_listed_by_owner(self) -> None:
        async with self.opened("a") as store:
            await store.open("b", "bob", AT + 1)
            await store.open("c", "ada", AT + 2)
            assert await listed(store, owner="ada") == ["c", "a"]
            assert await listed(store, owner="bob") == ["b"]
            assert await listed(store, owner="eve") == []

    async def test_a_list_of_sessions_goes_on_where_a_page_ended(self) -> None:
        async with self.opened() as store:
            for number in range(7):
                await store.open(f"s{number}", "ada", AT + number)
            assert await paged(store, 3) == [["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]

    async def test_pages_skip_and_repeat_nothing_where_many_were_used_at_the_same_moment(self) -> None:
        async with self.opened("g", "c", "e", "a") as store:
            for id, at in (("f", AT + 1), ("b", AT - 1), ("d", AT + 1)):
                await store.open(id, "ada", at)
            await store.open("other", "bob", AT)
            assert await paged(store, 2) == [["d", "f"], ["a", "c"], ["e", "g"], ["b"]]
            assert [id for page in await paged(store, 1) for id in page] == ["d", "f", "a", "c", "e", "g", "b"]

    async def test_nothing_is_known_of_a_session_that_is_not_there(self) -> None:
        async with self.opened("s") as store:
            assert await store.read("x") == []
            assert await store.session("x") is None
            assert await store.call("x") is None
            assert await store.calls("x") == []
            assert await store.calls("x", done_after=0) == []
            assert await store.cursor("x", "ui") == 0
            assert await store.kept("x", "id") is None

    async def test_a_session_that_is_not_there_takes_nothing(self) -> None:
        async with self.opened("s") as store:
            assert await refused(store.commit(note("x")))
            assert await refused(store.keep("x", "id", b"data"))
            assert await refused(store.move_cursor("x", "ui", 1))
            assert await refused(store.wait("x", 0))
            await store.open("x", "ada", AT)
            assert await store.read("x") == []
            assert await store.kept("x", "id") is None
            assert await store.cursor("x", "ui") == 0

    async def test_a_refused_write_takes_no_other_with_it(self) -> None:
        async with self.opened("s") as store:
            writes = [store.commit(note(session)) for session in ("s", "x", "s", "s")]
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            assert [isinstance(outcome, StoreError) for outcome in outcomes] == [False, True, False, False]
            assert len(await store.read("s")) == 3

    async def test_a_cursor_never_goes_back(self) -> None:
        async with self.opened("s", "t") as store:
            assert await store.cursor("s", "ui") == 0
            assert [await store.move_cursor("s", "ui", seq) for seq in (3, 2, 5, 5)] == [3, 3, 5, 5]
            await asyncio.gather(*(store.move_cursor("s", "ui", seq) for seq in (9, 6, 12, 7)))
            assert await store.move_cursor("s", "model", 1) == 1
            again = await self.restarted(store)
            assert [await again.cursor("s", name) for name in ("ui", "model", "audit")] == [12, 1, 0]
            assert await again.cursor("t", "ui") == 0

    async def test_a_cursor_moves_with_the_events_of_a_write(self) -> None:
        def moving(session: str, seq: int) -> Write:
            write = note(session)
            write.cursor = ("model", seq)
            return write

        async with self.opened("s", "t") as store:
            store.put(moving("t", 2))
            assert [await store.commit(moving("s", seq)) for seq in (7, 3)] == [None, None]
            assert await refused(store.commit(moving("x", 9)))
            assert [len(await store.read(session)) for session in ("s", "t")] == [2, 1]
            again = await self.restarted(store)
            assert [await again.cursor(session, "model") for session in ("s", "t", "x")] == [7, 2, 0]
            assert await again.cursor("s", "ui") == 0

    async def test_a_kept_value_stays_what_it_was_first(self) -> None:
        async with self.opened("s", "t") as store:
            large = bytes(range(256)) * 4096
            await store.keep("s", "large", large)
            await store.keep("s", "large", b"other")
            await store.keep("s", "empty", b"")
            again = await self.restarted(store)
            assert await again.kept("s", "large") == large
            assert await again.kept("s", "empty") == b""
            assert await again.kept("s", "absent") is None
            assert await again.kept("t", "large") is None

    async def test_a_write_keeps_and_forgets_the_secrets_of_its_calls(self) -> None:
        async with self.opened("s", "t") as store:
            begin = submit(new("c", "s"))
            begin.keeps = (("args:c", b"one"), ("args:c:step:1:key", b"two"), ("args:c2", b"three"), ("args:d:x", b"4"))
            row = await commit(store, begin)
            await store.keep("t", "args:c", b"of another session")
            again = submit(new("c", "s"))
            again.keeps = (("args:refused", b"never"),)
            assert await store.commit(again) is not None
            late, end = finish(row.but(attempt=9)), finish(row)
            late.forgets = end.forgets = ("c", "absent")
            assert await store.commit(late) is not None
            assert await store.kept("s", "args:c") == b"one"
            assert await store.commit(end) is None
            later = await self.restarted(store)
            assert (await later.belongings("s"))[1] == ["args:c2", "args:d:x"]
            assert (await later.belongings("t"))[1] == ["args:c"]

    async def test_a_worker_lives_while_its_store_is_open(self) -> None:
        async with self.opened() as store:
            assert await store.alive("worker-1")
            assert not await store.alive("worker-2")
            again = await self.restarted(store)
            assert await again.alive("worker-2")
            assert not await again.alive("worker-1")

    async def test_workers_see_each_other(self) -> None:
        async with self.opened() as store:
            other = await self.second(store)
            assert await other.alive("worker-1")
            assert other is store or await store.alive("worker-3")
