"""The data of events as JSON text, and back."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct

from toolcrib.events.kinds import KINDS
from toolcrib.events.sessions import ErrorNotice, Notice, UserState
from toolcrib.events.values import EventData, Omitted, Unknown

_plain = msgspec.json.Decoder()
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def read(kind: str, json: bytes, omitted: dict[str, int] | None = None) -> EventData:
    """Return the data of an event of that kind.

    `omitted` has the sizes of values that were left out of the JSON text; an `Omitted` stands in their place. Where a
    log says something else than this version would write, a value that does not fit the type of its field stays as it
    is in JSON, and one that is missing is None.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        if kind not in KINDS or kind in _FLAT:
            return _open(kind, _plain.decode(json))
        decoder = _decoders[kind] = msgspec.json.Decoder(KINDS[kind])
    if not omitted:
        try:
            data: EventData = decoder.decode(json)
            return data
        except msgspec.ValidationError:
            pass
    loose: EventData = _loosely(KINDS[kind], _plain.decode(json), omitted or {})
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
    if type(data) not in FLAT:
        return data
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
