"""One execution path: results find their calls by id, children go the same way, and a fault stays within its call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.requirements import requirement
from tests.session.place import SOON, Gate, Place, first, follow, kinds, log
from toolcrib import Context, Crib, Result, Tool, Verdict, tool
from toolcrib.policy import Arguments, Policy, Subject
from toolcrib.sources import Source


@requirement("aomi.path.3")
async def test_a_result_finds_its_call_by_id_in_whatever_order_calls_end(place: Place) -> None:
    gates = [Gate() for _ in range(20)]

    @tool(read_only=True)
    async def wait(number: int) -> int:
        """Wait for its turn."""
        await gates[number].passed()
        return number

    async with place.crib(wait, limits=None) as crib:
        session = await crib.open(owner="ada")
        calls = [await session.submit("wait", {"number": n}, provider_id="same") for n in range(16)]
        for number in (5, 3, 15, *reversed(range(16))):
            gates[number].opened.set()
        results = await asyncio.wait_for(asyncio.gather(*(session.result(call.id) for call in calls)), SOON)
        assert [result.data for result in results] == list(range(16))


@requirement("aomi.path.4")
async def test_a_child_goes_the_same_path_and_carries_its_parents_id(place: Place) -> None:
    @tool(read_only=True)
    async def leaf(n: int) -> int:
        """Add one."""
        return n + 1

    @tool(read_only=True)
    async def branch(ctx: Context) -> int:
        """Call a leaf."""
        child: Result = await ctx.call("leaf", {"n": 1})
        return int(child.data)

    async with place.crib(leaf, branch) as crib:
        session = await crib.open(owner="ada")
        parent = await session.submit("branch")
        assert (await session.result(parent.id)).data == 2
        events = await log(session)
        (child,) = [e for e in events if e.kind == "accepted" and e.fields["tool"] == "default.leaf"]
        assert child.fields["parent"] == parent.id
        assert child.fields["by"] == {"kind": "tool", "name": "default.branch"}
        own = kinds(e for e in events if e.call == child.call)
        assert own == kinds(e for e in events if e.call == parent.id) == ["accepted", "started", "done"]


@requirement("aomi.path.4")
async def test_a_child_is_cancelled_with_its_parent(place: Place) -> None:
    gate, stopped = Gate(), asyncio.Event()

    @tool(read_only=True)
    async def leaf() -> None:
        """Take for ever."""
        try:
            await gate.passed()
        except asyncio.CancelledError:
            stopped.set()
            raise

    @tool(read_only=True)
    async def branch(ctx: Context) -> None:
        """Call a leaf."""
        await ctx.call("leaf", {})

    async with place.crib(leaf, branch) as crib:
        session = await crib.open(owner="ada")
        parent = await session.submit("branch")
        await gate.wait()
        assert await session.cancel(parent.id)
        await asyncio.wait_for(stopped.wait(), SOON)
        child = next(e for e in await log(session) if e.fields.get("parent") == parent.id)
        assert child.call is not None
        assert (await follow(session, child.call))[-1].fields["failure"]["code"] == "cancelled"


@requirement("aomi.path.4")
async def test_a_child_that_waits_for_an_answer_is_cancelled_with_its_parent_too(place: Place) -> None:
    @tool(requires_confirmation=True)
    async def pay() -> None:
        """Pay."""

    @tool(read_only=True)
    async def branch(ctx: Context) -> None:
        """Have something paid."""
        await ctx.call("pay", {})

    async with place.crib(pay, branch) as crib:
        session = await crib.open(owner="ada")
        parent = await session.submit("branch")
        waiting = await first(session, "waiting")
        assert await session.cancel(parent.id)
        assert (await first(session, "done", waiting.call)).fields["failure"]["code"] == "cancelled"
        assert await session.questions() == []


@tool(read_only=True)
async def fine() -> str:
    """Work."""
    return "fine"


@tool(read_only=True)
async def broken() -> None:
    """Break."""
    raise RuntimeError("the secret reason")


async def codes(crib: Crib, *names: str) -> list[str | None]:
    session = await crib.open(owner="ada")
    results = [await session.call(name) for name in names]
    assert "secret" not in str(results)
    return [result.failure.code if result.failure else None for result in results]


@requirement("aomi.path.5")
async def test_a_source_that_raises_ends_its_call_alone() -> None:
    class Remote(Source):
        name = "remote"

        async def start(self, changed: Callable[[Any], None]) -> list[Tool]:
            def run(context: Any, values: Any) -> Any:
                raise RuntimeError("the secret reason")

            return [Tool(name="far", description="Far away.", effect="read", run=run, source="remote")]

        async def stop(self) -> None:
            pass

    async with Crib([Remote(), fine, broken]) as crib:
        assert await codes(crib, "far", "fine", "broken", "fine") == ["internal", None, "internal", None]


@requirement("aomi.path.5")
async def test_a_layer_that_raises_ends_its_call_alone() -> None:
    async def layer(context: Context, go_on: Callable[[], Awaitable[Any]]) -> Any:
        if context.tool == "default.broken":
            raise RuntimeError("the secret reason")
        return await go_on()

    async with Crib([fine, broken], layer=layer) as crib:
        assert await codes(crib, "broken", "fine") == ["internal", None]


@requirement("aomi.path.5")
async def test_a_policy_that_raises_refuses_its_call_alone() -> None:
    """It is a deny for the caller (policy.order.3) and an internal fault in the trace."""

    class Odd(Policy):
        def decide(self, session: Subject, tool: Tool, arguments: Arguments) -> Verdict:
            if tool.name == "broken":
                raise RuntimeError("the secret reason")
            return Verdict("allow")

    async with Crib([fine, broken], policy=Odd()) as crib:
        assert await codes(crib, "broken", "fine") == ["denied", None]


@requirement("aomi.path.5")
async def test_a_reader_that_raises_harms_nobody(place: Place) -> None:
    async with place.crib(fine) as crib:
        session = await crib.open(owner="ada")

        async def observe() -> None:
            async for event in session.events():
                raise RuntimeError(event.kind)

        observer = asyncio.create_task(observe())
        assert (await session.call("fine")).data == "fine"
        await asyncio.wait([observer], timeout=SOON)
        assert isinstance(observer.exception(), RuntimeError)
        assert (await session.call("fine")).data == "fine"
