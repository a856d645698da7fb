"""A clock that stands still until it is advanced, and a crib that uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from toolcrib.crib import Crib

START = 1_767_225_600.0
"""The first moment of 2026, in seconds since 1970."""

TURNS = 1000
"""So many rounds of the loop are enough for anything that does not run in circles."""


class Timer:
    """One appointment with the clock."""

    __slots__ = ("_do", "cancelled")

    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do
        self.cancelled = False

    def cancel(self) -> None:
        """Nothing will happen then."""
        self.cancelled = True

    def fire(self) -> None:
        """Its time has come."""
        if not self.cancelled:
            self._do()


class FakeClock:
    """The time of a test: it starts at `START` and goes on with `advance` alone, without waiting for real."""

    def __init__(self, start: float = START) -> None:
        self._now = start
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    def call_at(self, when: float, do: Callable[[], None]) -> Timer:
        """Calls `do` at that time; what is due already is called in the next round of the loop."""
        timer = Timer(do)
        if when <= self._now:
            asyncio.get_running_loop().call_soon(timer.fire)
        else:
            heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Moves the time on; what falls due is called in order, at its moment, and the loop settles after each."""
        if seconds < 0:
            raise ValueError("time does not go back")
        until = self._now + seconds
        await self.settle()
        while self._timers and self._timers[0][0] <= until:
            self._now, _, timer = heappop(self._timers)
            timer.fire()
            await self.settle()
        self._now = until

    async def settle(self) -> None:
        """Gives way until nobody else is ready to run. Threads and the network are not waited for."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        for _ in range(TURNS):
            await asyncio.sleep(0)
            if ready is not None and not ready:
                return


class ClockedCrib(Crib):
    """A crib whose time is `clock`; when it is left, what still runs is not waited for."""

    def __init__(self, sources: tuple[Any, ...], *, clock: FakeClock | None = None, **options: Any) -> None:
        self.clock = clock or FakeClock()
        super().__init__(sources, clock=self.clock, **options)

    async def __aenter__(self) -> ClockedCrib:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.clock.settle()
        await self.stop(grace=0)


def crib(*sources: Any, **options: Any) -> ClockedCrib:
    """A crib in memory with a `FakeClock`, to be used with `async with`; options are those of `Crib`."""
    return ClockedCrib(sources, **options)
