"""How many calls of each owner wait for an answer, without a look into the store for every one."""

from __future__ import annotations

from typing import NamedTuple

from toolcrib._call.scheduler import Clock
from toolcrib.store import Store

FRESH_S = 60.0
"""So long a count is believed: other processes may let calls of the same owner wait."""

AGAIN_S = 0.25
"""So long an owner who had too many is not counted again."""

KNOWN = 10_000
"""So many owners are kept in mind."""


class _Count(NamedTuple):
    number: int
    at: float


class WaitingCalls:
    """Bounds the calls of an owner that wait for an answer. It counts up from what the store says, and never down:
    where that reaches the limit, the store is asked again.
    """

    def __init__(self, store: Store, most: int, clock: Clock) -> None:
        self.most = most
        self._store = store
        self._clock = clock
        self._counts: dict[str, _Count] = {}

    async def is_full(self, owner: str) -> bool:
        """True if as many wait as may; else one more is counted."""
        count, now = self._counts.get(owner), self._clock.now()
        age_s = FRESH_S if count is None else now - count.at
        if count is None or age_s >= FRESH_S or (count.number >= self.most and age_s >= AGAIN_S):
            if len(self._counts) >= KNOWN:
                self._counts.clear()
            count = _Count((await self._store.open_calls(owner))["waiting"], now)
        full = count.number >= self.most
        self._counts[owner] = count if full else count._replace(number=count.number + 1)
        return full
