"""Guarded writes: of all who try, exactly one wins, and who loses has written nothing."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from toolcrib.store import Conflict, Row, Store, Write
from toolcrib.testing.index_check import check_index
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
    settle,
    submit,
    texts,
)
from toolcrib.types import Result


async def race(stores: list[Store], writes: Iterable[Write]) -> list[Conflict | None]:
    """All at once, spread over the stores."""
    return await asyncio.gather(*(stores[n % len(stores)].commit(write) for n, write in enumerate(writes)))


def _ends(row: Row, name: str) -> Write:
    """The end of a call with two further ones."""
    write = finish(row)
    further = [submit(new(f"{name}{one}", state="waiting", question="due:x", expires_at=AT + 60)) for one in "ab"]
    write.events = [*(event for one in further for event in one.events), *write.events]
    write.adds = tuple(one.row for one in further if one.row is not None)
    return write


class GuardTests(StoreFixture):
    """Submit, claim, park, answer, finish, and the revision of the state."""

    async def test_a_second_call_of_the_same_id_finds_the_first(self) -> None:
        async with self.opened("s") as store:
            await store.commit(submit(new("c", key="first")))
            conflict = await store.commit(submit(new("c", key="second")))
            assert conflict is not None
            assert conflict.row == await store.call("c")
            assert conflict.row is not None
            assert conflict.row.key == "first"
            assert len(await store.read("s")) == 1

    async def test_a_key_used_twice_finds_the_first_call(self) -> None:
        async with self.opened("s") as store:
            await store.commit(submit(new("a", key="pay")))
            again = await self.restarted(store)
            conflict = await again.commit(submit(new("b", key="pay")))
            assert conflict is not None
            assert conflict.row == await again.call("a")
            assert await again.call("b") is None
            assert len(await again.read("s")) == 1

    async def test_of_many_with_one_key_one_is_accepted(self) -> None:
        async with self.opened("s") as store:
            stores = [store, await self.second(store)]
            outcomes = await race(stores, [submit(new(f"c{n}", key="pay")) for n in range(20)])
            (row,) = await store.calls("s")
            assert outcomes.count(None) == 1
            assert {outcome.row.id for outcome in outcomes if outcome is not None and outcome.row} == {row.id}
            assert len(await store.read("s")) == 1

    async def test_a_key_is_a_matter_of_one_session(self) -> None:
        async with self.opened("s", "t") as store:
            assert await store.commit(submit(new("a", "s", key="pay"))) is None
            assert await store.commit(submit(new("b", "t", key="pay"))) is None

    async def test_further_calls_are_made_with_a_write_or_not_at_all(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, submit(new("c")))
            row = await commit(store, claim(row))
            writes = [_ends(row, f"w{number}") for number in range(4)]
            outcomes = await race([store, await self.second(store)], writes)
            assert outcomes.count(None) == 1
            winner = f"w{outcomes.index(None)}"
            again = await self.restarted(store)
            rows = {one.id: one for one in await again.calls("s")}
            assert sorted(rows) == ["c", f"{winner}a", f"{winner}b"]
            assert [one.id for one in await again.calls("s", ("waiting",))] == [f"{winner}a", f"{winner}b"]
            assert [one.id for one in await again.expiring(AT + 60)] == [f"{winner}a", f"{winner}b"]
            kinds = [(event.call, event.kind) for event in await again.read("s")][2:]
            assert kinds == [(f"{winner}a", "accepted"), (f"{winner}b", "accepted"), ("c", "done")]
            assert (rows[f"{winner}a"].accepted_seq, rows[f"{winner}b"].accepted_seq, rows["c"].done_seq) == (3, 4, 5)

    async def test_of_many_who_claim_a_call_one_wins(self) -> None:
        async with self.opened("s") as store:
            stores = [store, await self.second(store)]
            row = await commit(store, submit(new("c")))
            outcomes = await race(stores, [claim(row, f"w{n}") for n in range(20)])
            now = await store.call("c")
            assert now is not None
            assert (now.state, now.attempt, now.worker) == ("running", 1, f"w{outcomes.index(None)}")
            assert outcomes.count(None) == 1
            assert all(outcome == Conflict(now) for outcome in outcomes if outcome is not None)
            assert [event.kind for event in await store.read("s")] == ["accepted", "started"]

    async def test_only_who_holds_the_attempt_can_finish(self) -> None:
        async with self.opened("s") as store:
            first = await commit(store, claim(await commit(store, submit(new("c"))), "zombie"))
            second = await commit(store, claim(first, "worker-2"))
            conflict = await store.commit(finish(first, "failed"))
            assert conflict is not None
            assert conflict.row is not None
            assert (conflict.row.attempt, conflict.row.worker, conflict.row.code) == (2, "worker-2", None)
            assert await store.commit(finish(second)) is None
            await check_index(store, "s")

    async def test_a_zombie_writes_nothing_at_all(self) -> None:
        async with self.opened("s") as store:
            zombie = await commit(store, claim(await commit(store, submit(new("c")))))
            await store.commit(finish(await commit(store, claim(zombie))))
            before = await store.read("s")
            store.put(Write("s", [line("progress", call="c")], zombie, ("running", 1)))
            store.put(park(zombie))
            assert await store.commit(finish(zombie)) is not None
            assert await store.read("s") == before
            await check_index(store, "s")

    async def test_a_call_is_done_once(self) -> None:
        async with self.opened("s") as store:
            stores = [store, await self.second(store)]
            row = await commit(store, claim(await commit(store, submit(new("c")))))
            outcomes = await race(stores, [finish(row, f"code-{n}") for n in range(20)])
            now = await store.call("c")
            assert now is not None
            assert (now.state, now.code) == ("done", f"code-{outcomes.index(None)}")
            assert [event.kind for event in await store.read("s")] == ["accepted", "started", "done"]

    async def test_only_who_held_the_attempt_can_settle(self) -> None:
        async with self.opened("s") as store:
            first = await commit(store, claim(await commit(store, submit(new("c")))))
            second = await commit(store, finish(await commit(store, claim(first)), "unknown"))
            assert await store.commit(settle(first.but(state="done"))) == Conflict(await store.call("c"))
            assert await store.commit(settle(second, data="paid")) is None
            again = await self.restarted(store)
            call = (await check_index(again, "s"))["c"]
            assert (call.status, call.entry().result) == ("succeeded", Result("paid"))
            assert [event.kind for event in await again.read("s")][-2:] == ["done", "settled"]

    async def test_what_runs_or_waits_cannot_be_settled(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, claim(await commit(store, submit(new("c")))))
            assert await store.commit(settle(row.but(state="done"))) == Conflict(await store.call("c"))
            await store.commit(park(row))
            assert await store.commit(settle(row.but(state="done"))) == Conflict(await store.call("c"))
            assert (await check_index(store, "s"))["c"].status == "waiting"

    async def test_of_many_answers_one_counts(self) -> None:
        async with self.opened("s") as store:
            stores = [store, await self.second(store)]
            row = await commit(store, park(await commit(store, submit(new("c")))))
            outcomes = await race(stores, [answer(row, f"actor-{n}") for n in range(20)])
            (answered,) = [event for event in await store.read("s") if event.kind == "answered"]
            assert outcomes.count(None) == 1
            assert answered.fields["actor"] == f"actor-{outcomes.index(None)}"
            await check_index(store, "s")

    async def test_an_answer_and_its_expiry_do_not_both_happen(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, park(await commit(store, submit(new("c")))))
            outcomes = await race([store], [answer(row), finish(row, "timeout")])
            assert outcomes.count(None) == 1
            assert len(await store.read("s")) == 3
            await check_index(store, "s")

    async def test_a_call_that_is_not_there_cannot_be_changed(self) -> None:
        async with self.opened("s") as store:
            assert await store.commit(claim(new("c"))) == Conflict(None)
            assert await store.call("c") is None
            assert await store.read("s") == []

    async def test_a_put_that_loses_leaves_nothing(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, submit(new("c")))
            store.put(note("s", "before"))
            store.put(claim(row.but(attempt=7)))
            store.put(note("s", "after"))
            await store.flush()
            assert await texts(store) == ["", "before", "after"]
            assert (await check_index(store, "s"))["c"].status == "queued"

    async def test_puts_of_one_call_build_on_each_other(self) -> None:
        async with self.opened("s") as store:
            row = new("c")
            store.put(submit(row))
            running = claim(row)
            store.put(running)
            assert running.row is not None
            store.put(finish(running.row))
            await store.flush()
            assert (await check_index(store, "s"))["c"].status == "succeeded"

    async def test_a_state_that_moved_on_refuses_the_write(self) -> None:
        async with self.opened("s") as store:
            assert await store.commit(Write("s", [line("one")], revision=(0, 1))) is None
            assert await store.commit(Write("s", [line("stale")], revision=(0, 1))) == Conflict(None)
            assert await store.commit(Write("s", [line("two")], revision=(1, 2))) is None
            again = await self.restarted(store)
            session = await again.session("s")
            assert session is not None
            assert session.revision == 2
            assert await texts(again) == ["one", "two"]

    async def test_a_stale_state_changes_no_call_and_a_lost_call_no_state(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, claim(await commit(store, submit(new("c")))))
            done, zombie = finish(row), finish(row.but(attempt=9))
            done.revision, zombie.revision = (5, 6), (0, 1)
            assert await store.commit(done) == Conflict(None)
            assert await store.commit(zombie) == Conflict(await store.call("c"))
            session = await store.session("s")
            assert session is not None
            assert session.revision == 0
            assert (await check_index(store, "s"))["c"].status == "running"

    async def test_of_many_who_change_a_state_one_wins(self) -> None:
        async with self.opened("s") as store:
            stores = [store, await self.second(store)]
            outcomes = await race(stores, [Write("s", [line(f"{n}")], revision=(0, 1)) for n in range(20)])
            assert outcomes.count(None) == 1
            assert await texts(store) == [str(outcomes.index(None))]
