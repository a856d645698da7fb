"""The calls that wait for a seat, by owner and session. Owners take turns by their weights, then their sessions do."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar


class Queued(Protocol):
    """What the queue needs to know of a call."""

    @property
    def session(self) -> Any:
        """Its session."""


C = TypeVar("C", bound=Queued)


class Selection(Protocol[C]):
    """Says which calls may start now."""

    def skips(self, first: C) -> bool:
        """True if nothing of the owner of this call may start now."""

    def choose(self, calls: deque[C]) -> C | None:
        """The first call of a session that may start now."""


class _OwnerQueue(Generic[C]):
    """The calls of one owner. `credit` is how many of them may start before it is somebody else's turn."""

    __slots__ = ("credit", "length", "sessions")

    def __init__(self, credit: int) -> None:
        self.sessions: OrderedDict[str, deque[C]] = OrderedDict()
        self.credit = credit
        self.length = 0

    @property
    def first(self) -> C:
        """The call whose turn it is."""
        return next(iter(self.sessions.values()))[0]

    def select(self, selection: Selection[C]) -> C | None:
        """Goes round the sessions once, for a call that may start."""
        if len(self.sessions) == 1:
            return selection.choose(next(iter(self.sessions.values())))
        for _ in range(len(self.sessions)):
            session, calls = next(iter(self.sessions.items()))
            self.sessions.move_to_end(session)
            call = selection.choose(calls)
            if call is not None:
                return call
        return None


class CallQueue(Generic[C]):
    """Calls of a session stay in order. An owner of weight 3 has three turns where another has one."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._owners: OrderedDict[str, _OwnerQueue[C]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._owners)

    def __iter__(self) -> Iterator[C]:
        return (call for owner in self._owners.values() for calls in owner.sessions.values() for call in calls)

    def weight(self, owner: str) -> int:
        """How many turns an owner has in a round."""
        return self._weights.get(owner, 1) if self._weights else 1

    def length(self, owner: str) -> int:
        """How many calls of an owner wait."""
        queue = self._owners.get(owner)
        return 0 if queue is None else queue.length

    def add(self, call: C) -> None:
        """Puts a call behind the others of its session."""
        owner = self._owners.get(call.session.owner)
        if owner is None:
            owner = self._owners[call.session.owner] = _OwnerQueue(self.weight(call.session.owner))
        owner.sessions.setdefault(call.session.id, deque()).append(call)
        owner.length += 1

    def remove(self, call: C) -> None:
        """Takes a call out."""
        owner = self._owners[call.session.owner]
        calls = owner.sessions[call.session.id]
        calls.remove(call)
        owner.length -= 1
        if not calls:
            del owner.sessions[call.session.id]
        if not owner.sessions:
            del self._owners[call.session.owner]

    def next(self, selection: Selection[C]) -> C | None:
        """The call that starts next, which is still to be removed; None where none may start."""
        if len(self._owners) == 1:  # there is nobody to take turns with
            owner = next(iter(self._owners.values()))
            return None if selection.skips(owner.first) else owner.select(selection)
        for _ in range(len(self._owners)):
            name, owner = next(iter(self._owners.items()))
            call = None if selection.skips(owner.first) else owner.select(selection)
            if call is None or owner.credit <= 1:
                owner.credit = self.weight(name)
                self._owners.move_to_end(name)
            else:
                owner.credit -= 1
            if call is not None:
                return call
        return None

    def clear(self) -> None:
        """Forgets all calls."""
        self._owners.clear()
