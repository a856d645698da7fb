"""The jobs that wait for a worker thread, in turns of their owners."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from typing import Generic, Protocol, TypeVar


class Job(Protocol):
    """What the queue needs to know of a job."""

    @property
    def owner(self) -> str:
        """Whose it is."""


J = TypeVar("J", bound=Job)


class JobQueue(Generic[J]):
    """Jobs of one owner come in order; of several owners each has one in turn.

    Where owners share the workers, one of them begins another job only while fewer of theirs run than workers are
    free, so that somebody who comes finds one. It is for threads: `get` blocks.
    """

    def __init__(self, workers: int, *, shared: bool = False) -> None:
        self._workers = workers
        self._shared = shared
        self._changed = threading.Condition()
        self._owners: OrderedDict[str, deque[J]] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._ends = 0

    def put(self, job: J) -> None:
        """Adds a job."""
        with self._changed:
            self._owners.setdefault(job.owner, deque()).append(job)
            self._changed.notify_all()

    def end(self) -> None:
        """Has one worker get None, when there are no more jobs."""
        with self._changed:
            self._ends += 1
            self._changed.notify_all()

    def get(self) -> J | None:
        """The next job, as soon as there is one that may begin; None for a worker that is to end."""
        with self._changed:
            while True:
                owner = self._next()
                if owner is not None:
                    return self._taken(owner)
                if self._ends and not self._owners:
                    self._ends -= 1
                    return None
                self._changed.wait()

    def _next(self) -> str | None:
        """The first owner whose turn it is and who may begin another job."""
        if not self._shared:
            return next(iter(self._owners), None)
        free = self._workers - self._running.total()
        return next((owner for owner in self._owners if self._running[owner] < free), None)

    def _taken(self, owner: str) -> J:
        jobs = self._owners[owner]
        job = jobs.popleft()
        self._owners.move_to_end(owner)
        if not jobs:
            del self._owners[owner]
        self._running[owner] += 1
        return job

    def done(self, job: J) -> None:
        """A job that was taken is over, or was given up."""
        with self._changed:
            self._running[job.owner] -= 1
            if not self._running[job.owner]:
                del self._running[job.owner]
            self._changed.notify_all()

    def drain(self) -> list[J]:
        """Takes all jobs out that have not begun."""
        with self._changed:
            left = [job for jobs in self._owners.values() for job in jobs]
            self._owners.clear()
            return left
