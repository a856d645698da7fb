"""Writes on behalf of a call: they hold only while that call runs in the attempt that they name."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio

from toolcrib.store import Conflict, Row, Store, Write
from toolcrib.testing.index_check import check_index
from toolcrib.testing.stores.fixture import StoreFixture, claim, commit, finish, line, new, note, park, submit, texts
from toolcrib.testing.stores.guards import race


async def running(store: Store, id: str = "p") -> Row:
    """A call that runs in its first attempt."""
    return await commit(store, claim(await commit(store, submit(new(id)))))


def behalf(write: Write, row: Row) -> Write:
    """The same write, made for a call that runs as in that row."""
    write.holder = row.id, row.attempt
    return write


class FenceTests(StoreFixture):
    """Children, and whatever else a running call writes beside its own row."""

    async def test_what_a_running_call_makes_is_accepted(self) -> None:
        async with self.opened("s") as store:
            parent = await running(store)
            assert await store.commit(behalf(submit(new("c", parent="p")), parent)) is None
            assert await store.commit(behalf(note("s", "of the call"), parent)) is None
            assert await texts(store) == ["", "", "", "of the call"]
            await check_index(store, "s")

    async def test_a_call_that_was_taken_over_makes_nothing_any_more(self) -> None:
        async with self.opened("s") as store:
            zombie = await running(store)
            await store.commit(claim(zombie, "worker-2"))
            before = await store.read("s")
            fenced = Conflict(await store.call("p"), fenced=True)
            assert await store.commit(behalf(submit(new("c", parent="p")), zombie)) == fenced
            assert await store.commit(behalf(note("s"), zombie)) == fenced
            store.put(behalf(submit(new("d", parent="p")), zombie))
            await store.flush()
            assert (await store.read("s"), await store.call("c"), await store.call("d")) == (before, None, None)

    async def test_a_lease_makes_calls_for_as_long_as_it_is_held_as_it_was_taken(self) -> None:
        async with self.opened("s") as store:
            lease = await commit(store, Write("s", [], new("run:s:0", state="held", attempt=1)))
            assert await store.commit(behalf(submit(new("c")), lease)) is None
            taken = lease.but(attempt=2, worker="worker-2")
            await store.commit(Write("s", [], taken, ("held", 1)))
            fenced = Conflict(await store.call(lease.id), fenced=True)
            assert await store.commit(behalf(submit(new("d")), lease)) == fenced
            assert await store.commit(behalf(submit(new("e")), taken)) is None
            await store.commit(Write("s", [], taken.but(state="ended"), ("held", 2)))
            assert (await store.commit(behalf(submit(new("f")), taken)) or Conflict(None)).fenced
            assert [await store.call(id) is not None for id in "cdef"] == [True, False, True, False]

    async def test_a_call_that_waits_or_is_done_makes_nothing(self) -> None:
        async with self.opened("s") as store:
            waits, ended = await running(store, "waits"), await running(store, "ended")
            await store.commit(park(waits))
            await store.commit(finish(ended))
            for row in (waits, ended):
                fenced = Conflict(await store.call(row.id), fenced=True)
                assert await store.commit(behalf(submit(new("c", parent=row.id)), row)) == fenced
            assert await store.call("c") is None

    async def test_a_call_that_is_not_there_or_of_another_session_makes_nothing(self) -> None:
        async with self.opened("s", "t") as store:
            parent = await running(store)
            gone = await store.commit(behalf(note("s"), new("nobody", state="running", attempt=1)))
            other = await store.commit(behalf(note("t"), parent))
            assert gone == Conflict(None, fenced=True)
            assert other is not None
            assert other.fenced
            assert await store.read("t") == []

    async def test_a_row_that_changes_on_behalf_of_another_is_guarded_by_both(self) -> None:
        async with self.opened("s") as store:
            parent = await running(store)
            child = await commit(store, behalf(submit(new("c", parent="p")), parent))
            assert await store.commit(behalf(claim(child.but(attempt=4)), parent)) == Conflict(await store.call("c"))
            await store.commit(claim(parent, "worker-2"))
            assert await store.commit(behalf(claim(child), parent)) == Conflict(await store.call("p"), fenced=True)
            assert await store.commit(claim(child)) is None
            await check_index(store, "s")

    async def test_a_stale_state_and_a_fence_refuse_alike(self) -> None:
        async with self.opened("s") as store:
            zombie = await running(store)
            await store.commit(claim(zombie, "worker-2"))
            change = behalf(Write("s", [line("late")], revision=(0, 1)), zombie)
            assert await store.commit(change) == Conflict(await store.call("p"), fenced=True)
            session = await store.session("s")
            assert session is not None
            assert session.revision == 0

    async def test_a_write_is_not_refused_for_one_before_it_that_it_does_not_build_on(self) -> None:
        async with self.opened("s") as store:
            waiting = await commit(store, submit(new("c", state="waiting")))
            resumed = waiting.but(state="queued")
            assert await store.commit(Write("s", [], resumed, ("waiting", waiting.attempt))) is None
            too_late = store.commit(Write("s", [], resumed, ("waiting", waiting.attempt)))
            outcomes = await asyncio.gather(too_late, store.commit(claim(resumed)))
            assert [outcome is None for outcome in outcomes] == [False, True]

    async def test_puts_of_a_call_and_of_what_it_makes_build_on_each_other(self) -> None:
        async with self.opened("s") as store:
            parent, child = new("p", state="running", attempt=1), new("c", state="running", attempt=1, parent="p")
            store.put(submit(parent))
            store.put(behalf(submit(child), parent))
            store.put(behalf(submit(new("g", parent="c")), child))
            store.put(finish(child))
            store.put(behalf(note("s", "said"), parent))
            store.put(finish(parent))
            assert await store.commit(behalf(note("s", "late"), parent)) is not None
            assert [row.state for row in await store.calls("s")] == ["done", "done", "queued"]
            assert (await texts(store)).count("said") == 1
            assert "late" not in await texts(store)

    async def test_what_a_refused_call_makes_is_refused_with_it(self) -> None:
        async with self.opened("s") as store:
            await store.commit(submit(new("other", key="pay")))
            parent, child = new("p", state="running", attempt=1, key="pay"), new("c", state="running", attempt=1)
            store.put(submit(parent))
            store.put(behalf(submit(child), parent))
            store.put(behalf(submit(new("g")), child))
            await store.flush()
            assert [row.id for row in await store.calls("s")] == ["other"]

    async def test_who_puts_is_told_that_the_write_was_refused(self) -> None:
        async with self.opened("s") as store:
            zombie = await running(store)
            await store.commit(claim(zombie, "worker-2"))
            conflicts: list[Conflict] = []
            all_reported = asyncio.Event()

            def tell(conflict: Conflict) -> None:
                conflicts.append(conflict)
                if len(conflicts) == 3:
                    all_reported.set()

            for write in (behalf(note("s"), zombie), finish(zombie), Write("s", [line()], revision=(4, 5))):
                write.on_conflict = tell
                store.put(write)
            row = await store.call("p")
            await all_reported.wait()  # a store may look the row up first
            assert sorted(conflicts, key=lambda one: (one.fenced, one.row is None)) == [
                Conflict(row),
                Conflict(None),
                Conflict(row, fenced=True),
            ]

    async def test_of_a_takeover_and_a_child_one_comes_first(self) -> None:
        async with self.opened("s") as store:
            stores = [store, await self.second(store)]
            for number in range(10):
                parent = await running(store, f"p{number}")
                child = behalf(submit(new(f"c{number}", parent=parent.id)), parent)
                refused, lost = await race(stores, [child, claim(parent, "worker-3")])
                assert lost is None
                assert refused is None or refused.fenced
                assert (await store.read("s"))[-1].call == parent.id
            await check_index(store, "s")
