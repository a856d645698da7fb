"""Event data as JSON text. Arguments and results keep the bytes they came in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from toolcrib.events import EventData, Omitted, fields_of, written
from toolcrib.events.event import FLAT

__all__ = ["Omitted"]

LARGE = 64 * 1024
"""Arguments and results beyond this size are stored once and referenced."""

PAGE_BYTES = 1024 * 1024
"""The data of a page of a log, unless somebody wants more or less."""

DEEPEST = 100
"""Levels of nesting that are kept of data which could not be written as it was."""

DEEP = 10_000
"""Brackets from which on a text is read again to see that it can be: newer Pythons write deeper than they read."""

Raw = msgspec.Raw


class LargeValue:
    """JSON text of more than `LARGE` bytes, kept beside the log and named by its digest."""

    __slots__ = ("id", "json")

    def __init__(self, json: bytes) -> None:
        self.json = json
        self.id = hashlib.sha256(json).hexdigest()


class PageLimit(NamedTuple):
    """How far a page of a log goes: it ends with the event that brings the JSON of its data to `max_bytes`.

    Unless `whole`, an `Omitted` stands for each value of more than `LARGE` bytes, which does not count.
    """

    max_bytes: int = PAGE_BYTES
    whole: bool = True


WHOLE = PageLimit()


class CompactData(Protocol):
    """The data of several events in one small object, written out only when somebody reads or stores them."""

    def json(self, kind: str) -> bytes:
        """The JSON text of its event of that kind."""


class CompactWrite(CompactData, Protocol):
    """All events of one write in one small object: their data, each by its place, their number, the last time."""

    at: float
    count: int

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Any: ...

    def lines(self) -> Sequence[tuple[float, str, str, bytes]]:
        """Time, call, kind and JSON text of each."""

    def begun(self) -> tuple[str, str, str | None]:
        """The call, its tool and its agent."""

    def __iter__(self) -> Iterator[Any]: ...


def digest(session: str, call: str, fingerprint: str, args: bytes) -> str:
    """The digest of what will run: session, call, tool fingerprint and canonical arguments."""
    try:
        text = _ordered.encode([session, call, fingerprint, _decoder.decode(args)])
    except (msgspec.DecodeError, RecursionError):  # it stands for itself, as in `canonical`
        text = _ordered.encode([session, call, fingerprint, canonical(args)])
    return hashlib.sha256(text).hexdigest()


def canonical(args: bytes) -> msgspec.Raw | str:
    """The canonical form of a JSON text; a text that is no JSON stands for itself."""
    try:
        return Raw(_ordered.encode(_decoder.decode(args)))
    except (msgspec.DecodeError, RecursionError):
        return args.decode("utf-8", "replace")


def same_json(one: bytes, other: bytes) -> bool:
    """True if two JSON texts say the same."""
    return msgspec.json.encode(canonical(one)) == msgspec.json.encode(canonical(other))


def raw(json: bytes) -> Any:
    """A JSON text as a part of event data."""
    return Raw(json) if len(json) <= LARGE else LargeValue(json)


def _plain(value: Any) -> Any:
    if isinstance(value, LargeValue):
        return Raw(value.json)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_ordered = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()


def encode(data: Any) -> bytes:
    """The JSON text of event data; what JSON cannot hold is written as near to it as JSON comes."""
    try:
        text = _encoder.encode(data)
        if len(text) > 2 * DEEP and text.count(b"[") + text.count(b"{") > DEEP:
            _decoder.decode(text)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _encoder.encode(_mended(data, 0))
    return text


def whole(text: str) -> str:
    """A text that can be written anywhere: half surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()


def _mended(value: Any, depth: int) -> Any:
    """Texts become whole, keys become text, and what is nested without end is cut off."""
    if isinstance(value, str):
        return whole(value)
    if depth > DEEPEST:
        return "…"
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _mended(getattr(value, f.name), depth + 1) for f in fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: _mended(item, depth + 1) for name, item in fields_of(value).items()}
    if isinstance(value, Mapping):
        return {_mended(str(key), depth): _mended(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_mended(item, depth + 1) for item in value]
    if isinstance(value, Raw | LargeValue | bool | int | float | None):
        return value
    return _mended(str(value), depth)


def decode(json: bytes | str) -> Any:
    """JSON text as plain data."""
    return _decoder.decode(json)


class Stored(NamedTuple):
    """The data of an event as another log holds it."""

    text: bytes

    def json(self, kind: str) -> bytes:
        """Its JSON text, whatever the kind."""
        return self.text


def event_json(kind: str, data: EventData | CompactData) -> bytes:
    """Return the JSON text of the data of an event."""
    return encode(written(data)) if isinstance(data, EventData) else data.json(kind)


def size_of(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def split_large(kind: str, data: EventData | CompactData) -> tuple[bytes, dict[str, LargeValue]]:
    """Return the JSON text of the data of an event without its large parts, and those parts by field."""
    if not isinstance(data, EventData):
        json = data.json(kind)
        return (json, {}) if len(json) <= LARGE else _split(_raw_fields.decode(json))
    try:
        text = _small.encode(data if type(data) not in FLAT else written(data))
    except _HasLarge:
        return _split(fields_of(data))
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = encode(written(data))
    return (text, {}) if len(text) <= LARGE else _split(fields_of(data))


def _split(values: Mapping[str, Any]) -> tuple[bytes, dict[str, LargeValue]]:
    parts = {name: value for name, value in values.items() if type(value) is LargeValue}
    for name, value in values.items():
        if name not in parts and len(json := encode(value)) > LARGE:
            parts[name] = LargeValue(json)
    return encode({name: value for name, value in values.items() if name not in parts}), parts


class _HasLarge(Exception):
    """A value is kept beside the log."""


def _not_large(value: Any) -> Any:
    if isinstance(value, LargeValue):
        raise _HasLarge
    return _plain(value)


_small = msgspec.json.Encoder(enc_hook=_not_large)
_raw_fields = msgspec.json.Decoder(dict[str, Raw])
