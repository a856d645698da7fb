"""The promise of a store that several machines share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from toolcrib.events import Event
from toolcrib.store import Row, SessionRow, Store


class TakenCall(NamedTuple):
    """A call as whoever runs it needs it: its row, its events, its session, and the session's last own event."""

    row: Row
    events: list[Event]
    session: SessionRow
    own: int


class Node(NamedTuple):
    """A process that uses a shared store, as of its last heartbeat; `age` is in seconds."""

    name: str
    facts: dict[str, Any]
    started_at: float
    age: float
    alive: bool


class SharedStore(Store):
    """What a store past one machine promises beside: it knows its nodes, keeps bounds, and finds what nobody runs.

    Its own clock decides what is old, so that no machine's clock matters. `facts` is what this node tells of itself
    with each heartbeat, which a thread of its own sends; a node that was not heard of for `LEASE_S` is dead.
    """

    facts: dict[str, Any]
    in_use: Callable[[str], bool]
    """True if a session is open here: this node is always notified about those."""

    carry: Callable[[list[str]], bool] | None = None
    """Carries hints of what was written to the `heard` of all other nodes, by a quicker way than the store's own.

    False where it cannot now. A hint that is lost costs time and nothing else: each node notices, and looks.
    """

    @abstractmethod
    def heard(self, hint: str) -> None:
        """Takes a hint of another node."""

    @abstractmethod
    def bound(self, per_session: int | None, per_owner: int | None, unparked: Callable[[list[Row]], None]) -> None:
        """How many `bounded` claims may run at once. One beyond it is parked; `unparked` is told, by the store that
        freed a place, which of the parked calls may be tried again, the oldest first.
        """

    @abstractmethod
    async def cluster(self) -> str:
        """A short id, made with the store's schema, by which its nodes find each other."""

    @abstractmethod
    async def take(self, ids: list[str]) -> dict[str, TakenCall]:
        """Calls by id, in one look; one that does not exist is missing."""

    @property
    @abstractmethod
    def calm(self) -> bool:
        """True if the store has answered all along for a while. Else `stale` finds no queued call: one that was refused
        while nothing was heard may just be taken back.
        """

    @abstractmethod
    async def stale(self, queued_s: float, limit: int = 1000, tools: list[str] | None = None) -> list[Row]:
        """Calls that wait for a worker for longer, and those whose worker is dead; parked ones only if nothing runs.

        With `tools` only those of them, so that what nobody can run hides nothing else.
        """

    @abstractmethod
    async def left(self, worker: str) -> bool:
        """True if a node that is not alive was stopped, rather than died."""

    @abstractmethod
    async def nodes(self) -> list[Node]:
        """The nodes that are alive, and those that died within the last minute."""

    @abstractmethod
    async def counts(self) -> dict[str, dict[str, int]]:
        """How many calls of each tool are queued, running and waiting."""
