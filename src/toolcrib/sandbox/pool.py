"""Worker threads, each with a machine of its own, and a watch over how long they take.

A job waits for a worker, then has its time on a machine. One that takes too long is interrupted; a machine that does
not heed that is given up together with its thread, and both are replaced. Nothing here belongs to an event loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from toolcrib.sandbox import SandboxError
from toolcrib.sandbox.job_queue import JobQueue

WAIT_S = 5.0
"""How long a job waits for a worker before it is told that all are busy."""

HEED_S = 0.075
"""How long an interrupted machine has to stop."""

REPEAT_S = 0.01
"""An interrupt that came a moment too early is without effect, so it is repeated."""

WORKERS = 8

CHECKS_S = 120.0
"""How long a check waits for a worker: the first of a machine has to be made, and nobody waits for a call."""

CHECK_S = 1.0
"""How long it may take to read a piece of code without running it."""

THREAD_STACK = 8 * 1024 * 1024
"""More than any machine uses of it; what a system gives by default may be less."""


class Interpreter(Protocol):
    """Something that does one job at a time and can be stopped while it does."""

    def interrupt(self) -> None:
        """Makes the job that runs now fail soon; from any thread."""

    def close(self) -> None:
        """Lets go of what it holds."""


M = TypeVar("M", bound=Interpreter)
T = TypeVar("T")


class _PoolJob:
    """What is to be done, for whom, how long it may take, and until when."""

    def __init__(self, work: Callable[[Any], Any], timeout_s: float, owner: str) -> None:
        self.work = work
        self.timeout_s = timeout_s
        self.owner = owner
        self.answer: Future[Any] = Future()
        self.deadline = inf
        self.overdue = 0.0


class _Thread:
    """A thread that does not keep the process alive, with a stack that is large enough on every system."""

    def __init__(self, serve: Callable[[], None]) -> None:
        self._serve = serve
        self._over: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="toolcrib-sandbox", daemon=True)
        before = threading.stack_size(THREAD_STACK)
        try:
            self._thread.start()
        finally:
            threading.stack_size(before)

    async def ended(self) -> None:
        """Returns when it is gone."""
        await asyncio.wrap_future(self._over)
        self._thread.join()

    def _run(self) -> None:
        self._serve()
        self._over.set_result(None)


class _Worker(Generic[M]):
    """A thread and its machine; `job` is what it does now, `lost` says that nobody waits for it any more."""

    def __init__(self, crew: _WorkerGroup[M]) -> None:
        self.job: _PoolJob | None = None
        self.machine: M | None = None
        self.lost = False
        self._crew = crew
        self.thread = _Thread(self._serve)

    def _serve(self) -> None:
        while not self.lost and (job := self._crew.jobs.get()) is not None:
            if job.answer.set_running_or_notify_cancel():
                self._do(job)
            if not self.lost:
                self._crew.jobs.done(job)
        self._drop()

    def _do(self, job: _PoolJob) -> None:
        value, failure = None, None
        try:
            self.machine = self.machine or self._crew.make()
            self._crew.begin(self, job)
            value = job.work(self.machine)
        except SandboxError as fault:
            failure = fault
        except Exception as broken:  # noqa: BLE001 - whatever it is, it costs this run and this machine
            failure = SandboxError("crashed", str(broken))
        self._crew.end(self)
        if failure and failure.code == "crashed":
            self._drop()
        if self.lost:
            return
        if failure:
            job.answer.set_exception(failure)
        else:
            job.answer.set_result(value)

    def _drop(self) -> None:
        machine, self.machine = self.machine, None
        if machine is not None:
            machine.close()


class _WorkerGroup(Generic[M]):
    """The workers of one queue, and the thread that looks at the clock for them."""

    def __init__(self, make: Callable[[], M], *, shared: bool) -> None:
        self.make = make
        number = min(os.cpu_count() or 1, WORKERS)
        self.jobs: JobQueue[_PoolJob] = JobQueue(number, shared=shared)
        self._changed = threading.Condition()
        self._wakes = inf
        self._closing = self._closed = False
        self._workers = [_Worker(self) for _ in range(number)]
        self._watch = _Thread(self._watched)

    async def close(self) -> None:
        """Refuses what waits, stops what runs, and ends every thread."""
        for job in self.jobs.drain():
            if job.answer.set_running_or_notify_cancel():
                job.answer.set_exception(SandboxError("crashed", "the sandbox was closed"))
        with self._changed:
            self._closing = True
            for worker in self._workers:
                self.jobs.end()
                if worker.job:
                    worker.job.deadline = 0.0
            self._changed.notify()
        for worker in list(self._workers):
            if not worker.lost:
                await worker.thread.ended()
        with self._changed:
            self._closed = True
            self._changed.notify()
        await self._watch.ended()

    def begin(self, worker: _Worker[M], job: _PoolJob) -> None:
        """The time of the job begins."""
        with self._changed:
            worker.job = job
            job.deadline = 0.0 if self._closing else min(job.deadline, time.monotonic() + job.timeout_s)
            if job.deadline < self._wakes:
                self._changed.notify()

    def end(self, worker: _Worker[M]) -> None:
        """The time of the job is over; no interrupt comes after this."""
        with self._changed:
            worker.job = None

    def expire(self, job: _PoolJob) -> None:
        """Nobody wants to know what the job gives."""
        with self._changed:
            job.deadline = 0.0
            self._changed.notify()

    def _watched(self) -> None:
        """Sleeps until the earliest deadline, again and again."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                late = [worker for worker in self._workers if worker.job and worker.job.deadline <= now]
                for worker in late:
                    self._hurry(worker, now)
                deadlines = [worker.job.deadline for worker in self._workers if worker.job]
                self._wakes = now + REPEAT_S if late else min(deadlines, default=inf)
                self._changed.wait(None if self._wakes == inf else self._wakes - now)

    def _hurry(self, worker: _Worker[M], now: float) -> None:
        """Interrupts a worker whose time is over, and puts another in its place when that did not help in time."""
        job, machine = worker.job, worker.machine
        assert job and machine
        machine.interrupt()
        job.overdue = job.overdue or now
        if now - job.overdue > HEED_S:
            worker.lost, worker.job = True, None
            self.jobs.done(job)
            job.answer.set_exception(SandboxError("timeout", duration_ms=(job.timeout_s + now - job.overdue) * 1e3))
            self._workers[self._workers.index(worker)] = _Worker(self)


class WorkerPool(Generic[M]):
    """As many workers as there are processors, at most eight; they start with the first job.

    Jobs begin in turns of their owners, who share the workers where it is `shared`.
    """

    def __init__(self, make: Callable[[], M], *, shared: bool = False) -> None:
        self._make = make
        self._shared = shared
        self._crew: _WorkerGroup[M] | None = None
        self._lock = threading.Lock()

    async def do(self, work: Callable[[M], T], timeout_s: float, owner: str = "", *, wait_s: float | None = None) -> T:
        """What the work gives on one of the machines; it waits `WAIT_S` for a worker, unless said.

        Raises:
            Fault: it took too long, no worker was free in time, or the work raised it.
        """
        job = _PoolJob(work, timeout_s, owner)
        with self._lock:
            crew = self._crew = self._crew or _WorkerGroup(self._make, shared=self._shared)
            crew.jobs.put(job)
        waiting = asyncio.wrap_future(job.answer)
        try:
            done, _ = await asyncio.wait({waiting}, timeout=WAIT_S if wait_s is None else wait_s)
            if not done and job.answer.cancel():
                raise SandboxError("busy")
            value: T = await waiting
            return value
        except asyncio.CancelledError:
            waiting.cancel()
            if not job.answer.cancel():
                crew.expire(job)
            raise

    async def check(self, work: Callable[[M], None]) -> str | None:
        """What is wrong with the code that the work reads; None where nothing is.

        Raises:
            Fault: it could not be read now.
        """
        try:
            await self.do(work, CHECK_S, wait_s=CHECKS_S)
        except SandboxError as fault:
            if fault.code in ("busy", "crashed"):
                raise
            return fault.message or fault.code
        return None

    async def close(self) -> None:
        """Stops what runs and ends every thread; the pool starts again when it is used again."""
        with self._lock:
            crew, self._crew = self._crew, None
        if crew:
            await crew.close()
