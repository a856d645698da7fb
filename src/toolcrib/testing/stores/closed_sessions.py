"""Closed sessions: the store refuses calls that would enter, whoever closed it, until it is opened again."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

from toolcrib.store import Store, Write
from toolcrib.store.codec import Stored
from toolcrib.testing.index_check import check_index
from toolcrib.testing.stores.fixture import AT, StoreFixture, claim, commit, finish, new, submit


async def say(store: Store, kind: str) -> None:
    """Closes or opens the session."""
    assert await store.commit(Write("s", [(AT, None, kind, Stored(b"{}"))])) is None


class ClosedSessionTests(StoreFixture):
    """`closing` and `opened`."""

    async def test_a_closed_session_takes_no_new_call_until_it_is_opened(self) -> None:
        async with self.opened("s", "t") as store:
            await say(store, "closing")
            conflict = await store.commit(submit(new("a")))
            assert conflict is not None
            assert (conflict.row, conflict.closed) == (None, True)
            assert await store.commit(submit(new("b", "t"))) is None
            await say(store, "closed")
            assert (await store.commit(submit(new("a")))) is not None
            await say(store, "opened")
            assert await store.commit(submit(new("a"))) is None
            await check_index(store, "s")

    async def test_another_process_is_refused_by_a_closed_session(self) -> None:
        async with self.opened("s") as store:
            other = await self.second(store)
            assert await other.commit(submit(new("a"))) is None
            await say(store, "closing")
            conflict = await other.commit(submit(new("b", key="k")))
            assert conflict is not None
            assert (conflict.row, conflict.closed) == (None, True)
            again = await self.restarted(other) if other is not store else store
            assert await again.commit(submit(new("c"))) is not None
            await say(again, "opened")
            assert await again.commit(submit(new("b", key="k"))) is None

    async def test_what_is_under_way_ends_in_a_closed_session(self) -> None:
        async with self.opened("s") as store:
            running = await commit(store, claim(await commit(store, submit(new("a", key="k")))))
            await say(store, "closing")
            assert await store.commit(submit(new("c", parent="a"))) is None
            again = await store.commit(submit(new("b", key="k")))
            assert again is not None
            assert again.row is not None
            assert again.row.id == "a"
            await commit(store, finish(running))
            await check_index(store, "s")
