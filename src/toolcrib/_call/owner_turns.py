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
    """An owner has as much under way as all others have to do, times their weight; the rest waits its turn, in order.

    So a busy owner beside a quiet one has one thing under way, and busy owners beside each other up to `most` each.
    """

    def __init__(self, most: int, weights: Mapping[str, int]) -> None:
        self._most = most
        self._weights = weights
        self._active = ActiveOwners()
        self._under_way: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._total = 0

    def contended(self, owner: str) -> bool:
        """True if others than this owner, who does something now, did something lately."""
        return self._active.note(owner, asyncio.get_running_loop().time())

    async def enter(self, owner: str) -> None:
        """Returns when it is the owner's turn; `leave` has to follow."""
        at_once = not self.contended(owner) or (owner not in self._queues and self._has_room(owner))
        self._total += 1
        if at_once:
            self._under_way[owner] += 1
            self._make_room(owner)
            return
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(turn)
        self._make_room(owner)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(owner)
            else:
                self._total -= 1
            raise

    def _has_room(self, owner: str) -> bool:
        others = self._total - self._wanted(owner)
        return self._under_way[owner] < min(max(others, 1), self._most) * self._weights.get(owner, 1)

    def _make_room(self, owner: str) -> None:
        """Gives turns to others, who may have more under way now that this owner has more to do."""
        if not self._queues or self._wanted(owner) > self._most or len(self._queues) > self._most:
            return  # nobody waits, or everybody who does has all that they may
        for other in [other for other in self._queues if other != owner]:
            self._advance(other)

    def _wanted(self, owner: str) -> int:
        """How much of an owner is under way or waits."""
        return self._under_way[owner] + len(self._queues.get(owner, ()))

    def leave(self, owner: str) -> None:
        """Gives the turn to what waits for it."""
        self._total -= 1
        self._under_way[owner] -= 1
        self._advance(owner)
        if not self._under_way[owner]:
            del self._under_way[owner]

    def _advance(self, owner: str) -> None:
        queue = self._queues.get(owner)
        while queue and self._has_room(owner):
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                self._under_way[owner] += 1
        if queue is not None and not queue:
            del self._queues[owner]
