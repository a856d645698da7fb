"""Several group commits beside each other, in a store that is divided by sessions.

A transaction has the writes of one session there. Those of a session go through one lane, so that they stay in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any
from zlib import crc32

from toolcrib.store import Conflict, Write
from toolcrib.store.postgres.group_commit import GroupCommit

LANES = 8
"""Transactions that one process has under way at once."""


class Lanes:
    """To its store it is one group commit."""

    def __init__(self, groups: Sequence[GroupCommit]) -> None:
        self._groups = groups

    def __bool__(self) -> bool:
        """True if something waits to be written."""
        return any(self._groups)

    @property
    def behind(self) -> bool:
        """True if more waits than should."""
        return any(group.behind for group in self._groups)

    def put(self, write: Write) -> None:
        """Gathers a write; it is taken within milliseconds."""
        self._of(write).put(write)

    def do(self, write: Write | None) -> asyncio.Future[Conflict | None] | Coroutine[Any, Any, None]:
        """Queue a write behind all others of its session; without one, wait for all."""
        return self._all() if write is None else self._of(write).do(write)

    async def _all(self) -> None:
        await asyncio.gather(*(group.do(None) for group in self._groups if group))

    def _of(self, write: Write) -> GroupCommit:
        return self._groups[crc32(write.session.encode("utf-8", "surrogatepass")) % len(self._groups)]

    async def stop(self) -> bool:
        """Write what is left and end; True if all was written."""
        return all(await asyncio.gather(*(group.stop() for group in self._groups)))
