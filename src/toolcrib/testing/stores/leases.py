"""Leases: rows that are guarded as those of calls are, and that no list of calls has."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

from toolcrib.store import Conflict, Row, WalkFilter, Write
from toolcrib.testing.stores.fixture import AT, StoreFixture, commit, line, new, submit

LATER = AT + 1_000_000


def lease(id: str, state: str = "held", key: str | None = None) -> Row:
    """A lease that a worker has taken for the first time."""
    return Row(id, "s", "run", "lease", state, 1, "worker-1", AT, key=key)  # type: ignore[arg-type]


class LeaseTests(StoreFixture):
    """What is asked for is found, and nothing else is disturbed."""

    async def test_of_two_leases_of_one_id_or_key_the_first_stands(self) -> None:
        async with self.opened("s") as store:
            assert await store.commit(Write("s", [line("1")], lease("a", key="k"))) is None
            standing = await store.call("a")
            assert await store.commit(Write("s", [line("2")], lease("a"))) == Conflict(standing)
            assert await store.commit(Write("s", [line("3")], lease("b", key="k"))) == Conflict(standing)
            assert len(await store.read("s")) == 1

    async def test_whoever_lost_a_lease_writes_nothing_and_moves_no_cursor(self) -> None:
        async with self.opened("s") as store:
            old = lease("a")
            await store.commit(Write("s", [line("1")], old))
            await store.commit(Write("s", [], old.but(attempt=2, worker="worker-2"), ("held", 1)))
            write = Write("s", [line("2")], old.but(), ("held", 1))
            write.cursor = ("model", 1)
            assert isinstance(await store.commit(write), Conflict)
            store.put(Write("s", [line("3")], old.but(), ("held", 1)))
            await store.flush()
            assert len(await store.read("s")) == 1
            assert await store.cursor("s", "model") == 0

    async def test_leases_are_listed_where_they_are_asked_for_and_not_among_calls(self) -> None:
        async with self.opened("s") as store:
            call = await commit(store, submit(new("c")))
            for state in ("held", "released", "ended"):
                await store.commit(Write("s", [line(state)], lease(state, state)))
            assert [row.id for row in await store.calls("s")] == [row.id for row in await store.calls()] == [call.id]
            assert [row.id for row in await store.calls(None, ("held",))] == ["held"]
            assert [row.id for row in await store.calls("s", ("held",))] == ["held"]
            assert await store.calls("s", done_after=0) == []
            for where in (WalkFilter(), WalkFilter(session="s"), WalkFilter(states=("queued", "running", "waiting"))):
                assert [spot.row.id for spot in (await store.walk(where)).spots] == [call.id]

    async def test_an_index_that_is_made_anew_keeps_leases(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line("1")], lease("a", key="k")))
            await store.rebuild("s", [])
            assert (await store.call("a")) == lease("a", key="k").but(accepted_seq=1)
            assert isinstance(await store.commit(Write("s", [line("2")], lease("b", key="k"))), Conflict)

    async def test_leases_keep_no_session_and_go_with_theirs(self) -> None:
        async with self.opened("s") as store:
            for state in ("held", "released", "ended"):
                await store.commit(Write("s", [line(state)], lease(state, state)))
            assert await store.sweep(LATER, LATER) == 1
            await store.open("s", "bob", LATER)
            assert await store.commit(Write("s", [line("new")], lease("held"))) is None
