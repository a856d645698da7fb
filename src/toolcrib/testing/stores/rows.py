"""The index: one row a call, always what the log says."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

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
    park,
    settle,
    submit,
)

LIVES: dict[str, list[Callable[[Row], Write]]] = {
    "queued": [claim, park, lambda row: finish(row, "cancelled")],
    "running": [park, finish, claim, lambda row: finish(row, "failed"), lambda row: finish(row, "unknown")],
    "waiting": [answer, lambda row: finish(row, "timeout"), lambda row: finish(row, "declined")],
}


async def live(store: Store, row: Row, chance: random.Random) -> None:
    """Takes a call through any life to its end or to where it is left."""
    now = await commit(store, submit(row))
    for number in range(chance.randrange(12)):
        if now.state == "done":
            return
        step = chance.choice(LIVES[now.state])
        write = park(now, number) if step is park else step(now)
        if chance.random() < 0.5:
            store.put(write)
            assert write.row is not None
            now = write.row
        else:
            now = await commit(store, write)


class RowTests(StoreFixture):
    """Rows, and the lists made of them."""

    async def test_a_row_is_read_as_it_was_written(self) -> None:
        async with self.opened("s") as store:
            full: dict[str, Any] = {
                "worker": "w",
                "background": True,
                "parent": "p",
                "key": "k",
                "question": "c-1",
                "crashes": 2,
            }
            row = new("c", state="waiting", attempt=3, expires_at=AT + 0.125, **full)
            await store.commit(submit(row))
            assert await store.call("c") == row.but(accepted_seq=1)
            again = await self.restarted(store)
            assert await again.call("c") == row.but(accepted_seq=1)

    async def test_a_change_is_read_as_it_was_written(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, submit(new("c", key="k", parent="p")))
            changed = row.but(state="running", attempt=4, worker="w", question="q", expires_at=AT, crashes=1)
            await store.commit(Write("s", [line()], changed, ("queued", 0)))
            again = await self.restarted(store)
            assert await again.call("c") == changed.but(accepted_seq=1)

    async def test_a_row_knows_where_its_call_begins_and_ends(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(), line()]))
            row = await commit(store, submit(new("c")))
            await store.commit(Write("s", [line()]))
            running = await commit(store, claim(row))
            done = finish(running)
            done.events = [line("last words", call="c"), *done.events]
            await store.commit(done)
            again = await self.restarted(store)
            now = await again.call("c")
            assert now is not None
            assert (now.accepted_seq, now.done_seq) == (3, 7)
            await check_index(again, "s")

    async def test_a_call_that_is_over_at_once_begins_and_ends_in_one_write(self) -> None:
        async with self.opened("s") as store:
            begin, end = submit(new("c")), finish(new("c", state="running"))
            await store.commit(Write("s", [line(), *begin.events, *end.events][1:], end.row))
            now = await store.call("c")
            assert now is not None
            assert (now.accepted_seq, now.done_seq) == (1, 2)
            await check_index(store, "s")

    async def test_the_writer_knows_where_its_call_begins_once_that_is_written(self) -> None:
        async with self.opened("s") as store:
            await store.commit(Write("s", [line(), line()]))
            row = new("c")
            await store.commit(submit(row))
            assert row.accepted_seq == 3

    async def test_calls_are_listed_in_the_order_of_acceptance(self) -> None:
        async with self.opened("s") as store:
            for id in ("b", "c", "a"):
                await store.commit(submit(new(id)))
            await store.commit(claim(new("b")))
            assert [row.id for row in await store.calls("s")] == ["b", "c", "a"]
            assert [row.id for row in await store.calls("s", limit=2)] == ["b", "c"]

    async def test_calls_are_listed_by_session_state_and_parent(self) -> None:
        async with self.opened("s", "t") as store:
            for id, session, parent in (("a", "s", None), ("b", "s", "a"), ("c", "t", None), ("d", "s", None)):
                await store.commit(submit(new(id, session, parent=parent)))
            await store.commit(claim(new("a", "s")))
            await store.commit(finish(new("d", "s")))
            assert [row.id for row in await store.calls("s")] == ["a", "b", "d"]
            assert [row.id for row in await store.calls("s", ("queued",))] == ["b"]
            assert [row.id for row in await store.calls("s", ("running", "done"))] == ["a", "d"]
            assert [row.id for row in await store.calls("s", ("waiting",))] == []
            assert sorted(row.id for row in await store.calls(None, ("queued", "running"))) == ["a", "b", "c"]
            await store.commit(park(new("c", "t")))
            still = ("queued", "waiting", "running")
            assert sorted(row.id for row in await store.calls(None, still)) == ["a", "b", "c"]
            assert [row.id for row in await store.calls("s", still)] == ["a", "b"]
            assert [row.id for row in await store.calls("t", ("waiting", "running"))] == ["c"]
            assert [row.id for row in await store.calls(None, still, parent="a")] == ["b"]
            assert [row.id for row in await store.calls("s", parent="a")] == ["b"]
            assert [row.session for row in await store.calls("t")] == ["t"]

    async def test_finished_calls_are_listed_in_the_order_of_completion(self) -> None:
        async with self.opened("s", "t") as store:
            rows = {id: new(id, parent="p" if id == "b" else None) for id in ("a", "b", "c", "d")}
            for row in rows.values():
                await store.commit(submit(row))
            await store.commit(finish(await commit(store, submit(new("other", "t")))))
            for id in ("c", "a", "b"):
                await store.commit(finish(rows[id]))
            assert [row.id for row in await store.calls("s", done_after=0)] == ["c", "a", "b"]
            assert [row.id for row in await store.calls("s", done_after=5)] == ["a", "b"]
            assert [row.id for row in await store.calls("s", done_after=5, limit=1)] == ["a"]
            assert [row.id for row in await store.calls("s", done_after=0, parent="p")] == ["b"]
            assert await store.calls("s", done_after=7) == []

    async def test_a_call_that_was_settled_is_listed_once_where_it_was_settled(self) -> None:
        async with self.opened("s") as store:
            rows = [await commit(store, claim(await commit(store, submit(new(id))))) for id in ("a", "b")]
            unknown = await commit(store, finish(rows[0], "unknown"))
            await store.commit(finish(rows[1]))
            assert [row.id for row in await store.calls("s", done_after=0)] == ["a", "b"]
            await store.commit(settle(unknown, data="paid"))
            again = await self.restarted(store)
            listed = await again.calls("s", done_after=0)
            assert [(row.id, row.code, row.done_seq) for row in listed] == [("b", None, 6), ("a", None, 7)]
            assert [row.id for row in await again.calls("s", done_after=6)] == ["a"]
            assert await again.calls("s", done_after=7) == []
            await check_index(again, "s")

    async def test_rows_take_the_place_of_all_that_the_index_says_of_a_session(self) -> None:
        async with self.opened("s", "t") as store:
            for id, session in (("a", "s"), ("b", "s"), ("c", "t")):
                await store.commit(submit(new(id, session, key=f"key-{id}")))
            log, other = await store.read("s"), await store.calls("t")
            waiting = new("a", state="waiting", attempt=2, question="a-1", expires_at=AT + 9, accepted_seq=1)
            done = new("d", state="done", code="failed", key="key-d", accepted_seq=2, done_seq=2)
            await store.rebuild("s", iter([waiting, done]))
            again = await self.restarted(store)
            assert await again.calls("s") == [waiting, done]
            assert await again.next_expiry() == AT + 9
            assert await again.call("b") is None
            assert (await again.read("s"), await again.calls("t")) == (log, other)

    async def test_a_rebuilt_session_takes_its_calls_back_from_another(self) -> None:
        async with self.opened("s", "t") as store:
            row = await commit(store, submit(new("a", "t")))
            await store.rebuild("s", [row.but(session="s")])
            assert await store.calls("s") == [row.but(session="s")]
            assert await store.calls("t") == []

    async def test_an_index_that_was_rebuilt_guards_as_before(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, park(await commit(store, submit(new("a", key="pay")))))
            await store.rebuild("s", [row.but(attempt=3)])
            assert await store.commit(answer(row)) == Conflict(row.but(attempt=3))
            assert await store.commit(submit(new("b", key="pay"))) == Conflict(row.but(attempt=3))
            assert await store.commit(answer(row.but(attempt=3))) is None
            await store.rebuild("s", [])
            assert await store.commit(submit(new("b", key="pay"))) is None

    async def test_the_earliest_to_expire_comes_first(self) -> None:
        async with self.opened("s", "t") as store:
            for id, session, after in (("a", "s", 30), ("b", "t", 10), ("c", "s", 20)):
                await store.commit(park(await commit(store, submit(new(id, session))), expires_at=AT + after))
            assert await store.next_expiry() == AT + 10
            assert [row.id for row in await store.expiring(AT + 5)] == []
            assert [row.id for row in await store.expiring(AT + 20)] == ["b", "c"]
            assert [row.id for row in await store.expiring(AT + 100, limit=2)] == ["b", "c"]

    async def test_calls_that_are_not_done_are_counted_by_their_state(self) -> None:
        async with self.opened("s", "t") as store:
            assert await store.open_calls() == {"waiting": 0, "queued": 0, "running": 0}
            for id, session in (("a", "s"), ("b", "t"), ("c", "s")):
                await store.commit(park(await commit(store, submit(new(id, session))), expires_at=AT + 10))
            await store.commit(submit(new("d")))
            row = await commit(store, submit(new("e")))
            await store.commit(finish(row, "cancelled"))
            assert await store.open_calls() == {"waiting": 3, "queued": 1, "running": 0}

    async def test_the_open_calls_of_an_owner_are_listed_and_counted_alone(self) -> None:
        async with self.opened("s") as store:
            await store.open("t", "bob", AT)
            await store.open("u", "bob", AT)
            for id, session in (("a", "s"), ("b", "t"), ("c", "u"), ("d", "u")):
                await store.commit(park(await commit(store, submit(new(id, session)))))
            await store.commit(claim(await commit(store, submit(new("e", "t")))))
            await store.commit(submit(new("f", "u")))
            await store.commit(finish(await commit(store, submit(new("g", "t")))))
            assert sorted(row.id for row in await store.calls_of_owner("bob")) == ["b", "c", "d", "e", "f"]
            assert sorted(row.id for row in await store.calls_of_owner("bob", ("waiting",))) == ["b", "c", "d"]
            assert [row.id for row in await store.calls_of_owner("bob", ("queued",), limit=5)] == ["f"]
            assert {row.session for row in await store.calls_of_owner("bob")} == {"t", "u"}
            assert len(await store.calls_of_owner("bob", limit=2)) == 2
            assert await store.calls_of_owner("eve") == []
            assert await store.open_calls("bob") == {"waiting": 3, "queued": 1, "running": 1}
            assert await store.open_calls("ada") == {"waiting": 1, "queued": 0, "running": 0}
            assert await store.open_calls("eve") == {"waiting": 0, "queued": 0, "running": 0}

    async def test_what_waits_no_more_does_not_expire(self) -> None:
        async with self.opened("s") as store:
            assert await store.next_expiry() is None
            first = await commit(store, park(await commit(store, submit(new("a"))), expires_at=AT + 10))
            second = await commit(store, park(await commit(store, submit(new("b"))), expires_at=AT + 20))
            await store.commit(answer(first))
            assert await store.next_expiry() == AT + 20
            await store.commit(finish(second, "cancelled"))
            assert await store.next_expiry() is None
            assert await store.expiring(AT + 100) == []

    async def test_the_index_is_the_fold_of_the_log_whatever_calls_do(self) -> None:
        chance = random.Random(7)
        sessions = ["s0", "s1", "s2"]
        async with self.opened(*sessions) as store:
            rows = [new(f"c{n}", sessions[n % 3]) for n in range(60)]
            await asyncio.gather(*(live(store, row, chance) for row in rows))
            again = await self.restarted(store)
            for session in sessions:
                assert len(await check_index(again, session)) == 20

    async def test_what_a_worker_left_that_is_gone_is_lost_and_nothing_else(self) -> None:
        async with self.opened("s") as store:
            mine = await commit(store, submit(new("mine", worker="worker-1")))
            await commit(store, claim(mine))
            for id in ("queued", "running", "asked", "over"):
                row = await commit(store, submit(new(id, worker="nobody")))
                if id != "queued":
                    change = {"running": claim(row, "nobody"), "asked": park(row), "over": finish(row)}[id]
                    await commit(store, change)
            assert [row.id for row in (await store.lost()).rows] == ["queued", "running"]

    async def test_what_a_worker_left_that_ended_is_lost_to_the_next(self) -> None:
        async with self.opened("s") as store:
            await commit(store, submit(new("c", worker="worker-1")))
            assert (await store.lost()).rows == []
            again = await self.restarted(store)
            assert [row.id for row in (await again.lost()).rows] == ["c"]
