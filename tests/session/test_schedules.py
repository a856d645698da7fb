"""schedules.*: calls that wait for their time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import SecretStr

from tests.contract.observers import code, kinds, log, refusal
from tests.requirements import requirement
from toolcrib import Context, Crib, CribLimits, Failure, Refused, Result, Schedule, Session, ToolFailure, tool
from toolcrib._call import lifecycle
from toolcrib.store import Store, open_store
from toolcrib.testing import FakeClock
from toolcrib.testing.index_check import check_index

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
Open = Callable[..., Awaitable[Crib]]


class Ledger:
    """What was really done, by whichever crib."""

    def __init__(self) -> None:
        self.lines: list[str] = []


@tool(effect="once")
async def note(ctx: Context, text: str = "x") -> str:
    """Note it."""
    ctx.deps[Ledger].lines.append(text)
    return text


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db")


@pytest.fixture
async def open_crib(store: Store, clock: FakeClock, ledger: Ledger) -> AsyncIterator[Open]:
    running: list[Crib] = []

    async def opened(*sources: Any, **options: Any) -> Crib:
        while running:
            await running.pop().stop(grace=0)
        crib = Crib([note, *sources], store=store, clock=clock, deps={"ledger": ledger}, retention=None, **options)
        await crib.start()
        running.append(crib)
        return crib

    yield opened
    while running:
        await running.pop().stop(grace=0)


async def reached(session: Session, kind: str, count: int = 1) -> None:
    """Returns when the log has so many events of a kind."""
    seen = 0
    async with asyncio.timeout(20):
        async for event in session.events():
            seen += event.kind == kind
            if seen >= count:
                return


async def whole(session: Session) -> None:
    """The index says what the log says."""
    await session.crib.store.flush()
    assert await check_index(session.crib.store, session.id)


@requirement("schedules.call.1")
@pytest.mark.parametrize("when", [{"after": 60}, {"after": timedelta(minutes=1)}, {"at": START + 60}])
async def test_a_call_is_made_when_its_time_has_come(
    open_crib: Open, clock: FakeClock, ledger: Ledger, when: Any
) -> None:
    session = await (await open_crib()).open("s", owner="ada")
    made = await session.schedule("note", {"text": "later"}, **when)
    assert (made.due, made.id, made.tool) == (START + 60, made.call, "default.note")
    assert [one.id for one in await session.schedules()] == [made.id]
    assert (await session.status(made.id)).status == "waiting"
    await clock.advance(59)
    assert ledger.lines == []
    await whole(session)
    await clock.advance(1)
    assert (await session.result(made.id)).data == "later"
    assert ledger.lines == ["later"]
    assert await kinds(session) == ["accepted", "scheduled", "fired", "started", "done"]
    assert await session.schedules() == []
    await whole(session)


@requirement("schedules.call.1")
async def test_a_call_is_made_when_another_has_ended(open_crib: Open, ledger: Ledger) -> None:
    @tool(effect="once")
    async def asks(ctx: Context) -> str:
        """Ask."""
        await ctx.ask("Go on?")
        ledger.lines.append("first")
        raise ToolFailure("failed", "no")

    session = await (await open_crib(asks)).open("s", owner="ada")
    call = await session.submit("asks")
    made = await session.schedule("note", {"text": "then"}, when=call.id)
    assert (made.due, made.when) == (None, call.id)
    await reached(session, "waiting")
    await whole(session)
    (question,) = await session.questions()
    await session.answer(question.id, "accept")
    assert (await session.result(made.id)).data == "then"
    assert ledger.lines == ["first", "then"]


@requirement("schedules.call.2")
async def test_what_could_never_run_is_refused_where_it_is_scheduled(open_crib: Open) -> None:
    session = await (await open_crib(policy={"rules": [{"deny": "note(never)"}]})).open("s", owner="ada")
    for tool_name, args, times, expected in (
        ("note", {"txt": 1}, {"after": 1}, "invalid_arguments"),
        ("nothing", {}, {"after": 1}, "not_found"),
        ("note", {"text": "never"}, {"after": 1}, "denied"),
        ("note", {}, {"after": 1, "at": 5.0}, "invalid_arguments"),
        ("note", {}, {"cron": "61 * * * *"}, "invalid_arguments"),
        ("note", {}, {"cron": "* * * * *", "timezone": "Mars/Base"}, "invalid_arguments"),
        ("note", {}, {"when": "no-such-call"}, "not_found"),
        ("note", {}, {"after": -1}, "invalid_arguments"),
        ("note", {}, {"missed": "perhaps"}, "invalid_arguments"),
    ):
        refused = await refusal(session.schedule(tool_name, args, **times))
        assert (refused.code, tool_name, times) == (expected, tool_name, times)
    assert await session.schedules() == []
    assert await log(session, "scheduled") == []


@requirement("schedules.call.2")
async def test_the_rights_of_the_session_count_when_the_time_has_come(
    open_crib: Open, clock: FakeClock, ledger: Ledger
) -> None:
    crib = await open_crib()
    session = await crib.open("s", owner="ada")
    made = await session.schedule("note", after=60)
    await session.narrow(namespaces=[])
    await clock.advance(60)
    assert code(await session.result(made.id)) == "denied"
    closed = await crib.open("t", owner="ada")
    made = await closed.schedule("note", after=60)
    await closed.close()
    assert (await refusal(crib.schedule("t", "note", after=1))).code == "unavailable"
    await clock.advance(60)
    await reached(closed, "done")
    again = await crib.open("t", owner="ada")
    assert code(await again.result(made.id)) == "unavailable"
    assert ledger.lines == []


@requirement("schedules.call.3")
async def test_a_schedule_is_cancelled_and_makes_no_call(open_crib: Open, clock: FakeClock, ledger: Ledger) -> None:
    crib = await open_crib()
    session = await crib.open("s", owner="ada")
    made = await session.schedule("note", cron="* * * * *")
    await clock.advance(60)
    await reached(session, "done")
    (now,) = await crib.schedules(owner="ada")
    assert (now.id, now.call, now.due) == (made.id, f"{made.id}_{START + 120:.0f}", START + 120)
    assert await crib.schedules(owner="bob") == []
    assert await crib.cancel_schedule(made.id) is True
    assert await session.cancel_schedule(made.id) is False
    await clock.advance(600)
    assert len(ledger.lines) == 1
    result = await session.result(now.call)
    assert result.failure == Failure("cancelled", "The schedule was cancelled")
    assert (await refusal(session.cancel_schedule("nothing"))).code == "not_found"
    assert (await refusal(session.cancel_schedule((await session.submit("note")).id))).code == "not_found"
    await whole(session)


@requirement("schedules.call.3")
async def test_a_key_makes_one_schedule(open_crib: Open) -> None:
    session = await (await open_crib()).open("s", owner="ada")
    first = await session.schedule("note", after=60, key="daily")
    assert await session.schedule("note", after=90, key="daily") == first
    assert len(await session.schedules()) == 1


@requirement("schedules.call.3")
async def test_an_interrupt_leaves_schedules_alone_and_a_scheduled_call_can_be_cancelled(open_crib: Open) -> None:
    session = await (await open_crib()).open("s", owner="ada")
    made = await session.schedule("note", after=60)
    await session.interrupt()
    assert [one.id for one in await session.schedules()] == [made.id]
    assert await session.cancel(made.id)
    assert await session.schedules() == []


@requirement("schedules.cron.1")
async def test_a_cron_expression_makes_call_after_call(open_crib: Open, clock: FakeClock, ledger: Ledger) -> None:
    session = await (await open_crib()).open("s", owner="ada")
    made = await session.schedule("note", {"text": "tick"}, cron="*/10 * * * *")
    for number in range(1, 4):
        await clock.advance(600)
        await reached(session, "done", number)
    assert ledger.lines == ["tick"] * 3
    fired = [event.fields for event in await log(session, "fired")]
    assert [one["due"] for one in fired] == [START + 600 * number for number in (1, 2, 3)]
    assert {one["schedule"] for one in fired} == {made.id}
    await whole(session)


@requirement("schedules.cron.2")
@pytest.mark.parametrize(
    ("begin", "cron", "expected"),
    [
        ((2026, 3, 28), "30 2 * * *", ["03-28 02:30", "03-29 03:00", "03-30 02:30"]),
        ((2026, 10, 24), "30 2 * * *", ["10-24 02:30", "10-25 02:30", "10-26 02:30"]),
        ((2026, 10, 25), "0 2-3 * * *", ["10-25 02:00", "10-25 03:00", "10-26 02:00"]),
    ],
)
async def test_days_on_which_clocks_change_have_each_run_once(
    open_crib: Open, clock: FakeClock, begin: tuple[int, int, int], cron: str, expected: list[str]
) -> None:
    zone = ZoneInfo("Europe/Berlin")
    session = await (await open_crib()).open("s", owner="ada")
    await clock.advance(datetime(*begin, tzinfo=zone).timestamp() - clock.now())
    made = await session.schedule("note", cron=cron, timezone="Europe/Berlin")
    dues = [made.due]
    for number in (1, 2):
        await clock.advance((dues[-1] or 0) - clock.now())
        await reached(session, "done", number)
        dues.append((await session.schedules())[0].due)
    assert [datetime.fromtimestamp(due or 0, zone).strftime("%m-%d %H:%M") for due in dues] == expected


@requirement("schedules.cron.3")
@pytest.mark.parametrize(
    ("missed", "limit", "runs"), [("skip", 100, 0), ("once", 100, 1), ("all", 100, 5), ("all", 3, 4)]
)
async def test_runs_that_were_missed_go_by_the_declared_rule(
    open_crib: Open, clock: FakeClock, ledger: Ledger, missed: Any, limit: int, runs: int
) -> None:
    crib = await open_crib()
    await (await crib.open("s", owner="ada")).schedule("note", cron="0 * * * *", missed=missed, limit=limit)
    await crib.stop(grace=0)
    clock._now += 5 * 3600 + 1800  # nothing runs for five and a half hours
    session = await (await open_crib()).open("s", owner="ada")
    await clock.settle()
    await reached(session, "done", runs) if runs else await reached(session, "scheduled", 2)
    async with asyncio.timeout(20):
        while (await session.schedules())[0].due != START + 6 * 3600:
            await crib.store.wait(session.id, len(await log(session)))
    assert len(ledger.lines) == runs
    await clock.advance(1800)
    await reached(session, "done", runs + 1)
    assert [code(entry.result) for entry in await session.completed() if entry.result] == [None] * (runs + 1)
    assert len(ledger.lines) == runs + 1
    await whole(session)


@requirement("schedules.cron.3")
@pytest.mark.parametrize(("missed", "expected"), [("once", None), ("skip", "timeout")])
async def test_one_call_that_was_missed_is_made_late_or_ends(
    open_crib: Open, clock: FakeClock, missed: Any, expected: str | None
) -> None:
    crib = await open_crib()
    made = await (await crib.open("s", owner="ada")).schedule("note", after=60, missed=missed)
    await crib.stop(grace=0)
    clock._now += 3600
    session = await (await open_crib()).open("s", owner="ada")
    assert code(await session.result(made.id)) == expected


@requirement("contract.result.7")
@pytest.mark.parametrize("fails", [False, True])
async def test_a_tool_hands_back_calls_to_be_made_later(
    open_crib: Open, clock: FakeClock, ledger: Ledger, fails: bool
) -> None:
    @tool(effect="once")
    async def order() -> Result:
        """Order."""
        failure = Failure("SOLD_OUT", "nothing left") if fails else None
        later: list[Any] = [Schedule("note", {"text": "remind"}, after=60), {"tool": "note", "args": {"text": "now"}}]
        return Result(None if fails else 7, failure=failure, schedules=later)

    session = await (await open_crib(order)).open("s", owner="ada")
    result = await session.call("order")
    assert result.ok is not fails
    first, second = result.metadata["scheduled"]
    order_of = [event.kind for event in await log(session) if event.call is not None][:7]
    assert order_of == ["accepted", "started", "accepted", "scheduled", "accepted", "scheduled", "done"]
    assert (await session.result(second)).data == "now"
    await clock.advance(60)
    assert (await session.result(first)).data == "remind"
    assert ledger.lines == ["now", "remind"]
    await whole(session)


@requirement("contract.result.7")
async def test_a_call_that_may_not_be_made_fails_the_tool_that_hands_it_back(open_crib: Open) -> None:
    @tool(effect="once")
    async def order() -> Result:
        """Order."""
        return Result(7, schedules=[Schedule("nothing", after=60)])

    session = await (await open_crib(order)).open("s", owner="ada")
    result = await session.call("order")
    assert result.failure is not None
    assert "nothing could not be scheduled: [not_found]" in result.failure.message
    assert (result.metadata["unsaved"], await session.schedules()) == (7, [])


@requirement("schedules.call.4")
async def test_a_body_that_runs_again_schedules_once(open_crib: Open, clock: FakeClock, ledger: Ledger) -> None:
    @tool(effect="once")
    async def order(ctx: Context) -> str:
        """Order."""
        id = await ctx.schedule("remind", Schedule("note", {"text": "remind"}, after=60))
        await ctx.ask("Sure?")
        return id

    session = await (await open_crib(order)).open("s", owner="ada")
    call = await session.submit("order")
    await reached(session, "waiting")
    (made,) = await session.schedules()
    (question,) = await session.questions()
    await session.answer(question.id, "accept")
    assert (await session.result(call.id)).data == made.id
    assert len(await session.schedules()) == 1
    await clock.advance(60)
    assert (await session.result(made.id)).data == "remind"
    assert ledger.lines == ["remind"]


@requirement("schedules.call.5")
async def test_a_policy_that_asks_is_asked_when_the_time_has_come(open_crib: Open, clock: FakeClock) -> None:
    session = await (await open_crib(policy={"rules": [{"ask": "note"}]})).open("s", owner="ada")
    made = await session.schedule("note", after=60)
    assert await session.questions() == []
    await clock.advance(60)
    await reached(session, "waiting")
    (question,) = await session.questions()
    assert question.call == made.id
    await session.answer(question.id, "accept")
    assert (await session.result(made.id)).ok
    await whole(session)


async def test_a_schedule_needs_a_session_that_exists(open_crib: Open) -> None:
    crib = await open_crib()
    with pytest.raises(Refused, match="no session 'nowhere'"):
        await crib.schedule("nowhere", "note", after=1)


@requirement("schedules.call.4", "reliability.fence.2")
@pytest.mark.parametrize("way", ["result", "context"])
async def test_a_body_that_was_taken_over_schedules_nothing(open_crib: Open, way: str) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    @tool(effect="idempotent")
    async def order(ctx: Context) -> Result:
        """Order."""
        began.set()
        await go.wait()
        later = Schedule("note", after=60)
        if way == "context":
            await ctx.schedule("later", later)
        return Result(1, schedules=[later])

    crib = await open_crib(order)
    session = await crib.open("s", owner="ada")
    call = await session.submit("order")
    await began.wait()
    row = await crib.store.call(call.id)
    assert row is not None
    assert await crib.store.commit(lifecycle.claim(row, "another", [])) is None
    live = session.live[call.id]
    go.set()
    await live.ended()
    assert await session.schedules() == []
    assert await log(session, "scheduled") == []


@requirement("schedules.call.3")
async def test_schedules_go_with_an_exported_session(open_crib: Open, clock: FakeClock, ledger: Ledger) -> None:
    crib = await open_crib()
    made = await (await crib.open("s", owner="ada")).schedule("note", {"text": "kept"}, cron="0 * * * *")
    lines = [line async for line in crib.export_session("s")]
    await crib.delete_session("s", actor="ada", force=True)
    assert await crib.schedules() == []
    await crib.import_session(lines)
    assert [one.id for one in await crib.schedules()] == [made.id]
    session = await crib.open("s", owner="ada")
    await clock.advance(3600)
    await reached(session, "done")
    assert ledger.lines == ["kept"]
    await whole(session)


@requirement("schedules.call.5")
async def test_each_later_call_is_charged_to_the_rates(open_crib: Open, clock: FakeClock) -> None:
    @tool(effect="idempotent", rate="1/h")
    async def rare() -> str:
        """Do it rarely."""
        return "done"

    session = await (await open_crib(rare)).open("s", owner="ada")
    await session.schedule("rare", cron="*/20 * * * *")
    for number in range(1, 5):
        await clock.advance(1200)
        await reached(session, "done", number)
    codes = [code(entry.result) for entry in await session.completed() if entry.result is not None]
    assert codes == [None, "rate_limited", None, "rate_limited"]


@requirement("schedules.call.3")
async def test_an_owner_has_so_many_waiting_calls_and_no_more(open_crib: Open) -> None:
    limits = CribLimits(shared=True, waiting_per_owner=3)
    session = await (await open_crib(limits=limits)).open("s", owner="ada")
    for _ in range(3):
        await session.schedule("note", after=60)
    assert (await refusal(session.schedule("note", after=60))).code == "rate_limited"


@requirement("schedules.cron.1", "contract.failure.4")
async def test_secret_arguments_of_a_schedule_are_kept_apart_for_each_call(
    open_crib: Open, clock: FakeClock, ledger: Ledger
) -> None:
    @tool(effect="once")
    async def pay(ctx: Context, token: SecretStr) -> str:
        """Pay."""
        ctx.deps[Ledger].lines.append(token.get_secret_value())
        return "paid"

    crib = await open_crib(pay, secret_key="k" * 32)
    session = await crib.open("s", owner="ada")
    await session.schedule("pay", {"token": "sk-hidden-1"}, cron="0 * * * *")
    for number in (1, 2):
        await clock.advance(3600)
        await reached(session, "done", number)
    assert ledger.lines == ["sk-hidden-1", "sk-hidden-1"]
    assert "sk-hidden-1" not in str([event.fields for event in await log(session)])
    await whole(session)


@requirement("findings.words.7")
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"after": 5, "timezone": "Europe/Berlin"}, "timezone: only a cron expression"),
        ({"at": 5.0, "timezone": "Mars/Base"}, "timezone: only a cron expression"),
        ({"cron": "0 7 * * *", "limit": 3}, "limit: only `missed: all`"),
        ({"after": 5, "limit": 3, "missed": "skip"}, "limit: only `missed: all`"),
    ],
)
def test_settings_of_a_schedule_that_would_do_nothing_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Schedule("shop.find", **settings)
