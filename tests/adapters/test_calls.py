"""Calls that frameworks make: keys, waits, cancellation."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Context, Crib, CribLimits, tool
from toolcrib.adapters.calls import FrameworkCall, WaitingCall, call_key, make, session_for
from toolcrib.events import Event
from toolcrib.store.memory import MemoryStore
from toolcrib.types import Result


@tool
async def name_of(ctx: Context) -> str:
    """Ask for a name."""
    return str((await ctx.ask("Who?")).value)


@tool
async def greet(ctx: Context) -> str:
    """Greet whoever another tool asks for."""
    return f"Hello {(await ctx.call('name_of')).data}"


@tool
async def show_key(ctx: Context) -> str | None:
    """Return the key of the call."""
    return ctx.key


@tool(read_only=True)
async def show_nothing() -> list[str]:
    """List the open orders."""
    return []


def wanted(name: str, *ids: str) -> FrameworkCall:
    return FrameworkCall("test", f"default.{name}", {}, ids)


@requirement("adapters.key.1")
def test_a_key_is_bound_to_ids_tool_and_arguments() -> None:
    key = call_key("graph", "thread", 7, tool="refund", arguments={"a": 1, "b": 2})
    assert key == call_key("graph", "thread", "7", tool="refund", arguments={"b": 2, "a": 1})
    others = [
        call_key("graph", "thread", 8, tool="refund", arguments={"a": 1, "b": 2}),
        call_key("graph", "thread", 7, tool="refund", arguments={"a": 1, "b": 3}),
        call_key("graph", "thread", 7, tool="pay", arguments={"a": 1, "b": 2}),
        call_key("graph", "thread,7", tool="refund", arguments={"a": 1, "b": 2}),
        call_key("other", "thread", 7, tool="refund", arguments={"a": 1, "b": 2}),
    ]
    assert len({key, *others}) == 6


@requirement("adapters.key.2")
async def test_a_tool_sees_the_key_of_its_call() -> None:
    async with Crib([show_key]) as crib:
        session = await crib.open(owner="ada")
        call = wanted("show_key", "1")
        assert await make(session, call) == Result(call.key)
        assert (await session.call("show_key")).data is None


@requirement("adapters.run.1")
@pytest.mark.parametrize(("runs", "refused"), [(["r"] * 6, 2), (["r", "s"] * 3, 0), ([None] * 6, 0)])
async def test_calls_go_round_in_circles_within_one_run(runs: list[str | None], refused: int) -> None:
    async with Crib([show_nothing]) as crib:
        session = await crib.open(owner="ada")
        calls = [replace(wanted("show_nothing", str(number)), run=run) for number, run in enumerate(runs)]
        results = [await make(session, call) for call in calls]
        assert sum("Loop" in str(one) for one in results) == refused


@requirement("adapters.wait.1")
async def test_a_call_that_waits_comes_back_with_its_question_and_goes_on() -> None:
    async with Crib([name_of]) as crib:
        session = await crib.open(owner="ada")
        waiting = await make(session, wanted("name_of", "1"))
        assert isinstance(waiting, WaitingCall)
        assert waiting.question.prompt == "Who?"
        assert waiting.call in str(waiting)
        again = await make(session, wanted("name_of", "1"))
        assert again == waiting
        await session.answer(waiting.question.id, "accept", "Bob", actor="bob")
        assert await make(session, wanted("name_of", "1")) == Result("Bob")
        assert len(await session.completed()) == 1


@requirement("adapters.wait.1")
async def test_a_call_whose_child_waits_comes_back_with_the_question_of_the_child() -> None:
    async with Crib([name_of, greet]) as crib:
        session = await crib.open(owner="ada")
        waiting = await make(session, wanted("greet", "1"))
        assert isinstance(waiting, WaitingCall)
        assert waiting.question.call != waiting.call
        await session.answer(waiting.question.id, "accept", "Bob", actor="bob")
        assert await make(session, wanted("greet", "1")) == Result("Hello Bob")


@requirement("adapters.wait.2")
@pytest.mark.parametrize("is_watched", [False, True])
async def test_calls_that_are_followed_at_once_share_one_reader_of_the_log(is_watched: bool) -> None:
    reads = events = 0
    gate = asyncio.Barrier(101)

    @tool
    async def hold(number: int) -> int:
        """Return a number when all others are there."""
        await gate.wait()
        return number

    class Counting(MemoryStore):
        async def read(self, *args: Any, **more: Any) -> Any:
            nonlocal reads, events
            page = await super().read(*args, **more)
            reads, events = reads + 1, events + len(page)
            return page

    watch = (lambda event: None) if is_watched else None
    limits = CribLimits(per_session=200, per_turn=200)
    async with Crib([hold], store=Counting(), limits=limits) as crib:
        session = await crib.open(owner="ada")
        calls = [FrameworkCall("test", "default.hold", {"number": n}, (n,)) for n in range(100)]
        tasks = [asyncio.create_task(make(session, call, watch=watch)) for call in calls]
        await gate.wait()
        assert await asyncio.gather(*tasks) == [Result(n) for n in range(100)]
    assert reads < 1000  # a reader for each would need some ten thousand
    assert events < 2000


@pytest.mark.parametrize("is_long", [False, True])
async def test_what_a_call_puts_out_is_shown_once_however_long_it_takes(is_long: bool) -> None:
    shown: list[Any] = []
    is_shown = asyncio.Event()

    @tool
    async def speak(ctx: Context) -> None:
        """Put out two values."""
        ctx.output(1)
        if is_long:
            await is_shown.wait()
        ctx.output(2)

    def watch(event: Event) -> None:
        shown.append(event.fields["value"])
        is_shown.set()

    async with Crib([speak]) as crib:
        session = await crib.open(owner="ada")
        assert await make(session, wanted("speak", "1"), watch=watch) == Result(None)
    assert shown == [1, 2]


@requirement("adapters.cancel.1")
async def test_cancelling_the_task_of_the_framework_stops_the_call() -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def endless() -> None:
        """Never end by itself."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with Crib([endless]) as crib:
        session = await crib.open(owner="ada")
        task = asyncio.create_task(make(session, wanted("endless", "1")))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stopped.is_set()
        assert [entry.status for entry in await session.completed()] == ["cancelled"]


async def test_sessions_are_chosen_by_conversation() -> None:
    async with Crib([name_of]) as crib:
        one = await session_for(lambda thread: crib.open(thread, owner="ada"), "thread-1")
        assert one.id == "thread-1"
        assert await session_for(one, None) is one
        with pytest.raises(ValueError, match="no id"):
            await session_for(lambda thread: crib.open(thread, owner="ada"), None)


@requirement("adapters.light.1")
@pytest.mark.process
def test_no_framework_is_imported_unless_its_adapter_is() -> None:
    names = {"langchain", "langgraph", "pydantic_ai", "agents", "google.adk", "claude_agent_sdk", "agent_framework"}
    code = f"import sys, toolcrib.adapters; print([*{names!r}.intersection(sys.modules)])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"
