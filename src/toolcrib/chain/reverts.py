"""The reason of a revert in words."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.chain.abi import decode
from toolcrib.chain.signatures import Signature, parse_types
from toolcrib.chain.values import clean
from toolcrib.errors import ToolFailure

PANICS = {
    0x01: "assertion failed",
    0x11: "arithmetic overflow",
    0x12: "division by zero",
    0x21: "invalid enum value",
    0x31: "pop of an empty array",
    0x32: "array index out of bounds",
    0x41: "out of memory",
}


def reason(data: str | None, errors: Mapping[str, Signature], node_message: str = "") -> str:
    """Describe the data of a revert; `node_message` is used for a revert without data."""
    if data is None or len(data) < 10:
        text = node_message.partition("revert")[2].removeprefix("ed").lstrip(": ")
        return f"Error: {text}" if text and "without" not in text else "reverted without data"
    selector, rest = data[2:10].lower(), data[10:]
    try:
        if selector == "08c379a0":
            return f"Error: {clean(decode(parse_types('string'), rest)[0])}"
        if selector == "4e487b71":
            code = int(decode(parse_types("uint256"), rest)[0])
            return f"Panic(0x{code:02x}) {PANICS.get(code, 'unknown panic')}"
        if selector in errors:
            return _named(errors[selector], rest)
    except ToolFailure:  # it begins as one of these and goes on otherwise
        pass
    return f"custom error 0x{selector}"


def _named(error: Signature, rest: str) -> str:
    values = decode(error.inputs, rest)
    return clean(f"{error.name}({', '.join(map(str, values))})")
