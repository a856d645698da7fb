"""What the tests of sessions share: a store that outlives its cribs, gates for bodies, and ways to wait for events."""

import asyncio
from collections.abc import Iterable
from typing import Any

from toolcrib import Crib, Event, Session
from toolcrib.store import Store
from toolcrib.store.memory import MemoryStore

SOON = 60.0
"""So long a test waits for what should happen at once; it is never reached on purpose."""


class Place:
    """A store that several cribs use, one after the other, as processes would use one file."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store: str | Store = MemoryStore() if url == "memory:" else url

    def crib(self, *sources: Any, **options: Any) -> Crib:
        return Crib(sources, store=self._store, **options)


class Gate:
    """A body stops here until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def passed(self) -> None:
        self.reached.set()
        await self.opened.wait()

    async def wait(self) -> None:
        await asyncio.wait_for(self.reached.wait(), SOON)


async def log(session: Session, call: str | None = None, after: int = 0) -> list[Event]:
    """The log as it is now."""
    return [event async for event in session.events(after, call, follow=False)]


async def first(session: Session, kind: str, call: str | None = None, after: int = 0) -> Event:
    """The first event of that kind, as soon as it is there."""
    async with asyncio.timeout(SOON):
        async for event in session.events(after, call):
            if event.kind == kind:
                return event
    raise AssertionError(f"the log ended without {kind!r}")


async def follow(session: Session, call: str, after: int = 0) -> list[Event]:
    """All events of a call, up to its end."""
    async with asyncio.timeout(SOON):
        return [event async for event in session.events(after, call)]


def kinds(events: Iterable[Event]) -> list[str]:
    return [event.kind for event in events]


def values(events: Iterable[Event]) -> list[Any]:
    """What was streamed, chunk by chunk."""
    return [event.fields["value"] for event in events if event.kind == "output"]


def text(events: Iterable[Event]) -> str:
    return "".join(event.fields["delta"] for event in events if event.kind == "output")


async def settled() -> None:
    """Lets everything that is ready run; for what must not happen."""
    for _ in range(20):
        await asyncio.sleep(0)
