"""A call made by another call, while its parent waits, runs again or dies."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcrib import By, Context, Crib, CribLimits, Session, Tool, tool

SEATS = 3


def tools(ran: Counter[str]) -> list[Tool]:
    @tool
    async def pay(n: int) -> int:
        """Pay once."""
        ran["pay"] += 1
        return n

    @tool
    async def asks(ctx: Context, n: int = 0) -> str:
        """Ask for a name."""
        return str((await ctx.ask("Name?")).value)

    @tool
    async def pays_then_asks(ctx: Context) -> str:
        """Pay twice through another tool, then ask."""
        ran["body"] += 1
        both = await asyncio.gather(ctx.call("pay", {"n": 1}), ctx.call("pay", {"n": "2"}))
        answer = await ctx.ask("Send it?")
        third = await ctx.call("pay", {"n": 1})
        return f"{[one.data for one in both]} {answer.value} {third.data}"

    @tool
    async def asks_through(ctx: Context) -> str:
        """Ask through another tool."""
        return f"through {(await ctx.call('asks')).data}"

    return [pay, asks, pays_then_asks, asks_through]


@pytest.fixture
def ran() -> Counter[str]:
    return Counter()


@pytest.fixture(params=["memory:", "sqlite"])
async def session(request: pytest.FixtureRequest, tmp_path: Path, ran: Counter[str]) -> AsyncIterator[Session]:
    store = request.param if request.param == "memory:" else f"sqlite:///{tmp_path}/log.db"
    async with Crib(tools(ran), store=store, limits=CribLimits(per_session=SEATS)) as crib:
        yield await crib.open("s", owner="ada")


async def asked(session: Session, count: int) -> list[str]:
    """The questions, once that many are open."""
    async for event in session.events():
        count -= event.kind == "waiting"
        if count == 0:
            break
    return [question.id for question in await session.questions()]


async def test_a_body_that_runs_again_after_an_answer_finds_what_its_children_did(
    session: Session, ran: Counter[str]
) -> None:
    call = await session.submit("pays_then_asks")
    (question,) = await asked(session, 1)
    await session.answer(question, "accept", "yes")
    result = await asyncio.wait_for(session.result(call.id), 5)
    assert result.data == "[1, 2] yes 1"
    assert ran == {"body": 2, "pay": 3}


async def test_children_can_be_answered_while_their_parents_hold_every_seat(session: Session) -> None:
    calls = [await session.submit("asks_through") for _ in range(SEATS)]
    for number, question in enumerate(await asked(session, SEATS)):
        await session.answer(question, "accept", str(number))
    results = [await asyncio.wait_for(session.result(call.id), 5) for call in calls]
    assert [result.data for result in results] == ["through 0", "through 1", "through 2"]


async def test_a_child_that_was_answered_is_stopped_with_its_parent(session: Session) -> None:
    begun = asyncio.Event()

    @tool
    async def asks_and_hangs(ctx: Context) -> None:
        """Ask, then hang."""
        await ctx.ask("Name?")
        begun.set()
        await asyncio.Event().wait()

    @tool
    async def over(ctx: Context) -> None:
        """Call it."""
        await ctx.call("asks_and_hangs")

    session.crib.add(asks_and_hangs, over)
    parent = await session.submit("over")
    (question,) = await asked(session, 1)
    await session.answer(question, "accept", "bob")
    await begun.wait()
    assert await asyncio.wait_for(session.cancel(parent.id), 5)
    assert [entry.status for entry in await session.completed()] == ["cancelled", "cancelled"]


async def test_a_child_that_waited_still_belongs_to_the_agent_of_its_parent(session: Session) -> None:
    parent = await session.submit("asks_through", agent="intern", by=By("agent", "intern"))
    (question,) = await asked(session, 1)
    child = question.rpartition("-")[0]
    (accepted,) = [one async for one in session.events(call=child, follow=False) if one.kind == "accepted"]
    assert accepted.data["agent"] == "intern"
    await session.cancel(parent.id)
