"""Threads for plain functions. They are daemons: one that is stuck does not keep the interpreter from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Job = tuple[Future[Any], Callable[[], Any]]


class Threads(Executor):
    """At most `most` threads, each made when it is needed; an idle one is used again.

    The executor of the standard library is joined when the interpreter ends, which waits for a stuck function for ever.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Runs a function in a thread, as soon as there is one.

        Raises:
            RuntimeError: it was shut down.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the threads were shut down")
            self._jobs.put((future, lambda: fn(*args, **kwargs)))
            if not self._idle.acquire(blocking=False) and self._count < self._most:
                self._count += 1
                threading.Thread(target=self._work, name=f"{self._name}_{self._count}", daemon=True).start()
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, run = job
            if future.set_running_or_notify_cancel():
                try:
                    value = run()
                except BaseException as error:  # noqa: BLE001 - it goes to whoever waits
                    future.set_exception(error)
                else:
                    future.set_result(value)
                    del value
            del future, run, job
            self._idle.release()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more; idle threads end. Nobody waits for the others, whatever `wait` says."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._cancel()
            for _ in range(self._count):
                self._jobs.put(None)

    def _cancel(self) -> None:
        while not self._jobs.empty():
            job = self._jobs.get_nowait()
            if job is not None:
                job[0].cancel()
