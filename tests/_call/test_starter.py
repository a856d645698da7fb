"""Work starts at once, under the task that will carry it on."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from toolcrib._call.scheduler import EagerStarter, SpareStarter

KINDS: list[Any] = [EagerStarter if sys.version_info >= (3, 12) else SpareStarter]
where: ContextVar[str] = ContextVar("where", default="nowhere")


@pytest.fixture(params=KINDS)
async def starter(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    made = request.param(asyncio.get_running_loop())
    yield made
    made.close()


async def test_work_without_a_pause_is_over_when_start_returns(starter: Any) -> None:
    seen: list[int] = []

    async def work() -> None:
        seen.append(1)

    assert starter.start(work()) is None
    assert seen == [1]


async def test_the_current_task_is_the_same_before_and_after_a_pause(starter: Any) -> None:
    seen: list[asyncio.Task[object] | None] = [asyncio.current_task()]

    async def work() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    task = starter.start(work())
    assert task is not None
    await task
    assert seen[1] is seen[2] is task
    assert seen[0] is asyncio.current_task() is not task


async def test_a_timeout_entered_in_the_first_step_stops_the_work(starter: Any) -> None:
    outcome: list[str] = []

    async def work() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            outcome.append("timeout")

    task = starter.start(work())
    assert task is not None
    await task
    assert outcome == ["timeout"]


async def test_a_task_group_in_the_first_step_waits_for_its_children(starter: Any) -> None:
    seen: list[int] = []

    async def child(number: int) -> None:
        await asyncio.sleep(0)
        seen.append(number)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child(1))
            group.create_task(child(2))
        seen.append(3)

    task = starter.start(work())
    assert task is not None
    await task
    assert seen == [1, 2, 3]


async def test_a_cancel_right_after_the_start_reaches_what_the_work_waits_for(starter: Any) -> None:
    inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def work() -> None:
        try:
            await inner
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = starter.start(work())
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]
    assert inner.cancelled()


async def test_a_cancel_during_a_bare_pause_reaches_the_work(starter: Any) -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            while True:  # noqa: ASYNC110 - the bare pause is what is tested
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = starter.start(work())
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_context_variables_are_seen_kept_and_do_not_leak(starter: Any) -> None:
    seen: list[str] = []
    where.set("caller")

    async def work() -> None:
        seen.append(where.get())
        token = where.set("work")
        await asyncio.sleep(0)
        seen.append(where.get())
        where.reset(token)
        seen.append(where.get())

    task = starter.start(work())
    assert where.get() == "caller"
    assert task is not None
    await task
    assert seen == ["caller", "work", "caller"]


async def test_work_may_start_work_in_its_first_step(starter: Any) -> None:
    seen: list[str] = []

    async def inner() -> None:
        seen.append("inner begins")
        await asyncio.sleep(0)
        seen.append("inner ends")

    async def outer() -> None:
        task = starter.start(inner())
        assert task is not None
        seen.append("outer waits")
        await task
        seen.append("outer ends")

    task = starter.start(outer())
    assert task is not None
    await task
    assert seen == ["inner begins", "outer waits", "inner ends", "outer ends"]


async def test_work_that_raises_after_a_pause_fails_its_task(starter: Any) -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    task = starter.start(work())
    assert task is not None
    with pytest.raises(ValueError, match="no"):
        await task


async def test_work_that_starts_work_leaves_no_task_behind(starter: Any) -> None:
    async def inner() -> None:
        pass

    async def outer() -> None:
        starter.start(inner())

    before = asyncio.all_tasks()
    for _ in range(3):
        assert starter.start(outer()) is None
    starter.close()
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left, timeout=60)
    assert asyncio.all_tasks() - before == set()


async def test_work_that_paused_leaves_nothing_to_the_garbage_collector(starter: Any) -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    async def run() -> weakref.ref[asyncio.Task[None]]:
        task = starter.start(work())
        await task
        return weakref.ref(task)

    gc.disable()
    try:
        tasks = [await run() for _ in range(20)]
        await asyncio.sleep(0)
        assert [task for task in tasks if task() is not None] == []
    finally:
        gc.enable()
