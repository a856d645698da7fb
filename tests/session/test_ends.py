"""In which order a call and what it made end, and what a body that asked can still do."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.requirements import requirement
from toolcrib import Context, Crib, Event, Session, tool
from toolcrib.context import ThreadContext
from toolcrib.tool import Tool


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/log.db"


async def log(session: Session) -> list[Event]:
    return [event async for event in session.events(follow=False)]


@tool
async def child() -> str:
    """Take a while to clean up."""
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.1)
    return "never"


@tool(idempotent=True)
async def parent(ctx: Context) -> str:
    """Have something done."""
    ctx.output("before")
    await ctx.call("child")
    return "never"


async def started(session: Session, count: int) -> AsyncIterator[Event]:
    async for event in session.events():
        count -= event.kind == "started"
        yield event
        if not count:
            return


@requirement("reliability.fence.4")
async def test_a_cancelled_call_ends_after_what_it_called(store: str) -> None:
    async with Crib([parent, child], store=store) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("parent")
        async with asyncio.timeout(30):
            begun = [event async for event in started(session, 2)]
        await session.cancel(call.id)
        ends = [event for event in await log(session) if event.kind == "done"]
        assert [event.call == call.id for event in ends] == [False, True]
        assert [event.fields["failure"]["code"] for event in ends] == ["cancelled", "cancelled"]
        assert begun[-1].call != call.id


@requirement("reliability.fence.5")
async def test_what_was_put_out_before_a_call_stands_before_it(store: str) -> None:
    async with Crib([parent, child], store=store) as crib:
        session = await crib.open("s", owner="ada")
        call = await session.submit("parent")
        async with asyncio.timeout(30):
            begun = [event async for event in started(session, 2)]
        kinds = [(event.kind, event.call == call.id) for event in begun if event.call is not None]
        assert kinds[-3:] == [("output", True), ("accepted", False), ("started", False)]
        await session.cancel(call.id)


def stubborn(effects: list[str]) -> Tool:
    """A tool that catches its own question and tries to go on."""

    @tool(idempotent=True)
    async def stubborn(ctx: Context) -> str:
        """Catch everything."""
        for do in (
            lambda: ctx.ask("Really?", key="really"),
            lambda: ctx.step("pay", lambda: effects.append("step")),
            lambda: ctx.call("note", {"text": "call"}),
            lambda: ctx.ask("And this?", key="this"),
        ):
            try:
                await do()
            except BaseException:  # noqa: BLE001 - a tool that does what it should not
                pass
        ctx.output("went on")
        return "went on"

    return stubborn


def stubborn_thread(effects: list[str]) -> Tool:
    """The same in a thread, which then raises something of its own."""

    @tool(idempotent=True, name="stubborn")
    def stubborn(ctx: ThreadContext) -> str:
        """Catch everything."""
        try:
            ctx.ask("Really?", key="really")
        except BaseException:  # noqa: BLE001 - a tool that does what it should not
            pass
        try:
            ctx.step("pay", lambda: effects.append("step"))
        except BaseException:  # noqa: BLE001 - see above
            pass
        raise ValueError("went on")

    return stubborn


@requirement("reliability.fence.6")
@pytest.mark.parametrize("make", [stubborn, stubborn_thread])
async def test_a_body_that_catches_its_question_waits_all_the_same(store: str, make: object) -> None:
    effects: list[str] = []

    @tool
    async def note(text: str) -> None:
        """Remember something."""
        effects.append(text)

    async with Crib([make(effects), note], store=store) as crib:  # type: ignore[operator]  # one of the two above
        session = await crib.open("s", owner="ada")
        call = await session.submit("stubborn")
        async with asyncio.timeout(30):
            async for event in session.events():
                if event.kind == "waiting":
                    break
        (question,) = await session.questions()
        assert (question.key, effects) == ("really", [])
        assert (await session.status(call.id)).status == "waiting"
        assert not [event for event in await log(session) if event.kind in ("output", "step", "done")]
        await session.cancel(call.id)
