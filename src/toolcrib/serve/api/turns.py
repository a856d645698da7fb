"""In which order requests begin where they come faster than they are answered: in turns of those who sent them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from toolcrib._call.owner_turns import ActiveOwners

EACH = 1
"""Requests of one principal that begin in one round of the loop, while others send some too."""


class RequestTurns:
    """Lets so many requests of each principal begin in a round of the loop, times their weight.

    Between two rounds the loop takes in what others sent, so that nobody waits for more than one round of each of the
    others. While there is only one principal, nothing is held back.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._active = ActiveOwners()
        self._begun: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._in_round = False

    def take(self, name: str) -> asyncio.Future[None] | None:
        """None where a request may begin at once, else what is done when its turn has come."""
        loop = asyncio.get_running_loop()
        if not self._active.note(name, loop.time()) and not self._queues:
            return None
        if not self._in_round:
            self._in_round = True
            loop.call_soon(self._next_round)
        begun = self._begun.get(name, 0)
        if name not in self._queues and begun < EACH * self._weights.get(name, 1):
            self._begun[name] = begun + 1
            return None
        turn = loop.create_future()
        self._queues.setdefault(name, deque()).append(turn)
        return turn

    def _next_round(self) -> None:
        self._begun.clear()
        for name, queue in list(self._queues.items()):
            free = EACH * self._weights.get(name, 1)
            while queue and free:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    free -= 1
            if not queue:
                del self._queues[name]
            self._begun[name] = EACH * self._weights.get(name, 1) - free
        self._in_round = bool(self._begun)
        if self._in_round:
            asyncio.get_running_loop().call_soon(self._next_round)
