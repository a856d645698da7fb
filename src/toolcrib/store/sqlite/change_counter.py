"""Notices, by a look into shared memory, that another process changed sessions of the file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableSequence

from toolcrib.store.sqlite.writer import CommitCounter

MOVES_S = 0.1
"""How often it is looked, in memory, whether another process changed what belongs to a session itself."""


class ChangeCounter(CommitCounter):
    """Counts those that concern sessions themselves or their state, and tells when another process made one."""

    def __init__(self, counts: MutableSequence[int] | memoryview[int], tell: Callable[[], None]) -> None:
        super().__init__(counts)
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._known = self.of_others()
        self._polling = self._loop.call_later(MOVES_S, self._poll)

    def _poll(self) -> None:
        """Looks into memory alone; nothing is read for it."""
        before, self._known = self._known, self.of_others()
        if before != self._known:
            self._tell()
        self._polling = self._loop.call_later(MOVES_S, self._poll)

    def rest(self) -> None:
        """Tells no more."""
        self._polling.cancel()
