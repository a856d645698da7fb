"""What this process puts into the log of a session in an SQLite file, before and after it is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolcrib.store.codec import LargeValue

if TYPE_CHECKING:
    from toolcrib.store import Draft, Write
    from toolcrib.store.own_writes import LogEntry

MOST = 128
"""Entries that wait to be taken; whoever comes later reads the log."""


class FileWrites:
    """The writes to one session since its log was read to its end, each with the number that it will have.

    That holds while no other process commits and no write is refused. Once one is reported to have got another number,
    or none, what comes next is read from the log, and what was taken of it already was a mistake.
    """

    def __init__(self, of_others: Callable[[], int]) -> None:
        self.mistaken = False
        self._of_others = of_others
        self._known = -1
        self._ready = False
        self._entries: list[LogEntry] = []
        self._expected: dict[int, int] = {}  # the first number of each write that is under way, 0 where unknown
        self._last = self._taken = self._committed = 0

    # For the reader

    def take(self) -> list[LogEntry] | None:
        """Return what was put since the last time; None where another process may have written, or too much was put."""
        if not self._ready or self._of_others() != self._known:
            self._forget()
            return None
        taken, self._entries, self._taken = self._entries, [], self._last
        return taken

    def begin(self) -> None:
        """A read of the log begins: what others commit from now on, it may miss."""
        self._known = self._of_others()

    def settle(self, seq: int) -> None:
        """The log was read up to this event; a write that was under way meanwhile may be before or behind it."""
        self._last = self._taken = seq
        self._ready = not self._expected and self._committed <= seq

    # For the store

    def put(self, write: Write) -> None:
        """A write is handed over."""
        events = write.events
        if not events:
            return
        self._expected[id(write)] = self._last + 1 if self._ready else 0
        if self._ready:
            self._last += len(events)
            if isinstance(events, list):
                self._entries += events
            else:
                self._entries.append(events)
            if len(self._entries) > MOST or (isinstance(events, list) and any(map(_large, events))):
                self._forget()

    def reported(self, write: Write, first: int) -> None:
        """A write was committed with this number of its first event, or refused with 0."""
        expected = self._expected.pop(id(write), 0)
        if first:
            self._committed = max(self._committed, first + len(write.events) - 1)
        if expected not in (0, first):
            self.mistaken |= self._taken >= expected
            self._forget()

    def dropped(self) -> None:
        """The session was deleted."""
        self.mistaken = True
        self._forget()

    def _forget(self) -> None:
        self._ready = False
        self._entries = []


def _large(draft: Draft) -> bool:
    """True if a draft holds what is kept beside the log, and should not stay in memory."""
    data = draft[3]
    return any(type(getattr(data, name, None)) is LargeValue for name in ("args", "data"))
