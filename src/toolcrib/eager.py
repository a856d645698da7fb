"""Tasks that run up to their first pause at once, so that a body which never pauses costs no trip through the loop.

Python 3.12 and newer offer this. On 3.11 the same is done on the standard loop by taking the new task's first step out
of the ready queue and running it here; on any other loop a task simply starts in the next round.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

if sys.version_info >= (3, 12):

    def start(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that has already run up to its first pause."""
        return asyncio.Task(work, loop=loop, eager_start=True)

else:
    _enter: Any = asyncio._enter_task  # type: ignore[attr-defined]
    _leave: Any = asyncio._leave_task  # type: ignore[attr-defined]
    _current = asyncio.current_task

    def start(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that has already run up to its first pause, where the loop lets us."""
        task = loop.create_task(work)
        ready = getattr(loop, "_ready", None)
        if not ready or type(task) is not asyncio.Task:
            return task
        step = ready.pop()
        outer = _current(loop)
        if outer is None:
            step._run()
            return task
        _leave(loop, outer)
        try:
            step._run()
        finally:
            _enter(loop, outer)
        return task
