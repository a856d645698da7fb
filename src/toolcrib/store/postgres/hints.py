"""Hints of what was committed, sent after the commit and never with it: what gathers meanwhile goes with the next.

A hint is a line of text: the writer, `session:event` for each session that moved, by numbers, `^` and the number of the
line, `#` and the number of the writer's last batch. Whoever misses one notices (`Listener`): by the next line, which is
not the next number, or, where no other comes, by the number of the batch, which is committed with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

GATHER_S = 0.005
"""The least time between two rounds of hints of one node."""

TOGETHER = 250
"""Sessions of one hint: PostgreSQL takes 8000 bytes."""

EVERYTHING = "*"
"""Instead of sessions: which have moved is not known."""

Send = Callable[[list[str]], Awaitable[None]]


class Hints:
    """What this node has to tell the others: the first at once, the rest together every few milliseconds."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._numbers: dict[str, int] = {}
        self._moved: dict[str, str] = {}
        self._lines: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, writer: str, number: int, pairs: Iterable[str]) -> None:
        """A writer has committed the batch of that number."""
        self._numbers[writer] = number
        for pair in pairs:
            session, _, event = pair.partition(":")
            before = self._moved.get(session, "")
            self._moved[session] = f"{event}!" if before.endswith("!") and event.isdecimal() and event != "0" else event
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._numbers:
                await self._send(self._taken())
                await asyncio.sleep(GATHER_S)
        finally:
            self._task = None

    def _taken(self) -> list[str]:
        """All that is to be told; the numbers come last, so that who knows them has heard of the rest."""
        pairs = [f"{session}:{event}" if event else session for session, event in self._moved.items()]
        (writer, number), *others = self._numbers.items()
        self._numbers, self._moved = {}, {}
        groups = [pairs[first : first + TOGETHER] for first in range(0, len(pairs), TOGETHER)] or [[]]
        hints = [self._line(writer, group, 0) for group in groups[:-1]]
        hints.append(self._line(writer, groups[-1], number))
        return hints + [self._line(name, [], last) for name, last in others]

    def _line(self, writer: str, pairs: list[str], number: int) -> str:
        """The next hint of a writer."""
        self._lines[writer] = line = self._lines.get(writer, 0) + 1
        return " ".join([writer, *pairs, f"^{line}", f"#{number}"])

    async def stop(self, *, listens: bool = True) -> None:
        """Tells the rest, unless nobody `listens`."""
        task = self._task
        if task is not None and not listens:
            task.cancel()
        if task is not None:
            await asyncio.wait([task])
