"""Reading arguments: from any form to JSON, and gently to what the schema means.

Gentle reading changes a value only where its type is not allowed, so what is valid as it stands is never touched.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from toolcrib.schema.problems import BadArguments, bad_json
from toolcrib.schema.shape import NOTHING, Shape

DEEPEST = 200  # levels of nesting that pydantic-core reads
EXACT = 2**53  # beyond it a float is not the number that was written
PATIENCE = 10_000  # shapes tried for one call, beside one for each byte: unions in unions multiply

LETTER_N = ord("n")  # looking for one byte is many times as fast as for a word

JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def read_arguments(arguments: object) -> bytes:
    """Make JSON text of arguments in any form; nothing at all is `{}`.

    Raises:
        BadArguments: they cannot be written as JSON.
    """
    if isinstance(arguments, dict):
        return _written(arguments)
    if arguments is None:
        return b"{}"
    if isinstance(arguments, str):
        arguments = _encoded(arguments)
    if isinstance(arguments, bytes | bytearray | memoryview):
        return _checked(bytes(arguments).strip()) or b"{}"
    return _written(dict(arguments)) if isinstance(arguments, Mapping) else _written_slowly(arguments)


def _checked(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise bad_json(f"not valid JSON: the text is not UTF-8 at byte {error.start}") from None
    return text


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise bad_json("not valid JSON: the text has half of a surrogate pair") from None


def _written(data: dict[Any, Any]) -> bytes:
    # msgspec writes bytes in base 64, where pydantic reads them as text.
    if bytes in map(type, data.values()):
        return _written_slowly(data)
    try:
        text = msgspec.json.encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _written_slowly(data)
    # It writes NaN as null, which would say "absent"; the slow way keeps it, to be refused.
    return _written_slowly(data) if LETTER_N in text and text.find(b"null") >= 0 else text


def _written_slowly(value: object) -> bytes:
    from pydantic_core import to_json

    try:
        return to_json(value, inf_nan_mode="constants")
    except (TypeError, ValueError, RecursionError) as error:
        raise bad_json(f"not JSON: {error}") from None


def decode(raw: bytes) -> Any:
    """Read JSON text.

    Raises:
        BadArguments: it is broken, nested too deeply or has numbers that JSON does not know.
    """
    if len(raw) > 2 * DEEPEST and raw.count(b"[") + raw.count(b"{") > DEEPEST:
        _refuse_broken(raw)
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not raw.strip():
            return None
        _refuse_broken(raw)
        _refuse("a number is out of range")


def _refuse_broken(raw: bytes) -> None:
    from pydantic_core import from_json

    try:
        from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        _refuse(str(error))


def _refuse(reason: str) -> NoReturn:
    if reason.startswith(("EOF while parsing", "unexpected end of hex escape")):
        raise bad_json(f"not valid JSON: {reason}; the text looks cut off")
    if reason.startswith("recursion limit exceeded"):
        raise bad_json(
            f"nested too deeply: more than {DEEPEST} levels{reason.removeprefix('recursion limit exceeded')}"
        )
    raise bad_json(f"not valid JSON: {reason}")


def encode(data: Any) -> bytes:
    """Write data that was read from JSON back as JSON."""
    return msgspec.json.encode(data)


def read_gently(shape: Shape, data: Any, size: int) -> Any:
    """Read data as the schema means it; gives back the same object where nothing had to change."""
    if data is None or (isinstance(data, str) and not data.strip()):
        data = {}
    try:
        return _Coercion(PATIENCE + size).read(shape, data)
    except RecursionError:
        return data


class _Coercion:
    """One walk over the data of a call."""

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def read(self, shape: Shape, value: Any) -> Any:
        self.patience -= 1
        if self.patience < 0:
            return value
        value = as_type(shape.types, value)
        for part in shape.parts:
            value = self.read(part, value)
        for group in shape.choices:
            value = self._choose(group, value)
        if isinstance(value, dict) and (shape.properties or shape.additional):
            return self._object(shape, value)
        if isinstance(value, list) and (shape.prefix or shape.items):
            return self._array(shape, value)
        return value

    def _object(self, shape: Shape, value: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for name, inner in value.items():
            place = shape.of_property(name)
            if place is None:
                continue
            if inner is None and _means_absent(shape, name):
                changed[name] = NOTHING
            elif type(inner) not in place.settled and (read := self.read(place, inner)) is not inner:
                changed[name] = read
        if not changed:
            return value
        return {name: inner for name, inner in {**value, **changed}.items() if inner is not NOTHING}

    def _array(self, shape: Shape, value: list[Any]) -> list[Any]:
        changed: dict[int, Any] = {}
        for index, inner in enumerate(value):
            place = shape.of_item(index)
            if place is None or type(inner) in place.settled:
                continue
            if (read := self.read(place, inner)) is not inner:
                changed[index] = read
        return [changed.get(index, inner) for index, inner in enumerate(value)] if changed else value

    def _choose(self, group: list[Shape], value: Any) -> Any:
        """Read a value by the branches that take it, else by the one branch that can be made to."""
        fitting = [branch for branch in group if branch.accepts(value)]
        reads = [self.read(branch, value) for branch in fitting or group]
        if fitting:
            return value if any(read is value for read in reads) else reads[0]
        mended = [read for branch, read in zip(group, reads, strict=True) if read is not value and branch.accepts(read)]
        if not mended:
            # Nothing helps, but problems inside a JSON text are more useful than one about the text.
            mended = [read for read in reads if isinstance(value, str) and isinstance(read, dict | list)]
        return mended[0] if mended and all(_identical(mended[0], other) for other in mended) else value


def _identical(one: Any, other: Any) -> bool:
    return encode(one) == encode(other)


def _means_absent(shape: Shape, name: str) -> bool:
    return name in shape.properties and name not in shape.required and shape.properties[name].refuses_null()


def as_type(types: frozenset[str] | None, value: Any) -> Any:
    """Read a value of a type that is not allowed as one that is, where what is meant is plain."""
    if types is None:
        return value
    if isinstance(value, float):
        return int(value) if "integer" in types and "number" not in types and _is_whole(value) else value
    if isinstance(value, str) and "string" not in types:
        meant = _text_as(types, value)
        return value if meant is NOTHING else meant
    return value


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) <= EXACT


def _text_as(types: frozenset[str], text: str) -> Any:
    try:
        value = decode(_encoded(text))
    except BadArguments:
        return NOTHING
    if isinstance(value, float) and "number" not in types:
        value = as_type(types, value)
    name = JSON_TYPES.get(type(value))
    if name in types and name != "string":
        return value
    return value if name == "integer" and "number" in types else NOTHING


def fill_defaults(shape: Shape, value: Any) -> bool:
    """Put in the defaults of absent properties, at any depth; says whether there were any."""
    filled = False
    for part in shape.parts:
        filled |= part.fills and fill_defaults(part, value)
    for group in shape.choices:
        filled |= any(branch.fills for branch in group) and _fill_choice(group, value)
    if isinstance(value, dict):
        return _fill_object(shape, value) or filled
    if isinstance(value, list) and shape.fills_inside:
        for index, inner in enumerate(value):
            filled |= _fill_inside(shape.of_item(index), inner)
    return filled


def _fill_choice(group: list[Shape], value: Any) -> bool:
    branch = next((branch for branch in group if branch.accepts(value)), None)
    return branch is not None and fill_defaults(branch, value)


def _fill_object(shape: Shape, value: dict[str, Any]) -> bool:
    filled = False
    for name, default in shape.defaults.items():
        if name not in value:
            value[name] = copy.deepcopy(default) if isinstance(default, dict | list) else default
            filled = True
    if shape.fills_inside:
        for name, inner in value.items():
            filled |= _fill_inside(shape.of_property(name), inner)
    return filled


def _fill_inside(place: Shape | None, value: Any) -> bool:
    return place is not None and place.fills and isinstance(value, dict | list) and fill_defaults(place, value)
