"""Sessions that nobody used for the retention time are deleted or archived, by whoever uses the store."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from toolcrib._call.scheduler import SystemClock
from toolcrib.errors import StoreError
from toolcrib.store import OWNER

if TYPE_CHECKING:
    from toolcrib._call.ports import CribPort
    from toolcrib._session.archiver import SessionArchiver

SWEEP_S, SHORTEST_S = 3600.0, 1.0
NEVER = float("-inf")

log = logging.getLogger("toolcrib")


class SessionSweeper:
    """Sweeps the sessions of a crib, hourly or as its retention time says."""

    def __init__(self, crib: CribPort, retention: timedelta | None, archiver: SessionArchiver | None) -> None:
        self._crib = crib
        self._archiver = archiver
        self._retention = retention
        self._clock = crib.pipeline.clock
        self._swept = float("-inf")
        self._timer: Any = None

    async def sweep(self, *, dry_run: bool = False) -> int:
        """Deletes sessions that were not used for the retention time, or puts them into the archive; how many."""
        if self._retention is None:
            return 0
        now = self._clock.now()
        before = now - self._retention.total_seconds()
        if not dry_run:
            await self._crib._expire()
        if self._archiver is None:
            return await self._crib.store.sweep(before, now, dry_run=dry_run)
        count = await self._archiver.put_away(before, now, dry_run=dry_run)
        if not dry_run:
            await self._crib.store.sweep(NEVER, now)  # what those that went have left
        return count

    async def sometimes(self) -> None:
        """Sweeps if the last time was an hour ago."""
        now = self._clock.now()
        if now - self._swept >= SWEEP_S:
            self._swept = now
            await self._crib.sweep()

    async def hourly(self) -> None:
        """Sweeps every hour until it is cancelled; for what runs for long, a server or a worker."""
        while True:
            try:
                await self.sometimes()
            except StoreError as error:
                log.info("sessions are swept later: %s", error)
            hour = asyncio.get_running_loop().create_future()
            timer = self._clock.call_at(self._clock.now() + SWEEP_S, partial(hour.set_result, None))
            try:
                await hour
            finally:
                timer.cancel()

    @property
    def _pause_s(self) -> float:
        """How often sessions are swept: hourly, or as often as the retention time is over where that is less."""
        retention = SWEEP_S if self._retention is None else self._retention.total_seconds()
        return min(SWEEP_S, max(retention, SHORTEST_S))

    def later(self) -> None:
        """Whoever uses the store for long sweeps it, also where no session is opened. A test has its own time."""
        if self._retention is not None and not self._crib.ending and isinstance(self._clock, SystemClock):

            def ring() -> None:
                self._crib.pipeline.aside(self._by_time())

            self._timer = self._clock.call_at(self._clock.now() + self._pause_s, ring)

    async def _by_time(self) -> None:
        """Sweeps unless another process of the store just did."""
        now = self._clock.now()
        try:
            if await self._crib.store.spend([(f"{OWNER}.sweep", self._pause_s / 2, 1)], now) == 0:
                self._swept = now
                await self._crib.sweep()
        except StoreError as error:
            log.info("sessions are swept later: %s", error)
        self.later()

    def cancel(self) -> None:
        """Sets no timer any more, until it is started again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
