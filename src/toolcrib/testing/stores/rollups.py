"""Roll-ups: what they count, what outlives its session, and that they say what the log says."""

# ruff: noqa: D102 - tests are named as sentences

from __future__ import annotations

from collections import Counter

from toolcrib._call import lifecycle
from toolcrib.events import Accepted, CallerRecord, Done, Event, Opened, Started, TurnFinished
from toolcrib.store import OWNER, Archive, Row, SessionRow, Store, Write, draft
from toolcrib.store.codec import encode
from toolcrib.store.rollup_check import problems
from toolcrib.store.rollups import HOUR, MINUTE, By, Sum, Tally, TallyFilter, What, slot_of
from toolcrib.testing.stores.fixture import AT, StoreFixture, answer, claim, commit, finish, new, park, settle, submit
from toolcrib.types import Failure

START = int(AT)
DAY = (START - 3600, START + 86400)


async def tallies(store: Store, where: TallyFilter | None = None) -> list[Tally]:
    """What is counted, once all is."""
    assert await store.roll_up(60.0) == 0
    assert await problems(store, AT + 7200) == []
    merged: dict[tuple[int, What, str, str], Sum] = {}
    for tally in await store.tallies(where or TallyFilter(*DAY)):
        total = merged.setdefault((tally.at, tally.what, tally.name, tally.code), Sum())
        total.add(Sum(tally.number, tally.total, tally.slots))
    return [
        Tally(at, what, name, code, one.count, one.total, one.slots)
        for (at, what, name, code), one in sorted(merged.items(), key=lambda one: one[0])
    ]


async def called(
    store: Store, id: str, code: str | None = None, *, session: str = "s", ms: float = 12.5, at: float = AT
) -> Row:
    """A call of an agent from its beginning to its end, in three writes."""
    row = new(id, session)
    accepted = Accepted(row.tool, "Refund", {}, CallerRecord("agent", "clerk"), "", "once", agent="clerk")
    row = await commit(store, lifecycle.accept(row, [draft(at, id, accepted)]))
    row = await commit(store, lifecycle.claim(row, "worker-1", [draft(at, id, Started(1, {}, "", 60.0))]))
    failure = None if code is None else Failure(code, "It went wrong")
    done = Done(ok=code is None, failure=failure, duration_ms=ms)
    return await commit(store, lifecycle.finish(row, code, [draft(at, id, done)]))


class RollupTests(StoreFixture):
    """The numbers of a store."""

    async def test_calls_are_counted_by_how_they_ended(self) -> None:
        async with self.opened("s") as store:
            for place, code in enumerate((None, None, "timeout", "denied")):
                await called(store, f"c{place}", code)
            counts = Counter({tally.code: tally.number for tally in await tallies(store) if tally.what == "call"})
            assert counts == {"": 2, "timeout": 1, "denied": 1}

    async def test_however_little_time_there_is_something_is_counted(self) -> None:
        async with self.opened("s") as store:
            await called(store, "c1")
            assert await store.roll_up(0.0) == 0
            assert {tally.what for tally in await store.tallies(TallyFilter(*DAY))} == {"call"}

    async def test_times_are_kept_to_a_twentieth(self) -> None:
        async with self.opened("s") as store:
            await called(store, "c1", ms=12.5)
            await called(store, "c2", ms=900.0)
            (tally,) = await tallies(store)
            assert (tally.number, tally.total) == (2, 912_500)
            assert sorted(tally.slots) == [slot_of(12_500), slot_of(900_000)]

    async def test_tallies_are_told_by_tool_agent_and_owner(self) -> None:
        async with self.opened("s") as store:
            await store.open("b", "bob", AT)
            await called(store, "c1")
            await called(store, "c2", session="b")
            names: dict[By, list[str]] = {"tool": ["shop.refund"], "agent": ["clerk"], "owner": ["ada", "bob"]}
            for by, wanted in names.items():
                assert sorted(one.name for one in await tallies(store, TallyFilter(*DAY, by=by))) == wanted

    async def test_tallies_of_one_owner_are_those_of_no_other(self) -> None:
        async with self.opened("s") as store:
            await store.open("b", "bob", AT)
            for number in range(3):
                await called(store, f"c{number}", session="b" if number else "s")
            for owner, count in (("ada", 1), ("bob", 2), ("eve", 0)):
                listed = await tallies(store, TallyFilter(*DAY, owner=owner))
                assert sum(tally.number for tally in listed) == count
            assert not await tallies(store, TallyFilter(*DAY, tools=("shop.other",)))
            assert sum(one.number for one in await tallies(store, TallyFilter(*DAY, agent="clerk"))) == 3

    async def test_minutes_and_hours_are_told_apart(self) -> None:
        async with self.opened("s") as store:
            for number, at in enumerate((AT, AT + 59, AT + 60, AT + 3700)):
                await called(store, f"c{number}", at=at)
            minutes = await tallies(store, TallyFilter(START, START + 7200, MINUTE))
            assert [(one.at - AT, one.number) for one in minutes] == [(0, 2), (60, 1), (3660, 1)]
            hours = await tallies(store, TallyFilter(START, START + 7200, HOUR))
            assert [(one.at - AT, one.number) for one in hours] == [(0, 3), (3600, 1)]
            assert [one.number for one in await tallies(store, TallyFilter(START + 3600, START + 7200))] == [1]

    async def test_waiting_is_counted_when_it_ends(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, submit(new("c1")))
            row = await commit(store, claim(row))
            row = await commit(store, park(row))
            assert not await tallies(store)
            row = await commit(store, answer(row))
            waits = [tally for tally in await tallies(store) if tally.what == "wait"]
            assert [(tally.name, tally.number) for tally in waits] == [("shop.refund", 1)]
            await commit(store, finish(await commit(store, claim(row))))
            assert Counter(tally.what for tally in await tallies(store)) == {"call": 1, "wait": 1}

    async def test_a_question_that_nobody_answered_counts_as_a_wait(self) -> None:
        async with self.opened("s") as store:
            row = await commit(store, park(await commit(store, claim(await commit(store, submit(new("c1")))))))
            await commit(store, finish(row, "timeout"))
            assert Counter(tally.what for tally in await tallies(store)) == {"call": 1, "wait": 1}

    async def test_what_is_settled_later_counts_beside_the_end_that_was_unknown(self) -> None:
        async with self.opened("s") as store:
            row = await called(store, "c1", "unknown")
            await commit(store, settle(row))
            listed = [(tally.what, tally.code, tally.name, tally.number) for tally in await tallies(store)]
            assert listed == [("call", "unknown", "shop.refund", 1), ("settled", "", "shop.refund", 1)]

    async def test_turns_count_their_tokens_and_cost(self) -> None:
        async with self.opened("s") as store:
            usage = {"input": 100, "output": 20, "total": 120, "cost": 0.000125}
            turn = TurnFinished("r1", 1, "clerk", "small", usage, "stop", 250.0)
            await store.commit(Write("s", [draft(AT, None, turn)]))
            counts = {one.what: (one.name, one.number) for one in await tallies(store, TallyFilter(*DAY, by="agent"))}
            amounts = {"turn": 1, "input": 100, "output": 20, "cost": 125_000}
            assert counts == {what: ("clerk", amount) for what, amount in amounts.items()}
            assert {one.name for one in await tallies(store)} == {"small"}

    async def test_a_session_counts_when_it_is_made_and_not_when_it_is_opened_again(self) -> None:
        async with self.opened("s") as store:
            for restored in (False, True):
                await store.commit(Write("s", [draft(AT, None, Opened("ada", (), [], restored))]))
            assert [(tally.what, tally.number) for tally in await tallies(store)] == [("session", 1)]

    async def test_the_cribs_own_log_is_not_counted(self) -> None:
        async with self.opened("s") as store:
            await store.open("toolcrib.notes", OWNER, AT)
            await called(store, "c1", session="toolcrib.notes")
            assert not await tallies(store)

    async def test_numbers_outlive_sessions_that_are_swept_or_deleted(self) -> None:
        async with self.opened("s", "t") as store:
            await called(store, "c1")
            await called(store, "c2", session="t")
            await store.open("toolcrib.deleted", OWNER, AT)
            assert await store.delete("t", Write("toolcrib.deleted", []))
            assert await store.sweep(AT + 1, AT + 1) == 1
            assert [row.id for row in await store.sessions("ada")] == []
            assert [tally.number for tally in await tallies(store)] == [2]

    async def test_a_session_that_is_taken_in_counts_where_it_happened(self) -> None:
        async with self.opened() as store:
            row = new("c1").but(state="done", accepted_seq=1, done_seq=2)
            events = [
                Event(1, AT, "c1", "accepted", encode({"tool": "shop.refund", "agent": "clerk"})),
                Event(2, AT + 60, "c1", "done", encode({"ok": True, "duration_ms": 5})),
            ]
            assert await store.adopt(Archive(SessionRow("s", "ada", 2, 0, AT, AT + 60), events, [row], {}, {}))
            listed = await tallies(store, TallyFilter(*DAY, step=MINUTE, by="agent"))
            assert [(tally.at, tally.name, tally.number) for tally in listed] == [(AT + 60, "clerk", 1)]

    async def test_roll_ups_are_made_anew_from_the_log(self) -> None:
        async with self.opened("s", "t") as store:
            await called(store, "c1")
            await called(store, "c2", "denied", session="t")
            await store.open("toolcrib.deleted", OWNER, AT)
            assert await store.delete("t", Write("toolcrib.deleted", []))
            before = await tallies(store)
            await store.count_anew()
            assert await tallies(store) == before != []

    async def test_a_write_that_was_refused_counts_nothing(self) -> None:
        async with self.opened("s") as store:
            row = await called(store, "c1")
            late = lifecycle.finish(row, "failed", [draft(AT, "c1", Done(ok=False, duration_ms=1))])
            late.expect = ("running", 7)
            assert await store.commit(late) is not None
            assert [(tally.code, tally.number) for tally in await tallies(store)] == [("", 1)]

    async def test_tallies_are_there_after_a_restart(self) -> None:
        async with self.opened("s") as store:
            await called(store, "c1")
            again = await self.restarted(store)
            await called(again, "c2")
            assert [tally.number for tally in await tallies(again)] == [2]

    async def test_what_another_process_wrote_is_counted_too(self) -> None:
        async with self.opened("s") as store:
            other = await self.second(store)
            await called(store, "c1")
            await called(other, "c2")
            assert [tally.number for tally in await tallies(store)] == [2]
            assert [tally.number for tally in await tallies(other)] == [2]
