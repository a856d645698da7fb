"""The JSON of other systems, described once and read and written by the description.

A `Kind` takes a value and its dotted path and gives the value as its form says it: fields in order, defaults filled in,
unknown fields gone. Reading and writing are the same step; what comes out of it is what `dumps` puts into text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import msgspec

from toolcrib.errors import ToolcribError

Problem = Literal["missing", "wrong_type", "wrong_value", "unknown_value", "unknown_field", "json"]
Kind = Callable[[Any, str], Any]

_SAID: dict[Problem, str] = {
    "missing": "is missing",
    "wrong_type": "has the wrong type",
    "wrong_value": "has a value that is not allowed",
    "unknown_value": "has a value that is not known",
    "unknown_field": "is not known",
    "json": "is no JSON",
}
_REQUIRED: Any = object()
_NONE: Any = object()


class InteropError(ToolcribError):
    """A value that does not fit its form: `problem` is stable, `field` a dotted path, empty for the value itself."""

    def __init__(self, problem: Problem, field: str = "", message: str | None = None) -> None:
        super().__init__(message or f"{field or 'The value'} {_SAID[problem]}")
        self.problem = problem
        self.field = field


def join(path: str, name: str | int) -> str:
    """The path of a part."""
    return f"{path}.{name}" if path else str(name)


def anything(value: Any, path: str) -> Any:
    """Any JSON, as it is."""
    return value


def text(value: Any, path: str) -> str:
    """A string."""
    return value if isinstance(value, str) else _wrong_type(path)


def flag(value: Any, path: str) -> bool:
    """True or false."""
    return value if isinstance(value, bool) else _wrong_type(path)


def number(value: Any, path: str) -> float:
    """A number; one without a fraction is written with one, as the originals do."""
    return _wrong_type(path) if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def whole(least: int, most: int) -> Kind:
    """A number without a fraction, within its bounds."""

    def read(value: Any, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            _wrong_type(path)
        if not least <= value <= most:
            raise InteropError("wrong_value", path)
        return value

    return read


integer = whole(-(2**63), 2**63 - 1)
natural = whole(0, 2**64 - 1)


def one_of(*values: str, **aliases: str) -> Kind:
    """One of these words; an alias is read and never written."""

    def read(value: Any, path: str) -> str:
        word = aliases.get(text(value, path), value)
        if word not in values:
            raise InteropError("unknown_value", path)
        return str(word)

    return read


def each(kind: Kind) -> Kind:
    """A list."""

    def read(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            _wrong_type(path)
        return [kind(item, join(path, number)) for number, item in enumerate(value)]

    return read


def table(kind: Kind) -> Kind:
    """An object with any keys; they are strings."""

    def read(value: Any, path: str) -> dict[str, Any]:
        return {str(key): kind(item, join(path, key)) for key, item in _mapping(value, path).items()}

    return read


@dataclass(frozen=True, slots=True)
class Field:
    """One field: required, or with a default; left out when its value is one of `unsaid`."""

    name: str
    kind: Kind
    default: Any = _REQUIRED
    unsaid: tuple[Any, ...] = ()
    alias: str | None = None

    def read(self, value: Any, path: str) -> Any:
        """The value of the field; null stands for its default where that is null."""
        return None if value is None and self.default is None else self.kind(value, path)

    def absent(self, path: str) -> Any:
        """What stands for a field that was not given."""
        if self.default is _REQUIRED:
            raise InteropError("missing", join(path, self.name))
        return self.read(self.default, join(path, self.name))

    def leaves_out(self, value: Any) -> bool:
        """True if it is not written."""
        return any(value is unsaid or (unsaid is not None and value == unsaid) for unsaid in self.unsaid)


def need(name: str, kind: Kind = text, alias: str | None = None) -> Field:
    """A field that has to be given."""
    return Field(name, kind, alias=alias)


def filled(name: str, kind: Kind, default: Any) -> Field:
    """A field that may be missing, and is always written."""
    return Field(name, kind, default)


def maybe(name: str, kind: Kind = text, empty: Any = _NONE, alias: str | None = None) -> Field:
    """A field that is left out when it is none, or when it is `empty`."""
    return Field(name, kind, None, (None,) if empty is _NONE else (None, empty), alias)


class Record:
    """An object with fields in an order; unknown ones are ignored, or refused where it is `strict`."""

    def __init__(self, *fields: Field, strict: bool = False) -> None:
        self.fields = fields
        self.strict = strict
        self.keys = {key: field for field in fields for key in (field.name, field.alias) if key is not None}

    def __call__(self, value: Any, path: str) -> dict[str, Any]:
        """What comes first in the text is checked first; what is missing comes last."""
        data: dict[str, Any] = {}
        for key, item in _mapping(value, path).items():
            field = self.keys.get(key)
            if field is not None:
                data[field.name] = field.read(item, join(path, key))
            elif self.strict:
                raise InteropError("unknown_field", join(path, key))
        whole = {f.name: data[f.name] if f.name in data else f.absent(path) for f in self.fields}
        return {f.name: whole[f.name] for f in self.fields if not f.leaves_out(whole[f.name])}


Keep = Literal["nothing", "unknown", "all"]


class Tagged:
    """An object that names its variant in one field, which is written first.

    `keep` says what is taken whole and written back unchanged: an `unknown` variant, or `all` that does not parse.
    """

    def __init__(
        self, tag: str, variants: Mapping[str, Record], keep: Keep = "nothing", aliases: Mapping[str, str] | None = None
    ) -> None:
        self.tag = tag
        self.variants = variants
        self.keep = keep
        self.aliases = aliases or {}

    def kept(self, keep: Keep) -> Tagged:
        """The same, with another rule for what is taken whole."""
        return Tagged(self.tag, self.variants, keep, self.aliases)

    def __call__(self, value: Any, path: str) -> dict[str, Any]:
        """The variant that the tag names."""
        data = _mapping(value, path)
        if self.keep != "all":
            return self._read(data, path)
        try:
            return self._read(data, path)
        except InteropError:
            return dict(data)

    def _read(self, data: Mapping[str, Any], path: str) -> dict[str, Any]:
        if self.tag not in data:
            raise InteropError("missing", join(path, self.tag))
        tag = text(data[self.tag], join(path, self.tag))
        name = self.aliases.get(tag, tag)
        variant = self.variants.get(name)
        if variant is not None:
            rest = {key: item for key, item in data.items() if key != self.tag}
            return {self.tag: name, **variant(rest, path)}
        if self.keep == "nothing":
            raise InteropError("unknown_value", join(path, self.tag))
        return dict(data)


class Named:
    """An object of one key, which names its variant."""

    def __init__(self, variants: Mapping[str, Kind], keep: Keep = "nothing") -> None:
        self.variants = variants
        self.keep = keep

    def __call__(self, value: Any, path: str) -> dict[str, Any]:
        """The variant that the key names."""
        data = _mapping(value, path)
        if len(data) != 1:
            raise InteropError("wrong_value" if data else "missing", path)
        ((name, item),) = data.items()
        if name not in self.variants:
            if self.keep == "nothing":
                raise InteropError("unknown_value", path)
            return dict(data)
        try:
            return {name: self.variants[name](item, join(path, name))}
        except InteropError:
            if self.keep == "all":
                return dict(data)
            raise


class Forms:
    """The forms of one system by their names."""

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self.kinds = kinds

    def read(self, type: str, value: Any) -> Any:
        """A value as its form says it."""
        if type not in self.kinds:
            raise InteropError("unknown_value", "", f"There is no form {type!r}; there are {', '.join(self.kinds)}")
        return self.kinds[type](value, "")

    def loads(self, type: str, text: str | bytes) -> Any:
        """Reads a JSON text of that form."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise InteropError("json", "", f"The text is no JSON: {error}") from None
        return self.read(type, value)

    def dumps(self, type: str, value: Any) -> str:
        """Writes a value of that form as compact JSON."""
        return compact(self.read(type, value))


def compact(value: Any) -> str:
    """JSON without blanks, letters as they are."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InteropError("wrong_type", "", f"The value is no JSON: {error}") from None


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _wrong_type(path)


def _wrong_type(path: str) -> NoReturn:
    raise InteropError("wrong_type", path)
