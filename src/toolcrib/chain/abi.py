"""JSON values to calldata and back, by the types of a signature."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from toolcrib.chain.signatures import Signature, Type, parse_signature
from toolcrib.chain.values import address, checksum, clean, integer, invalid, shown
from toolcrib.errors import ToolFailure

LARGEST = 4096
"""How many items an array that somebody writes may have."""


class _Foreign(Exception):
    """A JSON value that cannot stand for any value of its type."""


def encode_call(text: str, arguments: Sequence[Any]) -> str:
    """The calldata of a function and its arguments, as 0x hex.

    Raises:
        ToolFailure: `invalid_arguments`, saying which argument does not fit and why.
    """
    signature = parse_signature(text)
    return "0x" + (signature.selector + encode(signature.inputs, arguments)).hex()


def encode(types: Sequence[Type], arguments: Sequence[Any]) -> bytes:
    """The arguments alone.

    Raises:
        ToolFailure: `invalid_arguments`, saying which argument does not fit and why.
    """
    if len(types) != len(arguments):
        raise invalid(f"Argument count mismatch: expected {len(types)} arguments, got {len(arguments)}")
    values = [_argument(index, kind, value) for index, (kind, value) in enumerate(zip(types, arguments, strict=True))]
    return bytes(_encoder(tuple(kind.text for kind in types))(values))


@lru_cache(512)
def _encoder(types: tuple[str, ...]) -> Callable[[Sequence[Any]], bytes]:
    """Made once for each list of types: to read them costs more than to encode."""
    from eth_abi.encoding import TupleEncoder
    from eth_abi.registry import registry

    made: Callable[[Sequence[Any]], bytes] = TupleEncoder(  # type: ignore[no-untyped-call]
        encoders=[registry.get_encoder(text) for text in types]
    )
    return made


def _argument(index: int, kind: Type, value: Any) -> Any:
    try:
        if kind.problem is not None:
            raise invalid(kind.problem)
        return _value(kind, value)
    except _Foreign:
        raise invalid(f"Unsupported argument type at position {index}") from None
    except ToolFailure as error:
        message = f"Error parsing argument {index} ({kind.text}): {error.message}"
        raise ToolFailure("invalid_arguments", message, hint=error.hint) from None


def _value(kind: Type, value: Any) -> Any:
    """A JSON value as the encoder takes it."""
    if value is None or (isinstance(value, Mapping) and kind.kind != "tuple"):
        raise _Foreign
    return _READERS[kind.kind](kind, value)


def _integer(kind: Type, value: Any) -> int:
    number = integer(value, kind.kind)
    low, high = (0, 2**kind.size - 1) if kind.kind == "uint" else (-(2 ** (kind.size - 1)), 2 ** (kind.size - 1) - 1)
    if not low <= number <= high:
        raise invalid(f"{shown(value)} is out of range for {kind.text}")
    return number


def _bool(kind: Type, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise invalid(f"Invalid bool: {shown(value)}")


def _string(kind: Type, value: Any) -> str:
    if not isinstance(value, str):
        raise invalid(f"Invalid string: {shown(value)}")
    return value


def _bytes(kind: Type, value: Any) -> bytes:
    if not isinstance(value, str) or not value.startswith("0x"):
        raise invalid(f"{kind.text} must be a 0x-prefixed hex string")
    if len(value) % 2:
        raise invalid(f"{kind.text} must have an even number of hex digits")
    try:
        return bytes.fromhex(value[2:])
    except ValueError:
        raise invalid(f"{kind.text} must be a 0x-prefixed hex string") from None


def _fixed(kind: Type, value: Any) -> bytes:
    size = 24 if kind.kind == "function" else kind.size
    encoded = _bytes(kind, value)
    if len(encoded) != size:
        raise invalid(f"{kind.text} must be exactly {size} bytes")
    return encoded


def _array(kind: Type, value: Any) -> list[Any]:
    items = _parsed(kind, value)
    if not isinstance(items, list):
        raise invalid(f"expected an array, got {shown(value)}")
    if kind.size and len(items) != kind.size:
        raise invalid(f"expected {kind.size} items, got {len(items)}")
    if len(items) > LARGEST:
        raise invalid(f"more than {LARGEST} items")
    return _items(kind.parts * len(items), items)


def _tuple(kind: Type, value: Any) -> list[Any]:
    items = _parsed(kind, value)
    if isinstance(items, Mapping):
        if not all(kind.names) or set(items) != set(kind.names):
            names = ", ".join(kind.names) if all(kind.names) else "none; write it as an array"
            raise invalid(f"the names of {kind.text} are: {names}")
        items = [items[name] for name in kind.names]
    if not isinstance(items, list):
        raise invalid(f"expected an array, got {shown(value)}")
    if len(items) != len(kind.parts):
        raise invalid(f"expected {len(kind.parts)} items, got {len(items)}")
    return _items(kind.parts, items)


def _items(kinds: Sequence[Type], items: Sequence[Any]) -> list[Any]:
    encoded = []
    for index, (kind, item) in enumerate(zip(kinds, items, strict=True)):
        try:
            encoded.append(_value(kind, item))
        except _Foreign:
            raise invalid(f"item {index}: no value of {kind.text}") from None
        except ToolFailure as error:
            raise invalid(f"item {index}: {error.message}", error.hint) from None
    return encoded


def _parsed(kind: Type, value: Any) -> Any:
    """Models write arrays and tuples as JSON, and as a string that holds JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise invalid(f"expected {kind.text} as JSON, got {shown(value)}") from None


_READERS: Mapping[str, Callable[[Type, Any], Any]] = {
    "uint": _integer,
    "int": _integer,
    "bool": _bool,
    "string": _string,
    "address": lambda kind, value: address(value),
    "bytes": _bytes,
    "fixed": _fixed,
    "function": _fixed,
    "array": _array,
    "tuple": _tuple,
}


def decode(types: Sequence[Type], data: str) -> list[Any]:
    """Values as JSON: integers as decimal strings, bytes as hex, addresses as EIP-55 spells them.

    Raises:
        ToolFailure: `invalid_arguments`, the data is not of these types.
    """
    from eth_abi.abi import decode as decoded
    from eth_abi.exceptions import DecodingError

    for kind in types:
        if kind.problem is not None:
            raise invalid(kind.problem)
    wanted = ",".join(kind.text for kind in types)
    try:
        values = decoded([kind.text for kind in types], bytes.fromhex(data.removeprefix("0x")))
    except (DecodingError, ValueError, OverflowError, RecursionError):
        raise invalid(f"The data cannot be decoded as ({wanted})") from None
    return [_json(kind, value) for kind, value in zip(types, values, strict=True)]


def _json(kind: Type, value: Any) -> Any:
    if kind.kind in ("uint", "int"):
        return str(value)
    if kind.kind == "address":
        return checksum(value.lower())
    if kind.kind == "tuple":
        return [_json(part, item) for part, item in zip(kind.parts, value, strict=True)]
    if kind.kind == "array":
        return [_json(kind.parts[0], item) for item in value]
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return clean(value, 100_000) if isinstance(value, str) else value


def decode_call(signature: Signature, data: str) -> list[Any] | None:
    """The arguments of calldata, or None where it is not a call of that function."""
    if data[2:10].lower() != signature.selector.hex():
        return None
    try:
        return decode(signature.inputs, data[10:])
    except ToolFailure:
        return None
