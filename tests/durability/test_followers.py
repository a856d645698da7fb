"""Acceptance 6: a reader that leaves and comes back sees every event exactly once, in order."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.durability.processes import Script, script
from tests.requirements import requirement
from toolcrib import Context, Crib, Event, Session, tool

VISITS = 100


@tool(read_only=True)
async def stream(n: int) -> AsyncIterator[int]:
    """Stream numbers."""
    for value in range(n):
        yield value
        await asyncio.sleep(0)


@tool
async def once(ctx: Context, n: int) -> int:
    """Report and end."""
    ctx.progress(f"at {n}")
    ctx.output(f"text {n}")
    return n


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/log.db"


@pytest.fixture
async def session(store: str) -> AsyncIterator[Session]:
    async with Crib([stream, once], store=store) as crib:
        yield await crib.open("s", owner="ada")


async def work(session: Session, rounds: int) -> None:
    """Some calls side by side, round by round."""
    for n in range(rounds):
        await asyncio.gather(*(session.call("stream", {"n": 5}) for _ in range(4)), session.call("once", {"n": n}))


async def visits(session: Session, chance: random.Random) -> list[Event]:
    """Reads a few events, leaves, and comes back where it was, until the notice `end`."""
    seen: list[Event] = []
    for visit in range(VISITS + 1):
        most = chance.randint(1, 12) if visit < VISITS else 2**62
        async with aclosing(session.events(after=len(seen))) as events:  # type: ignore[type-var]
            async for event in events:
                seen.append(event)
                most -= 1
                if event.kind == "notice":
                    return seen
                if most == 0:
                    break
    return seen


@requirement("store.4")
async def test_readers_that_come_back_a_hundred_times_see_every_event_once_and_in_order(session: Session) -> None:
    readers = [asyncio.ensure_future(visits(session, random.Random(seed))) for seed in range(5)]
    await work(session, 60)
    await session.notice("end")
    seen = await asyncio.wait_for(asyncio.gather(*readers), 30)
    log = [event async for event in session.events(follow=False)]
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    assert all(events == log for events in seen)


@requirement("store.4")
async def test_readers_that_are_cut_off_at_any_moment_miss_and_repeat_nothing(session: Session) -> None:
    chance = random.Random(3)

    async def cut_off() -> list[Event]:
        seen: list[Event] = []

        async def read() -> None:
            async for event in session.events(after=len(seen)):
                seen.append(event)  # noqa: PERF401 - one by one, since it may be cut off at any of them

        while not seen or seen[-1].kind != "notice":
            reading = asyncio.ensure_future(read())
            for _ in range(chance.randint(0, 60)):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
        return seen

    readers = [asyncio.ensure_future(cut_off()) for _ in range(3)]
    await work(session, 40)
    await session.notice("end")
    seen = await asyncio.wait_for(asyncio.gather(*readers), 30)
    log = [event async for event in session.events(follow=False)]
    assert all(events == log for events in seen)


def heard(reader: Script) -> list[Any]:
    """All events that a follower told."""
    said: list[Any] = []
    while (line := reader.hear()) != "end":
        said.append(line)
    return said


async def told(session: Session) -> list[Any]:
    """The log in the form in which a follower tells it."""
    return [[e.seq, e.call, e.kind, e.fields] async for e in session.events(follow=False)]


@requirement("store.4")
async def test_a_second_process_that_follows_sees_every_event_once_and_in_order(session: Session, store: str) -> None:
    with script("follower.py", store, 1, "read") as reader:
        await asyncio.to_thread(reader.until, "ready")
        await work(session, 60)
        await session.notice("end")
        seen = await asyncio.to_thread(heard, reader)
    assert seen == (await told(session))[: len(seen)]
    assert seen[-1][2] == "notice"


@requirement("store.4", "engine.1")
@requirement("aomi.open.7")
async def test_two_processes_that_write_one_log_both_see_all_of_it_in_one_order(session: Session, store: str) -> None:
    mine = asyncio.ensure_future(_until_end(session))
    with script("follower.py", store, 2, "write") as other:
        await asyncio.to_thread(other.until, "ready")
        await work(session, 60)
        async for event in session.events():
            if event.kind == "notice":
                break
        await session.notice("end")
        theirs = await asyncio.to_thread(heard, other)
    seen = await asyncio.wait_for(mine, 30)
    log = await told(session)
    assert [line[0] for line in log] == list(range(1, len(log) + 1))
    assert theirs == log[: len(theirs)]
    assert seen == log[: len(seen)]
    assert theirs[-1] == seen[-1]


async def _until_end(session: Session) -> list[Any]:
    """Follows without a pause while two processes write."""
    seen: list[Any] = []
    async for event in session.events():
        seen.append([event.seq, event.call, event.kind, event.fields])
        if event.kind == "notice" and event.fields["text"] == "end":
            break
    return seen
