"""What a client knows of a server by its answers: its clock, and how long it has been silent."""

from __future__ import annotations

import asyncio

CLOCK_S = 60.0
"""How long a look at the clock of the server holds while nothing is heard of it."""


class ServerClock:
    """The time of the database, never later than it is: its last answer, and this machine's clock since."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._now = loop.time
        self._offset = self._at = float("-inf")

    def observe(self, time: float) -> None:
        """Take the time of the database, as of a moment ago."""
        self._at = self._now()
        self._offset = time - self._at

    def forget(self) -> None:
        """Forget the offset: it was wrong."""
        self._at = float("-inf")

    @property
    def old(self) -> bool:
        """True if the time has to be read again."""
        return self._now() - self._at > CLOCK_S

    def server(self, time: float) -> float:
        """A time of this loop by the clock of the database."""
        return time + self._offset


class Silence:
    """How long the database owes an answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._now = loop.time
        self._since: float | None = None

    def begin(self) -> None:
        """A request was sent."""
        if self._since is None:
            self._since = self._now()

    def end(self) -> None:
        """It has answered."""
        self._since = None

    @property
    def seconds(self) -> float:
        """How long it has not answered; 0 where nobody waits for it."""
        return 0.0 if self._since is None else self._now() - self._since
