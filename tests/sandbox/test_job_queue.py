"""Jobs for worker threads begin in turns of their owners, and no owner has all workers."""

import asyncio
import threading
from functools import partial
from typing import NamedTuple

import pytest

from tests.requirements import requirement
from toolcrib.sandbox import pool as pool_module
from toolcrib.sandbox.job_queue import JobQueue
from toolcrib.sandbox.pool import WorkerPool


class Job(NamedTuple):
    owner: str
    number: int = 0


def taken(queue: JobQueue[Job]) -> str:
    job = queue.get()
    assert job is not None
    return f"{job.owner}{job.number}"


@requirement("security.fair.6")
def test_jobs_begin_in_turns_of_their_owners() -> None:
    queue = JobQueue[Job](2)
    for number in range(3):
        queue.put(Job("a", number))
    queue.put(Job("b"))
    assert [taken(queue) for _ in range(4)] == ["a0", "b0", "a1", "a2"]
    queue.end()
    assert queue.get() is None


@requirement("security.fair.6")
def test_an_owner_leaves_a_worker_for_others() -> None:
    queue, found = JobQueue[Job](2, shared=True), list[str]()
    for number in range(2):
        queue.put(Job("a", number))
    assert taken(queue) == "a0"
    worker = threading.Thread(target=lambda: found.append(taken(queue)))
    worker.start()  # the other job of the same owner has to wait
    queue.put(Job("b"))
    worker.join(60)
    assert found == ["b0"]
    queue.done(Job("a"))
    queue.done(Job("b"))
    assert taken(queue) == "a1"


@requirement("security.fair.6")
def test_a_single_worker_is_for_whoever_comes() -> None:
    queue = JobQueue[Job](1, shared=True)
    queue.put(Job("a"))
    assert taken(queue) == "a0"


class Machine:
    def interrupt(self) -> None: ...

    def close(self) -> None: ...


@requirement("security.fair.6")
async def test_a_pool_serves_owners_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "WORKERS", 1)
    pool, order, go, busy = WorkerPool(Machine), list[str](), threading.Event(), threading.Event()

    def first(_: Machine) -> None:
        busy.set()
        go.wait(60)

    def note(owner: str, _: Machine) -> None:
        order.append(owner)

    jobs = [asyncio.ensure_future(pool.do(first, 60, "a"))]
    await asyncio.to_thread(busy.wait, 60)
    jobs += [asyncio.ensure_future(pool.do(partial(note, owner), 60, owner)) for owner in "aaab"]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*jobs)
    await pool.close()
    assert order == ["a", "b", "a", "a"]
