"""A call made by another call, while its parent waits, runs again or dies."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
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
    result = await asyncio.wait_for(session.result(call.id), 60)
    assert result.data == "[1, 2] yes 1"
    assert ran == {"body": 2, "pay": 3}


async def test_children_can_be_answered_while_their_parents_hold_every_seat(session: Session) -> None:
    calls = [await session.submit("asks_through") for _ in range(SEATS)]
    for number, question in enumerate(await asked(session, SEATS)):
        await session.answer(question, "accept", str(number))
    results = [await asyncio.wait_for(session.result(call.id), 60) for call in calls]
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
    assert await asyncio.wait_for(session.cancel(parent.id), 60)
    assert [entry.status for entry in await session.completed()] == ["cancelled", "cancelled"]


async def test_a_child_that_waited_still_belongs_to_the_agent_of_its_parent(session: Session) -> None:
    parent = await session.submit("asks_through", agent="intern", by=By("agent", "intern"))
    (question,) = await asked(session, 1)
    child = question.rpartition("-")[0]
    (accepted,) = [one async for one in session.events(call=child, follow=False) if one.kind == "accepted"]
    assert accepted.fields["agent"] == "intern"
    await session.cancel(parent.id)


async def test_a_call_that_is_cut_off_with_its_child_does_not_wait_for_it(tmp_path: Path) -> None:
    """A loop that is shut down cancels all its tasks at once, also one whose end is on the way to the store."""
    store, stuck = tmp_path / "log.db", asyncio.Event()

    @tool
    async def inner() -> int:
        """Return while the store is busy."""
        other.execute("BEGIN IMMEDIATE")
        stuck.set()
        return 1

    @tool
    async def outer(ctx: Context) -> int:
        """Call the other."""
        return int((await ctx.call("inner")).data)

    async with Crib([inner, outer], store=f"sqlite:///{store}") as crib:
        session = await crib.open("s", owner="ada")
        with closing(sqlite3.connect(store, isolation_level=None)) as other:
            call = await session.submit("outer")
            await stuck.wait()
            tasks = [live.task for live in session.live.values() if live.task is not None]
            for task in tasks:
                task.cancel()
        assert len(tasks) == 2
        assert (await asyncio.wait(tasks, timeout=60))[1] == set()
    async with Crib([inner, outer], store=f"sqlite:///{store}") as crib:
        outcome = await (await crib.open("s", owner="ada")).result(call.id)
    assert outcome.failure is not None
    assert outcome.failure.code == "unknown"
