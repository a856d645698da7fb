"""Work that dead processes left behind is looked for at start and whenever a lease may have ended.

Whoever lives does it; there is no second service. Each kind of work has a look of its own, so that a slow one delays no
other: calls have theirs, an engine adds the hints that may be lost, and whatever else is held by a lease can add one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from toolcrib.errors import StoreError

log = logging.getLogger("toolcrib")

RETRY_S = 1.0

Look = Callable[[], Awaitable[float | None]]
"""Takes up what nobody holds any more. Returns after how many seconds it has to be called again: when the next lease
that is still valid ends, or `None` where it waits for `OrphanRecovery.soon`.
"""


class _Round:
    """One look, called again and again."""

    def __init__(self, look: Look, pause: float | None) -> None:
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._timer: tuple[float, asyncio.TimerHandle] | None = None
        if pause is not None:
            self.within(pause)
        self.task = self._loop.create_task(self._run())

    def within(self, seconds: float) -> None:
        """Calls it after so many seconds, unless it is called before that anyway."""
        at = self._loop.time() + seconds
        if self._timer is not None and self._timer[0] <= at:
            return
        self.cancel()
        self._timer = (at, self._loop.call_at(at, self._ring))

    def cancel(self) -> None:
        """Calls it no more, until somebody asks for it again."""
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._due.set()

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                pause = await self._look()
            except StoreError as error:
                log.info("looking again soon for what others left: %s", error)
                pause = RETRY_S
            except Exception:
                log.exception("what others left could not be looked for; it is tried again")
                pause = RETRY_S
            if pause is not None:
                self.within(pause)


class OrphanRecovery:
    """The looks of one crib, from its start to its stop."""

    def __init__(self) -> None:
        self._rounds: dict[Look, _Round] = {}
        self._aside: set[asyncio.Task[None]] = set()

    def aside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Has something done that no look should wait for; it ends with the looks."""
        task = asyncio.get_running_loop().create_task(work)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)
        return task

    def add(self, look: Look, after: float | None = 0.0) -> None:
        """Calls `look` after so many seconds, and then whenever it wants to be called, until the crib stops."""
        self._rounds[look] = _Round(look, after)

    def soon(self, seconds: float = 0.0) -> None:
        """Has every look called within so many seconds: a lease ends then, or something has changed."""
        for round in self._rounds.values():
            round.within(seconds)

    async def stop(self) -> None:
        """Ends all looks, also one that is under way."""
        rounds, self._rounds = list(self._rounds.values()), {}
        for round in rounds:
            round.cancel()
            round.task.cancel()
        for task in self._aside:
            task.cancel()
        if tasks := [*(round.task for round in rounds), *self._aside]:
            await asyncio.wait(tasks)
