"""Walks: every call of every session is listed once, in order of time, page by page, whatever happens in between."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

import random
from typing import Any

from toolcrib.store import LogPosition, Row, Store, WalkedCall, WalkFilter
from toolcrib.store.codec import PAGE_BYTES
from toolcrib.testing.stores.fixture import AT, StoreFixture, claim, commit, finish, new, park, settle, submit


async def walked(store: Store, where: WalkFilter, limit: int = 100) -> list[WalkedCall]:
    """All that a walk finds, page by page."""
    spots: list[WalkedCall] = []
    page = await store.walk(where, limit=limit)
    while page.next is not None:
        assert len(page.spots) <= limit
        spots += page.spots
        page = await store.walk(where, page.next, limit=limit)
    return spots + page.spots


async def ids(store: Store, limit: int = 100, **where: Any) -> list[str]:
    """The calls that a walk finds."""
    return [spot.row.id for spot in await walked(store, WalkFilter(**where), limit)]


async def accepted(store: Store, id: str, session: str = "s", *, after: float = 0.0, **more: Any) -> Row:
    """A call that was accepted some time after all begins."""
    row = new(id, session, **more)
    row.accepted_at = AT + after
    return await commit(store, submit(row, at=AT + after))


class WalkTests(StoreFixture):
    """Calls of all sessions by time."""

    async def test_calls_of_all_sessions_are_found_by_time(self) -> None:
        async with self.opened("s", "t", "u") as store:
            for number, session in enumerate("stust"):
                await accepted(store, f"c{number}", session, after=number)
            assert await ids(store) == ["c4", "c3", "c2", "c1", "c0"]
            assert await ids(store, limit=2) == ["c4", "c3", "c2", "c1", "c0"]
            assert await ids(store, limit=1, oldest_first=True) == ["c0", "c1", "c2", "c3", "c4"]
            assert await ids(store, since=AT + 1, until=AT + 3) == ["c3", "c2", "c1"]
            (spot, *_), _ = await store.walk(WalkFilter(), limit=1)
            assert (spot.row.session, spot.owner, spot.mark.at) == ("t", "ada", AT + 4)

    async def test_none_is_lost_or_found_twice_where_many_came_at_the_same_moment(self) -> None:
        chance = random.Random(3)
        async with self.opened("s", "t", "u") as store:
            every = [f"c{number}" for number in range(60)]
            for id in every:
                await accepted(store, id, chance.choice("stu"), after=chance.randrange(3))
            for limit in (1, 2, 7, 59, 60, 61):
                back, forward = await ids(store, limit), await ids(store, limit, oldest_first=True)
                assert sorted(back) == sorted(every)
                assert forward == back[::-1]

    async def test_calls_are_found_by_state_code_and_tool(self) -> None:
        async with self.opened("s", "t") as store:
            rows = [await accepted(store, id, "st"[n % 2], after=n) for n, id in enumerate("abcdefg")]
            await store.commit(claim(rows[0]))
            await store.commit(park(rows[1]))
            for row, code in zip(rows[2:6], (None, "failed", "unknown", "timeout"), strict=True):
                await store.commit(finish(row, code))
            other = new("h", "t").but(tool="desk.print", accepted_at=AT + 9)
            await store.commit(submit(other, at=AT + 9))
            again = await self.restarted(store)
            assert await ids(again, states=("running",)) == ["a"]
            assert await ids(again, states=("queued", "running")) == ["h", "g", "a"]
            assert await ids(again, states=("waiting",)) == ["b"]
            assert await ids(again, states=("waiting", "queued")) == ["h", "g", "b"]
            assert await ids(again, states=("done",)) == ["f", "e", "d", "c"]
            assert await ids(again, states=("done",), codes=("",)) == ["c"]
            assert await ids(again, codes=("unknown",)) == ["e"]
            assert await ids(again, codes=("failed", "timeout")) == ["f", "d"]
            assert await ids(again, codes=("failed", "timeout"), oldest_first=True) == ["d", "f"]
            assert await ids(again, tool="print") == await ids(again, tool="desk.print") == ["h"]
            assert await ids(again, tool="rint") == await ids(again, tool="desk") == []
            assert await ids(again, tool="refund", states=("waiting",)) == ["b"]

    async def test_calls_are_found_by_the_whole_names_of_several_tools(self) -> None:
        async with self.opened("s", "t") as store:
            for number, tool in enumerate(("shop.pack", "shop.refund", "pack", "desk.print")):
                row = new(f"c{number}", "st"[number % 2]).but(tool=tool, accepted_at=AT + number)
                await store.commit(submit(row, at=AT + number))
            owners: list[dict[str, Any]] = [{}, {"owner": "ada"}]
            for more in owners:
                assert await ids(store, 1, tools=("shop.pack", "desk.print"), **more) == ["c3", "c0"]
                assert await ids(store, tools=("pack",), **more) == ["c2"]
                assert await ids(store, tools=("none",), **more) == []
                assert await ids(store, 1, other_tools=("shop.pack", "desk.print"), **more) == ["c2", "c1"]
                assert await ids(store, tools=("pack", "shop.pack"), other_tools=("pack",), **more) == ["c0"]

    async def test_calls_are_found_by_owner_and_by_session(self) -> None:
        async with self.opened("s", "t") as store:
            await store.open("b", "bob", AT)
            for number, session in enumerate("sbtbs"):
                await accepted(store, f"c{number}", session, after=number)
            await store.commit(finish(new("c1", "b"), "unknown"))
            assert await ids(store, 1, owner="bob") == ["c3", "c1"]
            assert await ids(store, owner="ada", oldest_first=True) == ["c0", "c2", "c4"]
            assert await ids(store, owner="nobody") == []
            assert await ids(store, owner="bob", codes=("unknown",)) == ["c1"]
            assert await ids(store, 1, session="s") == ["c4", "c0"]
            assert await ids(store, 1, session="s", oldest_first=True) == ["c0", "c4"]
            assert await ids(store, session="b", codes=("unknown",)) == ["c1"]
            assert await ids(store, session="b", owner="ada") == await ids(store, session="none") == []

    async def test_the_calls_of_one_session_are_in_the_order_of_its_log(self) -> None:
        async with self.opened("s") as store:
            for id, after in (("a", 5), ("b", 1), ("c", 3)):
                await accepted(store, id, after=after)
            assert await ids(store, 1, session="s") == ["c", "b", "a"]
            assert await ids(store, 1, session="s", oldest_first=True) == ["a", "b", "c"]
            assert await ids(store, 1) == ["a", "c", "b"]

    async def test_calls_are_found_where_they_ended_and_where_they_were_settled(self) -> None:
        async with self.opened("s", "t") as store:
            rows = [await accepted(store, id, session) for id, session in (("a", "s"), ("b", "t"), ("c", "s"))]
            for number, row in ((1, rows[1]), (2, rows[0])):
                write = finish(row, "unknown" if row.id == "a" else None)
                write.events = [(AT + number, *write.events[0][1:])]
                await store.commit(write)
                rows[0] = write.row or rows[0]
            settled = settle(rows[0], data="paid")
            settled.events = [(AT + 3, *settled.events[0][1:])]
            await store.commit(settled)
            again = await self.restarted(store)
            spots = await walked(again, WalkFilter("ended"), 1)
            assert [(spot.row.id, spot.mark.at - AT) for spot in spots] == [("a", 3), ("a", 2), ("b", 1)]
            assert [spot.mark.seq for spot in spots] == [4, 3, 2]
            assert await ids(again, over="ended", session="s") == ["a", "a"]
            assert await ids(again, over="ended", codes=("unknown",)) == ["a"]
            assert await ids(again, over="ended", codes=("",)) == ["a", "b"]
            assert await ids(again, over="ended", owner="ada", oldest_first=True) == ["b", "a", "a"]

    async def test_a_walk_goes_on_whatever_happens_to_its_calls(self) -> None:
        async with self.opened("s", "t") as store:
            rows = [await accepted(store, f"c{n}", "st"[n % 2], after=n) for n in range(6)]
            first = await store.walk(WalkFilter(), limit=2)
            for row in rows[2:]:
                await store.commit(finish(row))
            await accepted(store, "new", after=9)
            rest = await store.walk(WalkFilter(), first.next)
            assert [spot.row.id for spot in first.spots + rest.spots] == ["c5", "c4", "c3", "c2", "c1", "c0"]
            assert rest.next is None

    async def test_a_walk_goes_on_from_a_place_past_all_calls_of_that_moment(self) -> None:
        async with self.opened("s", "t") as store:
            for number in range(4):
                await accepted(store, f"c{number}", "st"[number % 2], after=number)
            for place in (LogPosition(AT + 1, 2**31, 2**31), LogPosition(AT + 1, 2**53, 2**32)):
                back, forward = (
                    await store.walk(WalkFilter(), place),
                    await store.walk(WalkFilter(oldest_first=True), place),
                )
                assert [spot.row.id for spot in back.spots] == ["c1", "c0"]
                assert [spot.row.id for spot in forward.spots] == ["c2", "c3"]

    async def test_the_events_of_several_calls_are_read_at_once(self) -> None:
        async with self.opened("s", "t") as store:
            rows = [await accepted(store, id, session) for id, session in (("a", "s"), ("b", "t"), ("c", "s"))]
            done = await commit(store, finish(await commit(store, claim(rows[0])), data="x" * 70_000))
            stories = await store.stories([rows[1], done, rows[2]])
            kinds = [[event.kind for event in story] for story in stories]
            assert kinds == [["accepted"], ["accepted", "started", "done"], ["accepted"]]
            assert stories[1] == await store.read("s", call="a")
            assert await store.stories([]) == []

    async def test_the_events_of_calls_with_large_results_are_read_a_few_calls_at_a_time(self) -> None:
        async with self.opened("s") as store:
            rows = list[Row]()
            for number in range(5):
                running = await commit(store, claim(await accepted(store, f"c{number}")))
                rows.append(await commit(store, finish(running, data="x" * (PAGE_BYTES // 2))))
            first = await store.stories(rows)
            rest = await store.stories(rows[len(first) :])
            last = await store.stories(rows[len(first) + len(rest) :])
            assert [len(some) for some in (first, rest, last)] == [2, 2, 1]
            assert [story[-1].call for some in (first, rest, last) for story in some] == [row.id for row in rows]
