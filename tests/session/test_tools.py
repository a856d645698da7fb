"""Two kinds of tools: those with one result and those that stream; in the foreground and in the background."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, follow, kinds, log, text, values
from toolcrib import Context, Crib, Result, ToolFailure, tool


@requirement("aomi.tool.1")
async def test_a_function_returns_one_result_and_a_generator_or_ctx_output_streams(place: Place) -> None:
    @tool(read_only=True)
    def plain() -> int:
        """Return."""
        return 1

    @tool(read_only=True)
    async def waited() -> int:
        """Return later."""
        return 2

    @tool(read_only=True)
    def walked() -> Iterator[int]:
        """Yield in a thread."""
        yield 1
        yield 3

    @tool(read_only=True)
    async def streamed() -> AsyncIterator[int]:
        """Yield."""
        yield 1
        yield 4

    @tool(read_only=True)
    async def told(ctx: Context) -> int:
        """Tell on the way."""
        ctx.output({"n": 1})
        return 5

    async with place.crib(plain, waited, walked, streamed, told) as crib:
        session = await crib.open(owner="ada")
        seen = []
        for name in ("plain", "waited", "walked", "streamed", "told"):
            events = await follow(session, (await session.submit(name)).id)
            seen.append((values(events), events[-1].fields["data"]))
        assert seen == [([], 1), ([], 2), ([1, 3], 3), ([1, 4], 4), ([{"n": 1}], 5)]


async def strings() -> AsyncIterator[str]:
    """Yield strings."""
    for piece in ("a", "b", "b", ""):
        yield piece


def walked_strings() -> Iterator[str]:
    """Yield strings in a thread."""
    yield from ("a", "b", "b", "")


@requirement("aomi.tool.2")
@pytest.mark.parametrize("body", [strings, walked_strings])
async def test_each_yield_is_one_output_never_joined_and_the_last_is_the_result(
    place: Place, body: Callable[..., Any]
) -> None:
    async with place.crib(body) as crib:
        session = await crib.open(owner="ada")
        events = await follow(session, (await session.submit(body.__name__)).id)
        assert kinds(events) == ["accepted", "started", *["output"] * 4, "done"]
        assert values(events) == ["a", "b", "b", ""]
        assert events[-1].fields["data"] == ""


@requirement("aomi.tool.2")
async def test_a_result_yielded_last_is_the_result_and_no_value_at_all_succeeds_with_null() -> None:
    @tool(read_only=True)
    async def ends() -> AsyncIterator[Any]:
        """End with a result."""
        yield 1
        yield Result({"n": 2}, metadata={"from": "the end"})

    @tool(read_only=True)
    def ends_in_thread() -> Iterator[Any]:
        """End with a result."""
        yield 1
        yield Result({"n": 2}, metadata={"from": "the end"})

    @tool(read_only=True)
    async def empty() -> AsyncIterator[Any]:
        """Yield nothing."""
        if empty.description == "":
            yield 1

    async with Crib([ends, ends_in_thread, empty]) as crib:
        session = await crib.open(owner="ada")
        for name in ("ends", "ends_in_thread"):
            result = await session.call(name)
            assert (result.data, result.metadata) == ({"n": 2}, {"from": "the end"})
        nothing = await session.call("empty")
        assert nothing.ok
        assert nothing.data is None


@requirement("aomi.tool.2")
async def test_the_text_of_ctx_output_is_joined_and_keeps_its_place_between_values(place: Place) -> None:
    @tool(read_only=True)
    async def mixed(ctx: Context) -> None:
        """Tell text and values."""
        ctx.output("a")
        ctx.output("b")
        ctx.output({"n": 1})
        ctx.output("c")

    async with place.crib(mixed) as crib:
        session = await crib.open(owner="ada")
        events = await follow(session, (await session.submit("mixed")).id)
        assert [e.fields for e in events if e.kind == "output"] == [
            {"delta": "ab"},
            {"value": {"n": 1}},
            {"delta": "c"},
        ]


@requirement("aomi.tool.3")
async def test_a_plain_function_that_sleeps_keeps_nobody_waiting(place: Place) -> None:
    going, release = threading.Event(), threading.Event()

    @tool(read_only=True)
    def sleeper() -> str:
        """Block a thread."""
        going.set()
        release.wait(SOON)
        return threading.current_thread().name

    @tool(read_only=True)
    async def quick() -> int:
        """Answer."""
        return 1

    async with place.crib(sleeper, quick) as crib:
        one, two = await crib.open(owner="ada"), await crib.open(owner="bob")
        sleeping = asyncio.create_task(one.call("sleeper"))
        await asyncio.to_thread(going.wait, SOON)
        assert (await two.call("quick")).data == 1
        assert not sleeping.done()
        release.set()
        assert (await sleeping).data != threading.current_thread().name


@requirement("aomi.tool.4")
async def test_a_background_tool_answers_at_once_and_its_result_arrives_by_itself(place: Place) -> None:
    gate = Gate()

    @tool(background=True)
    async def export() -> str:
        """Export."""
        await gate.passed()
        return "file"

    async with place.crib(export) as crib:
        session = await crib.open(owner="ada")
        said = await session.call("export")
        id = said.data["id"]
        assert said.data == {"status": "queued", "id": id}
        assert "arrive by itself" in said.metadata["note"]
        assert "not call the tool again" in said.metadata["note"]
        await gate.wait()
        gate.opened.set()
        assert (await session.result(id)).data == "file"
        accepted, *_, done = await log(session, id)
        assert accepted.fields["background"] is True
        assert done.fields["background"] is True


@requirement("aomi.tool.4")
async def test_even_a_background_call_that_ends_at_once_is_answered_with_its_id_and_delivered_once(
    place: Place,
) -> None:
    @tool(background=True, read_only=True)
    async def quick() -> int:
        """Be quick."""
        return 7

    async with place.crib(quick) as crib:
        session = await crib.open(owner="ada")
        said = await session.call("quick")
        assert said.data == {"status": "queued", "id": said.data["id"]}
        assert (await session.result(said.data["id"])).data == 7


@requirement("aomi.tool.4")
async def test_a_background_call_that_is_refused_says_so_in_the_turn() -> None:
    @tool(background=True)
    async def export(rows: int) -> None:
        """Export."""

    async with Crib([export]) as crib:
        session = await crib.open(owner="ada")
        refused = await session.call("export", {"rows": "many"})
        assert refused.failure is not None
        assert refused.failure.code == "invalid_arguments"


@requirement("aomi.tool.4", "aomi.wake.1")
async def test_background_and_wake_are_the_tools_unless_a_call_says_otherwise(place: Place) -> None:
    @tool(background=True, wake="wake")
    async def export() -> int:
        """Export."""
        return 1

    @tool(background=True)
    async def other() -> int:
        """Do."""
        return 2

    async with place.crib(export, other) as crib:
        session = await crib.open(owner="ada")
        assert (await session.call("export", background=False)).data == 1
        calls = [
            await session.submit("export"),
            await session.submit("export", wake="silent"),
            await session.submit("other"),
            await session.submit("other", wake="wake"),
        ]
        ends = [(await follow(session, call.id))[-1].fields for call in calls]
        assert [end["wake"] for end in ends] == ["wake", "silent", "next_turn", "wake"]


@requirement("aomi.tool.5")
async def test_a_foreground_tool_may_stream_and_its_caller_gets_the_final_result(place: Place) -> None:
    @tool(read_only=True)
    async def count() -> AsyncIterator[int]:
        """Count."""
        for n in range(3):
            yield n

    async with place.crib(count) as crib:
        session = await crib.open(owner="ada")
        assert (await session.call("count")).data == 2
        assert values(await log(session)) == [0, 1, 2]


@requirement("aomi.tool.6")
async def test_a_body_that_runs_again_makes_its_chunks_again_but_not_those_of_a_step(place: Place) -> None:
    @tool
    async def write(ctx: Context) -> str:
        """Write a letter."""

        async def sealed() -> int:
            ctx.output({"in": "step"})
            return 1

        ctx.output({"in": "body"})
        await ctx.step("seal", sealed)
        name = await ctx.ask("To whom?")
        return str(name.value)

    async with place.crib(write) as crib:
        session = await crib.open(owner="ada")
        call = await session.submit("write")
        question = (await first(session, "waiting", call.id)).fields["question"]
        await session.answer(question["id"], "accept", "Bob")
        events = await follow(session, call.id)
        answered = kinds(events).index("answered")
        assert values(events[:answered]) == [{"in": "body"}, {"in": "step"}]
        assert values(events[answered:]) == [{"in": "body"}]  # readers start anew at the answer
        assert events[-1].fields["data"] == "Bob"


@requirement("aomi.tool.6")
async def test_after_a_crash_the_chunks_are_made_again_behind_a_new_start(place: Place) -> None:
    gate = Gate()

    @tool(idempotent=True)
    async def count() -> AsyncIterator[int]:
        """Count."""
        yield 1
        await gate.passed()
        yield 2

    async with place.crib(count) as crib:
        session = await crib.open("s-1", owner="ada")
        call = await session.submit("count")
        await first(session, "output", call.id)
        await crib.stop(grace=0)
    gate.opened.set()
    async with place.crib(count) as crib:
        session = await crib.open("s-1", owner="ada")
        events = await follow(session, call.id)
        assert [e.fields["attempt"] for e in events if e.kind == "started"] == [1, 2]
        again = len(events) - kinds(events)[::-1].index("started")
        assert values(events[again:]) == [1, 2]
        assert kinds(events).count("done") == 1


@requirement("aomi.tool.7")
async def test_call_status_and_cancel_call_work_on_the_calls_of_their_own_session(place: Place) -> None:
    gate = Gate()

    @tool(background=True)
    async def export() -> AsyncIterator[str]:
        """Export."""
        yield "page 1"
        await gate.passed()

    async with place.crib(export) as crib:
        spaces = ["default", "builtin"]
        session, other = await crib.open(owner="a", namespaces=spaces), await crib.open(owner="b", namespaces=spaces)
        id = (await session.call("export", label="All pages")).data["id"]
        await first(session, "output", id)
        said = (await session.call("call_status", {"id": id})).data
        assert said.pop("seconds") >= 0
        expected = {"tool": "default.export", "label": "All pages", "status": "streaming", "last_output": "page 1"}
        assert said == {"id": id, **expected}
        for name in ("call_status", "cancel_call"):
            foreign = (await other.call(name, {"id": id})).failure
            assert foreign is not None
            assert foreign.code == "not_found"
        assert (await session.call("cancel_call", {"id": id})).data == {"cancelled": True}
        assert (await session.call("cancel_call", {"id": id})).data == {"cancelled": False}
        assert (await session.call("call_status", {"id": id})).data["status"] == "cancelled"


@requirement("aomi.tool.2")
async def test_a_generator_that_fails_on_purpose_keeps_its_chunks() -> None:
    @tool(read_only=True)
    async def half(ctx: Context) -> AsyncIterator[int]:
        """Stop half way."""
        yield 1
        ctx.output("text")
        raise ToolFailure("failed", "no more")

    async with Crib([half]) as crib:
        session = await crib.open(owner="ada")
        assert (await session.call("half")).failure is not None
        events = await log(session)
        assert [e.fields for e in events if e.kind == "output"] == [{"value": 1}, {"delta": "text"}]
        assert text(e for e in events if "delta" in e.fields) == "text"
