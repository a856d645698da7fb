"""One line of a log; its data as JSON text, and back."""

from __future__ import annotations

from typing import Any, Self, get_args

import msgspec
from msgspec import UNSET, Struct

from toolcrib.events.kinds import KINDS
from toolcrib.events.sessions import ErrorNotice, Notice, UserState
from toolcrib.events.values import EventData, Omitted, Unknown

_plain = msgspec.json.Decoder()


def read(kind: str, json: bytes, omitted: dict[str, int] | None = None) -> EventData:
    """Return the data of an event of that kind.

    `omitted` has the sizes of values that were left out of the JSON text; an `Omitted` stands in their place.
    """
    try:
        data: EventData = _decoders[kind].decode(json) if not omitted else _read_loosely(kind, json, omitted)
    except (KeyError, msgspec.ValidationError):
        return _read_loosely(kind, json, omitted or {})
    return data


def _read_loosely(kind: str, json: bytes, omitted: dict[str, int]) -> EventData:
    """Where a log says something else than this version would write, a value that does not fit the type of its field
    stays as it is in JSON, and one that is missing is None.
    """
    if kind not in KINDS or kind in _FLAT:
        return _open(kind, _plain.decode(json))
    loose: EventData = _loosely(KINDS[kind], _plain.decode(json), omitted)
    return loose


def _loosely(type: Any, values: Any, omitted: dict[str, int]) -> Any:
    """Return the data whose values do not all have the types of their fields."""
    if not isinstance(values, dict):
        return Unknown(values)
    made: dict[str, Any] = {}
    for one in msgspec.structs.fields(type):
        name = one.encode_name
        if name in omitted:
            made[one.name] = Omitted(omitted[name])
        elif name in values:
            made[one.name] = _loose_value(one.type, values[name])
        elif one.required:
            made[one.name] = None
    return type(**made)


def _loose_value(type: Any, value: Any) -> Any:
    try:
        return msgspec.convert(value, type)
    except msgspec.ValidationError:
        struct = next((one for one in (type, *get_args(type)) if isinstance(one, _struct_type)), None)
        return value if struct is None or not isinstance(value, dict) else _loosely(struct, value, {})


_struct_type = type(Struct)
_FLAT = frozenset({UserState.kind, Notice.kind, ErrorNotice.kind})
"""Kinds whose data has fields of any name."""


class _Decoders(dict[str, msgspec.json.Decoder[Any]]):
    """The decoders of all other kinds, each made when it is first needed."""

    def __missing__(self, kind: str) -> msgspec.json.Decoder[Any]:
        if kind in _FLAT:
            raise KeyError(kind)
        decoder = self[kind] = msgspec.json.Decoder(KINDS[kind])
        return decoder


_decoders = _Decoders()


def _open(kind: str, values: Any) -> EventData:
    """Return the data of a kind with fields of any name, or of a kind that is not known."""
    if kind not in _FLAT or not isinstance(values, dict):
        return Unknown(values)
    if kind == UserState.kind:
        return UserState(values)
    text = values.pop("text", "")
    return Notice(text, values) if kind == Notice.kind else ErrorNotice(text, values)


FLAT = frozenset({UserState, Notice, ErrorNotice, Unknown})
"""The types whose JSON text is made of something else than their fields."""


def written(data: EventData) -> Any:
    """Return what the JSON text of the data is made of."""
    return _flattened(data) if type(data) in FLAT else data


def _flattened(data: EventData) -> Any:
    match data:
        case UserState():
            return data.values
        case Notice() | ErrorNotice():
            return {"text": data.text, **data.more}
        case Unknown():
            return data.fields
    return data


def with_values(json: bytes, values: dict[str, bytes]) -> bytes:
    """Return the JSON text of an object with more fields."""
    more = b",".join(_plain_json(name) + b":" + value for name, value in values.items())
    return json if not values else b"{" + more + b"}" if json == b"{}" else json[:-1] + b"," + more + b"}"


def encode(data: EventData) -> bytes:
    """Return the JSON text of the data."""
    return _plain_json(written(data))


_plain_json = msgspec.json.encode


def fields_of(data: Struct) -> dict[str, Any]:
    """Return the fields that the JSON text of the data has, by their names there."""
    made = written(data) if isinstance(data, EventData) else data
    if not isinstance(made, Struct):
        return dict(made)
    omits = made.__struct_config__.omit_defaults
    return {
        one.encode_name: value
        for one in msgspec.structs.fields(made)
        if (value := getattr(made, one.name)) is not UNSET and not (omits and value is one.default)
    }


class Event(Struct, frozen=True, eq=False):
    """One line of a session's log.

    A type checker takes any field of its `data`: a kind that was compared as text says nothing to it. Match on the
    types to have the fields checked.

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
        """Its data, of the type that its kind names; see `toolcrib.events`."""
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
