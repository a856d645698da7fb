"""Turns of owners at what all of them share and nobody may fill: the writer of a store, the rounds of the loop.

While only one owner has something to do, nothing is held back. Another who comes finds at most what was under way then.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping

LATELY_S = 1.0
"""Whoever did nothing for so long has nothing to do."""


class ActiveOwners:
    """The owners who did something lately."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[str, float] = OrderedDict()

    def note(self, owner: str, now: float) -> bool:
        """Takes in that an owner does something; True if others did lately."""
        seen = self._seen
        if len(seen) == 1 and owner in seen:
            seen[owner] = now
            return False
        seen[owner] = now
        seen.move_to_end(owner)
        while next(iter(seen.values())) < now - LATELY_S:
            seen.popitem(last=False)
        return len(seen) > 1


class OwnerTurns:
    """So much of each owner is under way at once, times their weight; the rest waits its turn, in order."""

    def __init__(self, most: int, weights: Mapping[str, int]) -> None:
        self._most = most
        self._weights = weights
        self._active = ActiveOwners()
        self._under_way: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    def contended(self, owner: str) -> bool:
        """True if others than this owner, who does something now, did something lately."""
        return self._active.note(owner, asyncio.get_running_loop().time())

    async def enter(self, owner: str) -> None:
        """Returns when it is the owner's turn; `leave` has to follow."""
        loop = asyncio.get_running_loop()
        if not self.contended(owner) or (owner not in self._queues and self._has_room(owner)):
            self._under_way[owner] += 1
            return
        turn = loop.create_future()
        self._queues.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(owner)
            raise

    def _has_room(self, owner: str) -> bool:
        return self._under_way[owner] < self._most * self._weights.get(owner, 1)

    def leave(self, owner: str) -> None:
        """Gives the turn to what waits for it."""
        self._under_way[owner] -= 1
        queue = self._queues.get(owner)
        while queue and self._has_room(owner):
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                self._under_way[owner] += 1
        if queue is not None and not queue:
            del self._queues[owner]
        if not self._under_way[owner]:
            del self._under_way[owner]
