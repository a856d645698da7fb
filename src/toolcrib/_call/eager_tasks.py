"""Tasks that run up to their first pause at once, so that a body which never pauses costs no trip through the loop.

Python 3.12 and newer offer this. On 3.11 spare tasks stand ready: work takes its first step under the name of one,
and only work that pauses is handed over to it, so that what asked for the current task holds the right one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any

Work = Coroutine[Any, Any, None]


class EagerStarter:
    """Starts work with the means of Python 3.12."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, work: Work) -> asyncio.Task[None] | None:
        """Runs work up to its first pause; its task, or None if it is over."""
        task = asyncio.Task(work, loop=self._loop, eager_start=True)  # type: ignore[call-arg]  # from 3.12 on
        return None if task.done() else task

    def close(self) -> None:
        """Nothing stands ready."""


class SpareStarter:
    """Starts work under the name of a spare task; work that starts work takes another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spares: list[_Spare] = []
        self._current: dict[Any, Any] = asyncio.tasks._current_tasks  # type: ignore[attr-defined]  # by loop

    def start(self, work: Work) -> asyncio.Task[None] | None:
        """Runs work up to its first pause; its task, or None if it is over."""
        loop, current = self._loop, self._current
        spare = self._spares.pop() if self._spares else _Spare(loop)
        task, outer, context = spare.task, current.get(loop), copy_context()
        current[loop] = task
        try:
            paused_on = context.run(work.send, None)
        except StopIteration:
            self._spares.append(spare)
            return None
        except BaseException:
            self._spares.append(spare)
            raise
        finally:
            if outer is None:
                del current[loop]
            else:
                current[loop] = outer
        spare.take_over(work, context, paused_on)
        return task

    def close(self) -> None:
        """Lets go of the spare tasks."""
        while self._spares:
            self._spares.pop().task.cancel()


class _Spare(Coroutine[Any, Any, None]):
    """What a spare task runs: nothing, until it is given work that has already begun.

    It is no `async def`, since it may be cancelled before the loop has stepped it once, and the work must hear of it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ready: asyncio.Future[None] = loop.create_future()
        self._work: Work | None = None
        self._going = False
        self.task = loop.create_task(self)

    def take_over(self, work: Work, context: Context, paused_on: Any) -> None:
        """Goes on with work that paused. From now on only the task holds this: a cycle would wait for the collector."""
        del self.task
        self._work, self._context, self._paused_on = work, context, paused_on
        if not self._ready.done():
            self._ready.set_result(None)

    def send(self, value: Any) -> Any:
        """The next step: to wait for work, to wait for what the work waits for, or a step of the work itself."""
        if self._work is None:
            return self._ready.__await__().send(None)
        if not self._going:
            self._going = True
            return self._paused_on
        return self._context.run(self._work.send, value)

    def throw(self, error: Any, value: Any = None, traceback: Any = None) -> Any:
        """A cancel that comes before the first step reaches what the work waits for, as any other would."""
        if self._work is None:
            raise error
        if not self._going:
            self._going = True
            if self._paused_on is not None and self._paused_on.cancel():
                return self._paused_on
        return self._context.run(self._work.throw, error)

    def close(self) -> None:
        """The loop lets go of it."""
        if self._work is not None:
            self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise RuntimeError("a spare task's work is not awaited")


if sys.version_info >= (3, 12):
    Starter = EagerStarter
else:
    Starter = SpareStarter
