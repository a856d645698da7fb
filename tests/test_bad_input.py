"""Whatever is given to a session or done by a tool has a defined answer, and the session lives on.

Every test ends with `works`: the next call of the same session succeeds, and each accepted call has one `done`.
"""

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import (
    Change,
    Context,
    Crib,
    CribLimits,
    Refused,
    Result,
    Session,
    StoreError,
    StoreUnavailable,
    StreamClosed,
    Tool,
    ToolFailure,
    block,
    tool,
)
from toolcrib.store.sqlite.store import SqliteStore
from toolcrib.types import Effect

HALF = "\ud800"  # half of a surrogate pair: text that no JSON can hold


@tool(read_only=True)
async def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool(read_only=True)
async def echo(value: Any = None) -> Any:
    """Give back what came."""
    return value


@tool(idempotent=True)
async def store_it(value: str) -> str:
    """Store a text."""
    return value


@tool
async def pay(cents: int) -> int:
    """Pay once."""
    return cents


async def works(session: Session) -> None:
    assert (await session.call("add", {"a": 1, "b": 2})).data == 3
    kinds = [(event.call, event.kind) async for event in session.events(follow=False)]
    calls = {call for call, _ in kinds if call is not None}
    assert {call: kinds.count((call, "done")) for call in calls} == dict.fromkeys(calls, 1)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db"


@pytest.fixture
async def crib(store: str) -> AsyncIterator[Crib]:
    limits = CribLimits(cleanup_s=0.2, unwritten_bytes=100_000)
    async with Crib([add, echo, store_it, pay], store=store, limits=limits) as made:
        yield made


@pytest.fixture
async def session(crib: Crib) -> Session:
    return await crib.open("s", owner="ada")


async def failed(session: Session, body: Any, args: Any = None, **options: Any) -> tuple[str, str]:
    """The code and message of a call of that tool, after which the session works."""
    made = body if isinstance(body, Tool) else tool(body)
    session.crib.add(made, replace=True)
    result = await asyncio.wait_for(session.call(made.name, args, **options), 60)
    await works(session)
    assert result.failure is not None
    return result.failure.code, result.failure.message


# What the caller gives


@pytest.mark.parametrize("args", [b'{"a": "\xff\xfe"}', b"\xff", b'{"\xc3": 1}', b'{"a": 1}\x00', b"[" * 100_000])
async def test_bytes_that_are_no_json_are_refused(session: Session, args: bytes) -> None:
    for name in ("add", "echo", "store_it", "pay", "nobody"):
        result = await asyncio.wait_for(session.call(name, args), 60)
        assert result.failure is not None
        assert result.failure.code in ("invalid_arguments", "not_found")
    await works(session)


async def test_an_unknown_tool_is_not_found_and_similar_names_are_offered(session: Session) -> None:
    result = await session.call("ad", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == ("not_found", "Unknown tool: ad")
    assert result.failure.hint is not None
    assert "add" in result.failure.hint
    await works(session)


@pytest.mark.parametrize("name", ["", "x" * 100_000, HALF, "a\x00b", "../../etc/passwd", "🦊"])
async def test_any_text_may_be_the_name_of_an_unknown_tool(session: Session, name: str) -> None:
    result = await session.call(name, {"a": 1})
    assert result.failure is not None
    assert result.failure.code == "not_found"
    await works(session)


async def test_wrong_types_are_all_reported_at_once(session: Session) -> None:
    code, message = await failed(session, add, {"a": "one", "b": [2]})
    assert code == "invalid_arguments"
    assert "a: expected integer" in message
    assert "b: expected integer" in message


async def test_extra_arguments_are_refused_and_the_nearest_one_is_named(session: Session) -> None:
    code, message = await failed(session, echo, {"valu": 1})
    assert code == "invalid_arguments"
    assert "valu" in message
    assert "value" in message


@pytest.mark.parametrize("given", ["[1, 2", b"\xff\xfe", "nonsense", "[1]", 5, object(), {"a": object()}, {1: HALF}])
async def test_arguments_that_are_no_object_are_invalid(session: Session, given: Any) -> None:
    assert (await failed(session, add, given))[0] == "invalid_arguments"


async def test_ten_megabytes_of_arguments_are_too_large_and_not_kept(session: Session) -> None:
    code, message = await failed(session, echo, {"value": "x" * 10_000_000})
    assert code == "too_large"
    assert "10000012 bytes" in message
    events = [event async for event in session.events(follow=False)]
    assert max(len(str(event.fields)) for event in events) < 10_000


@pytest.mark.parametrize("opened", ['{"value":', "["])
async def test_json_of_a_hundred_thousand_levels_is_invalid(session: Session, opened: str) -> None:
    text = opened * 100_000
    assert (await failed(session, echo, text))[0] == "invalid_arguments"
    closed = "[" * 100_000 + "]" * 100_000
    assert (await failed(session, echo, f'{{"value": {closed}}}'))[0] == "invalid_arguments"


async def test_an_object_of_a_hundred_thousand_levels_is_invalid(session: Session) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert (await failed(session, echo, {"value": deep}))[0] == "invalid_arguments"
    while deep:  # freed level by level, since freeing it at once would itself be nested
        deep = deep[0]


async def test_an_argument_that_contains_itself_is_invalid(session: Session) -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert (await failed(session, echo, {"value": circle}))[0] == "invalid_arguments"


async def test_text_that_no_json_holds_harms_nothing_in_label_and_provider_id(session: Session) -> None:
    result = await session.call("pay", {"cents": 1}, label=HALF, provider_id=HALF)
    assert result.data == 1
    await works(session)


# What the tool does


async def test_a_tool_that_raises_is_internal_and_its_text_stays_in_the_trace(session: Session) -> None:
    async def breaks() -> None:
        """Break."""
        raise RuntimeError("password=hunter2")

    code, message = await failed(session, breaks)
    assert code == "internal"
    assert "hunter2" not in message
    assert "hunter2" not in str([event async for event in session.events(follow=False)])


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), RecursionError(), GeneratorExit(), StopIteration()]
)
async def test_no_exception_of_any_kind_gets_out_of_a_tool(session: Session, error: BaseException) -> None:
    async def leaves() -> None:
        """Leave."""
        raise error

    def leaves_thread() -> None:
        """Leave the thread."""
        raise error

    def leaves_while_streaming() -> Iterator[int]:
        """Leave between two values."""
        yield 1
        raise error

    for body in (leaves, leaves_thread, leaves_while_streaming):
        assert (await failed(session, body))[0] == "internal"


async def test_a_step_in_a_thread_that_raises_system_exit_ends_only_its_call(session: Session) -> None:
    def exits(ctx: Context) -> None:
        """Exit inside a step."""
        ctx.step("leave", lambda: sys.exit(3))

    assert (await failed(session, exits))[0] == "internal"


async def test_a_tool_that_cancels_itself_is_internal(session: Session) -> None:
    async def gives_up() -> None:
        """Cancel the own task."""
        raise asyncio.CancelledError

    assert (await failed(session, gives_up))[0] == "internal"


async def test_a_tool_that_hangs_ends_at_its_deadline(session: Session) -> None:
    @tool(timeout=0.1)
    async def hangs() -> None:
        """Hang."""
        await asyncio.Event().wait()

    assert await failed(session, hangs) == ("timeout", "Timed out after 0.1 s")


async def test_a_caller_may_give_less_time_than_the_tool_has(session: Session) -> None:
    @tool(timeout=30)
    async def hangs() -> None:
        """Hang."""
        await asyncio.Event().wait()

    assert await failed(session, hangs, timeout_s=0.1) == ("timeout", "Timed out after 0.1 s")


async def test_a_tool_that_ignores_its_deadline_ends_without_its_body(session: Session) -> None:
    release = asyncio.Event()

    @tool(timeout=0.05)
    async def stubborn() -> str:
        """Ignore every cancellation."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    assert (await failed(session, stubborn))[0] == "timeout"
    release.set()


@pytest.mark.parametrize("value", [object(), HALF, {"f": print}, lambda: 1])
async def test_output_that_cannot_be_written_as_json_is_internal(session: Session, value: Any) -> None:
    async def odd() -> Any:
        """Give back what is no JSON."""
        return value

    code, message = await failed(session, odd)
    assert code == "internal"
    assert "JSON" in message


async def test_output_that_contains_itself_is_internal(session: Session) -> None:
    async def circle() -> Any:
        """Give back a list in itself."""
        value: list[Any] = []
        value.append(value)
        return value

    assert (await failed(session, circle))[0] == "internal"


async def test_output_that_violates_its_schema_is_internal_and_names_the_place(session: Session) -> None:
    @tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    async def promises() -> dict[str, Any]:
        """Promise a number."""
        return {"n": "many"}

    code, message = await failed(session, promises)
    assert code == "internal"
    assert message.startswith("The tool ran, but its output does not match its schema: n")


async def test_a_failure_whose_text_no_json_holds_is_still_told(session: Session) -> None:
    async def says() -> None:
        """Fail with half a character."""
        raise ToolFailure("failed", f"{HALF} broken", hint=HALF)

    code, message = await failed(session, says)
    assert code == "failed"
    assert message.endswith(" broken")


@pytest.mark.parametrize(
    "odd",
    [
        Result(content=[block("json", value={(1, 2): object(), HALF: [HALF]})]),
        Result(1, changes=["set"]),  # type: ignore[list-item]
        Result(1, changes=[Change("set", "k", {(1, 2): HALF})]),
        Result(1, metadata={"why": HALF}),
        Result(failure="no"),  # type: ignore[arg-type]
        ToolFailure("failed", "why", metadata={"why": HALF}),
    ],
)
async def test_a_result_whose_parts_no_json_holds_is_internal(session: Session, odd: Any) -> None:
    async def gives() -> Any:
        """Give back something odd."""
        return odd

    async def raises() -> Any:
        """Raise something odd."""
        raise odd

    assert (await failed(session, raises if isinstance(odd, Exception) else gives))[0] == "internal"


@pytest.mark.parametrize(
    "odd", [{"data": object()}, {"kind": "bogus"}, {"schema": object()}, {"key": HALF}, {"expires_s": "x"}]
)
async def test_a_question_that_cannot_be_asked_ends_the_call(session: Session, odd: dict[str, Any]) -> None:
    async def asks(ctx: Context) -> None:
        """Ask oddly."""
        await ctx.ask("What?", **odd)

    session.crib.add(tool(asks))
    call = await asyncio.wait_for(session.submit("asks"), 60)
    async for event in session.events(call=call.id):
        if event.kind == "waiting":
            await session.cancel(call.id)
    assert (await session.result(call.id)).failure is not None
    await works(session)


async def test_what_a_tool_tells_may_be_anything(session: Session) -> None:
    async def tells(ctx: Context) -> str:
        """Tell odd things."""
        circle: list[Any] = []
        circle.append(circle)
        for odd in (HALF, object(), circle, {(1, 2): 3}, float("nan")):
            ctx.progress(str(odd) if odd is not circle else HALF)
            ctx.output(odd)
            ctx.activity(HALF, odd)
        return "told"

    session.crib.add(tool(tells))
    assert (await asyncio.wait_for(session.call("tells"), 60)).data == "told"
    await works(session)


async def test_a_tool_that_streams_for_ever_ends_at_its_deadline_and_its_chunks_stay(session: Session) -> None:
    closed = asyncio.Event()

    @tool(timeout=0.5, read_only=True)
    async def endless() -> AsyncIterator[int]:
        """Count for ever."""
        try:
            n = 0
            while True:
                yield n
                n += 1
                if n % 100 == 0:
                    await asyncio.sleep(0)
        finally:
            closed.set()

    assert (await failed(session, endless))[0] == "timeout"
    await asyncio.wait_for(closed.wait(), 60)
    values = [event.fields["value"] async for event in session.events(follow=False) if event.kind == "output"]
    assert len(values) > 10
    assert values == list(range(len(values)))


async def test_a_thread_that_streams_for_ever_ends_at_its_deadline(session: Session) -> None:
    @tool(timeout=0.2, read_only=True)
    def endless() -> Iterator[str]:
        """Repeat for ever."""
        while True:
            yield "again"

    assert (await failed(session, endless))[0] == "timeout"


async def test_a_tool_that_writes_faster_than_can_be_kept_is_stopped(tmp_path: Path) -> None:
    async def floods(ctx: Context) -> str:
        """Write without a pause."""
        for _ in range(1000):
            ctx.output("x" * 10_000)
        await asyncio.Event().wait()
        return "never"

    limits = CribLimits(unwritten_bytes=100_000)
    async with Crib([add, floods], store=f"sqlite:///{tmp_path}/log.db", limits=limits) as crib:
        assert (await failed(await crib.open("s", owner="ada"), floods))[0] == "too_large"


@pytest.mark.parametrize(("effect", "code"), [("read", "unavailable"), ("once", "unknown")])
async def test_a_stream_that_closes_early_says_so_by_effect(session: Session, effect: Effect, code: str) -> None:
    @tool(effect=effect)
    async def remote() -> AsyncIterator[int]:
        """Lose the other side."""
        yield 1
        raise StreamClosed

    assert (await failed(session, remote))[0] == code
    assert [e.fields["value"] async for e in session.events(follow=False) if e.kind == "output"] == [1]


async def test_a_tool_that_calls_itself_is_denied_at_the_limit_of_depth(session: Session) -> None:
    depths: list[int] = []

    @tool(read_only=True)
    async def again(ctx: Context, depth: int = 0) -> str:
        """Call itself."""
        depths.append(depth)
        result = await ctx.call("again", {"depth": depth + 1})
        return result.failure.message if result.failure is not None else str(result.data)

    session.crib.add(again)
    result = await session.call("again")
    assert result.data == "Calls may be at most 8 deep"
    assert depths == list(range(9))
    await works(session)


async def test_a_tool_that_calls_itself_without_end_in_both_directions_is_denied(session: Session) -> None:
    @tool(read_only=True)
    async def forks(ctx: Context) -> int:
        """Call itself twice."""
        two = await asyncio.gather(ctx.call("forks"), ctx.call("forks"))
        return 1 + sum(result.data or 0 for result in two)

    session.crib.add(forks)
    assert (await asyncio.wait_for(session.call("forks"), 30)).data == 2**9 - 1
    await works(session)


async def test_a_business_check_that_breaks_ends_only_its_call(session: Session) -> None:
    @tool(validate=lambda values: sys.exit(1))
    async def checked(n: int = 0) -> int:
        """Be checked."""
        return n

    assert (await failed(session, checked))[0] == "internal"


# Names, owners, callers that leave


def test_two_tools_with_one_name_are_refused_when_the_crib_is_made() -> None:
    @tool(name="add")
    async def other() -> int:
        """Add differently."""
        return 0

    with pytest.raises(Refused, match="Tool 'add' is already registered in namespace 'default'"):
        Crib([add, other])


async def test_a_second_tool_of_a_name_is_refused_while_the_crib_runs(session: Session) -> None:
    @tool(name="add")
    async def other() -> int:
        """Add differently."""
        return 0

    with pytest.raises(Refused, match="already registered"):
        session.crib.add(other)
    await works(session)


async def test_a_session_of_somebody_else_is_denied_without_a_word_about_it(crib: Crib, session: Session) -> None:
    with pytest.raises(Refused) as caught:
        await crib.open("s", owner="mallory")
    assert caught.value.code == "denied"
    assert "ada" not in str(caught.value)
    await works(session)


@pytest.mark.parametrize("id", ["", "a/b", "x" * 256, "a b", HALF, "a\n"])
async def test_a_bad_session_id_is_refused(crib: Crib, session: Session, id: str) -> None:
    with pytest.raises(Refused) as caught:
        await crib.open(id, owner="ada")
    assert caught.value.code == "invalid_arguments"
    await works(session)


@pytest.mark.parametrize("turns", range(4))
async def test_a_caller_that_leaves_while_its_call_is_accepted_leaves_a_whole_call(
    session: Session, turns: int
) -> None:
    async def asks(ctx: Context) -> str:
        """Ask."""
        return str((await ctx.ask("Name?")).value)

    session.crib.add(tool(asks))
    for name, args in (("pay", {"cents": 1}), ("asks", {}), ("nobody", {}), ("pay", {"cents": "x"})):
        for use in (session.call, session.submit):
            caller = asyncio.ensure_future(use(name, args))
            for _ in range(turns):
                await asyncio.sleep(0)
            caller.cancel()
            await asyncio.wait([caller])
    await asyncio.wait_for(session.close(timeout=5), 60)
    again = await session.crib.open("s", owner="ada")
    for question in await again.questions():
        await again.cancel(question.call)
    await works(again)


async def test_a_cancel_before_the_body_has_begun_keeps_it_from_running(session: Session) -> None:
    ran: list[int] = []
    begun: list[int] = []

    async def hangs(n: int) -> None:
        """Hang."""
        ran.append(n)
        await asyncio.Event().wait()

    session.crib.add(tool(hangs))
    for n in range(20):
        call = await session.submit("hangs", {"n": n})
        for _ in range(n % 4):
            await asyncio.sleep(0)
        assert await asyncio.wait_for(session.cancel(call.id), 60)
        begun += [n] if n in ran else []
        assert (await session.result(call.id)).failure is not None
    await works(session)
    assert ran == begun  # nothing began once its cancellation was confirmed


async def test_thousands_of_queued_calls_that_are_over_at_once_all_end(session: Session) -> None:
    gate = asyncio.Event()

    @tool(read_only=True)
    async def hold() -> str:
        """Hold a seat."""
        await gate.wait()
        return "held"

    session.crib.add(hold)
    holding = [asyncio.ensure_future(session.call("hold")) for _ in range(16)]
    await asyncio.sleep(0)
    rest = [asyncio.ensure_future(session.call("add", {"a": n})) for n in range(2000)]
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.wait_for(asyncio.gather(*holding, *rest), 60)
    assert [result.data for result in results] == ["held"] * 16 + list(range(2000))
    await works(session)


# The store


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[tuple[Session, sqlite3.Connection]]:
    """A session on SQLite, and the writer's connection, whose disk can be full."""
    async with Crib([add, echo, store_it, pay], store=f"sqlite:///{tmp_path}/log.db") as crib:
        assert isinstance(crib.store, SqliteStore)
        yield await crib.open("s", owner="ada"), crib.store._writing


def fill(db: sqlite3.Connection) -> None:
    """Leaves the file no page to grow, and its last pages no room."""
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")


def free(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA max_page_count = 1000000")


async def until_full(session: Session) -> Result:
    """Calls that need more pages than there are, until one is refused."""
    while True:
        result = await session.call("pay", {"cents": 1}, label="x" * 100)
        if not result.ok:
            return result


async def test_on_a_full_disk_a_call_that_may_happen_once_does_not_run(disk: Any) -> None:
    session, db = disk
    fill(db)
    result = await asyncio.wait_for(until_full(session), 30)
    assert result.failure is not None
    assert result.failure.code == "unavailable"
    assert "full" in result.failure.message
    free(db)
    await works(session)


@requirement("store.9")
async def test_a_full_disk_is_a_clear_error_and_nothing_is_half_written(disk: Any) -> None:
    session, db = disk
    fill(db)
    await asyncio.wait_for(until_full(session), 30)
    with pytest.raises(StoreUnavailable, match=r"full .*nothing was half-written"):
        await session.submit("store_it", {"value": "x" * 10_000})
    unknown = await session.call("nobody" + "x" * 10_000)
    assert unknown.failure is not None
    assert unknown.failure.code in ("unavailable", "not_found")
    read = await session.call("add", {"a": 1})
    assert read.data == 1
    late = asyncio.ensure_future(session.call("store_it", {"value": "x" * 10_000}))
    await asyncio.wait([late], timeout=0.1)
    free(db)
    assert (await asyncio.wait_for(late, 60)).data == "x" * 10_000
    await works(session)
    seqs = [event.seq async for event in session.events(follow=False)]
    assert seqs == list(range(1, len(seqs) + 1))
    accepted = [e.fields["tool"] async for e in session.events(follow=False) if e.kind == "accepted"]
    assert accepted.count("default.store_it") == 1


async def test_what_was_submitted_before_the_disk_was_full_is_done_when_it_is_not(disk: Any) -> None:
    session, db = disk
    gate, started = asyncio.Event(), asyncio.Semaphore(0)

    async def writes(ctx: Context, n: int) -> int:
        """Do something once, with a step."""
        if n == 2:
            started.release()
        await gate.wait()
        value: int = await ctx.step("x" * 10_000, lambda: n)
        return value

    session.crib.add(tool(writes))
    calls = [await session.submit("writes", {"n": n}) for n in range(3)]
    await started.acquire()
    fill(db)
    await asyncio.wait_for(until_full(session), 30)
    gate.set()
    await asyncio.wait_for(session.call("add", {"a": 1}), 60)
    free(db)
    assert [(await asyncio.wait_for(session.result(call.id), 60)).data for call in calls] == [0, 1, 2]
    await works(session)


@requirement("store.9")
async def test_a_locked_file_is_a_clear_error_and_the_next_call_works(disk: Any, tmp_path: Path) -> None:
    session, db = disk
    db.execute("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    burst = [asyncio.ensure_future(session.call("pay", {"cents": n})) for n in range(16)]
    results = await asyncio.wait_for(asyncio.gather(*burst), 60)
    assert {result.failure.code for result in results} == {"unavailable"}
    assert "locked" in results[0].failure.message
    other.execute("ROLLBACK")
    other.close()
    await works(session)


@requirement("store.9")
async def test_a_file_that_is_no_store_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"this is not a database at all, but it is long enough " * 100)
    with pytest.raises(StoreUnavailable, match=r"log\.db"):
        await Crib([add], store=f"sqlite:///{tmp_path}/log.db").start()


async def test_a_folder_that_does_not_exist_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere does not exist"):
        await Crib([add], store=f"sqlite:///{tmp_path}/nowhere/log.db").start()


def test_an_unknown_kind_of_store_is_refused() -> None:
    with pytest.raises(StoreError, match="Unknown store"):
        Crib([add], store="mongo://x")


async def test_a_second_crib_on_the_same_file_is_one_more_user_of_one_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with Crib([add], store=url) as one, Crib([add], store=url) as two:
        first = await one.open("s", owner="ada")
        second = await two.open("s", owner="ada")
        calls = [use.call("add", {"a": n}) for n in range(200) for use in (first, second)]
        assert all(result.ok for result in await asyncio.gather(*calls))
        await works(first)
        await works(second)
        seqs = [event.seq async for event in first.events(follow=False)]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(await first.completed()) == 402
