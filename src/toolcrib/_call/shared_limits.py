"""Limits that hold for several processes of one machine together.

A slot is a byte of a file that all of them have open, locked by whoever has it: the kernel gives the locks of a process
back when it ends, however it ends. Offsets are digests of names, so that nobody has to hand them out.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from toolcrib._call.scheduler import Clock, ScheduledCall, Scheduler
from toolcrib.limits import CribLimits

SLOTS = 1 << 14
"""How many slots a name may have."""
PACES = 1 << 20
BYTES = PACES * 8
"""How long the file is: for each rate the time at which it is used up. Slots are offsets only, and take no room."""
_PACE_LOCKS = 1 << 62
LOOK_S = 0.02
"""How often it is looked whether another process gave back what a queued call needs."""


@lru_cache(10_000)
def _number(name: str, bits: int) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) >> (64 - bits)


class SharedLimits:
    """The slots and rates of a file; `number` of `total` processes is this one."""

    def __init__(self, descriptor: int, number: int, total: int) -> None:
        self._file = descriptor
        self.number = number
        self.total = total
        self._held: set[int] = set()
        self._paces = mmap.mmap(descriptor, BYTES)

    @staticmethod
    def prepare(descriptor: int) -> None:
        """Makes a new file ready for all processes."""
        os.ftruncate(descriptor, BYTES)

    def take(self, name: str, most: int) -> int | None:
        """Takes one of the slots of a name; None if all are taken."""
        most = min(most, SLOTS)
        start = _number(name, 48) * SLOTS
        for n in range(most):
            slot = start + (n + (self.number - 1) * most // self.total) % most
            if slot in self._held:  # the locks of a process do not keep itself out
                continue
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
            except OSError:
                continue
            self._held.add(slot)
            return slot
        return None

    def free(self, slot: int) -> None:
        """Gives a slot back."""
        self._held.discard(slot)
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, slot)

    def spend(self, name: str, interval: float, burst: int, now: float) -> float:
        """Takes one from a rate, and returns 0; where nothing is left, how long to wait, and nothing is taken."""
        place = _number(name, 20)
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _PACE_LOCKS + place)
        try:
            (ahead,) = struct.unpack_from("d", self._paces, place * 8)
            ahead = max(ahead, now)
            wait: float = ahead - now - (burst - 1) * interval
            if wait <= 0:
                struct.pack_into("d", self._paces, place * 8, ahead + interval)
            return max(wait, 0.0)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _PACE_LOCKS + place)


class SharedScheduler(Scheduler):
    """Seats of one process among several: sessions, owners and tools have no more of them in all than alone."""

    def __init__(self, limits: CribLimits, clock: Clock, shared: SharedLimits) -> None:
        super().__init__(replace(limits, per_crib=max(1, limits.per_crib // shared.total)), clock)
        self._shared_limits = shared
        self._slots: dict[ScheduledCall, list[int]] = {}
        self._look: Any = None

    def _fits(self, seat: ScheduledCall) -> bool:
        return super()._fits(seat) and self._take(seat)

    def _take(self, seat: ScheduledCall) -> bool:
        """Takes all slots that a call needs, or none."""
        taken: list[int] = []
        for name, most in self._names(seat):
            slot = self._shared_limits.take(name, most)
            if slot is None:
                self._give_back(taken)
                self._look_later()
                return False
            taken.append(slot)
        self._slots[seat] = taken
        return True

    def _names(self, seat: ScheduledCall) -> Iterator[tuple[str, int]]:
        """What holds back a call in all processes, and how many may run at once."""
        call, limits = seat.admission, self._limits
        if not call.is_plain and seat.caller.on_end is not None:
            return
        session, bound = call.request.session, call.bound
        if call.is_plain or call.request.origin.parent is None:
            upstream = None if bound is None else bound.upstream
            yield f"session {session.id} {upstream or ''}", limits.per_session
            if limits.per_owner is not None:
                yield f"owner {session.owner}", limits.per_owner
        if bound is not None and bound.serial:
            yield f"serial {session.id} {call.tool_id}", 1
        if bound is not None and bound.concurrency is not None:
            yield f"tool {call.tool_id}", bound.concurrency

    def _give_back(self, slots: list[int]) -> None:
        for slot in slots:
            self._shared_limits.free(slot)

    def _look_later(self) -> None:
        if self._look is None:
            self._look = self._clock.call_at(self._clock.now() + LOOK_S, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        if self.queued and not self._seating:
            self._seat_next()

    def leave(self, seat: ScheduledCall) -> None:
        """Gives its seat, or its place in the queue, to the next, here or in another process."""
        self._give_back(self._slots.pop(seat, []))
        super().leave(seat)

    def stop(self) -> None:
        """Forgets all seats, queues and deadlines."""
        for slots in self._slots.values():
            self._give_back(slots)
        self._slots.clear()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        super().stop()
