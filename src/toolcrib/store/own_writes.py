"""What this process writes to the log of a session, at hand before it is read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from toolcrib.store import Draft
    from toolcrib.store.codec import CompactWrite

LogEntry: TypeAlias = "Draft | CompactWrite"
"""One event as it was put, or several in one object."""


class OwnWrites(Protocol):
    """The writes of this process to one session, for a reader who wants all of its log, from the first event on.

    Where `take` returns None the reader calls `begin`, then `Store.flush`, reads the log from where it is up to its
    end, and calls `settle`.
    """

    mistaken: bool
    """True if something that was taken is not in the log, or elsewhere in it: what was made of it is wrong."""

    def take(self) -> list[LogEntry] | None:
        """Return what was put since the last time, in the order of the log; None where only a read can tell."""

    def begin(self) -> None:
        """A read of the log begins."""

    def settle(self, seq: int) -> None:
        """The log was read up to this event."""
