"""One line of a log."""

from __future__ import annotations

from typing import Any, Self

import msgspec
from msgspec import Struct

from toolcrib.events.forms import encode, read
from toolcrib.events.values import EventData, Omitted


class Event(Struct, frozen=True, eq=False):
    """One line of a session's log.

    Attributes:
        seq: Number of the event; counts from 1 within the session without gaps.
        at: When it was written, in seconds since 1970.
        call: Call that it belongs to; None for what concerns the session itself.
        kind: Name of its kind.
        json: Its data as JSON text, as the log holds it.
        omitted: Sizes of large values that it was read without, by the names of their fields.
    """

    seq: int
    at: float
    call: str | None
    kind: str
    json: bytes
    omitted: dict[str, int] | None = None
    _data: EventData | None = None
    _fields: dict[str, Any] | None = None

    @classmethod
    def of(cls, seq: int, at: float, call: str | None, data: EventData) -> Self:
        """Return an event with that data."""
        return cls(seq, at, call, data.kind, encode(data))

    @property
    def data(self) -> Any:
        """Its data, of the type that its kind names; see `toolcrib.events`.

        A type checker takes any field of it: a kind that was compared as text says nothing to it. Match on the types to
        have the fields checked.
        """
        if self._data is None:
            msgspec.structs.force_setattr(self, "_data", read(self.kind, self.json, self.omitted))
        return self._data

    @property
    def fields(self) -> dict[str, Any]:
        """Its data as plain JSON, also fields that this version does not know."""
        if self._fields is None:
            fields = msgspec.json.decode(self.json)
            for name, size in (self.omitted or {}).items():
                fields[name] = Omitted(size)
            msgspec.structs.force_setattr(self, "_fields", fields)
        return self._fields  # type: ignore[return-value]  # it was set just now

    def plain(self) -> dict[str, Any]:
        """Return all of it as plain JSON."""
        return {"seq": self.seq, "at": self.at, "call": self.call, "kind": self.kind, "data": self.fields}

    def __repr__(self) -> str:
        return f"Event({self.seq}, {self.at}, {self.call!r}, {self.data!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        mine, theirs = (self.seq, self.at, self.call, self.kind), (other.seq, other.at, other.call, other.kind)
        return mine == theirs and (self.json == other.json or self.fields == other.fields)

    def __hash__(self) -> int:
        return hash((self.seq, self.at, self.call, self.kind))
