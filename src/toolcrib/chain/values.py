"""Amounts, addresses, blocks, hex and foreign text: read strictly, written in one form."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import Any

from toolcrib.errors import ToolFailure

UINT256 = 2**256 - 1
SAFE_INTEGER = 2**53 - 1
ZERO = "0x" + "0" * 40
UNITS = {"wei": 0, "kwei": 3, "mwei": 6, "gwei": 9, "szabo": 12, "finney": 15, "ether": 18, "eth": 18}
TAGS = ("latest", "earliest", "pending", "safe", "finalized")

_DECIMAL = re.compile(r"-?[0-9]{1,80}")
_HEX = re.compile(r"-?0x[0-9a-fA-F]{1,64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def invalid(message: str, hint: str | None = None) -> ToolFailure:
    """The failure of a wrong argument."""
    return ToolFailure("invalid_arguments", message, hint=hint)


def keccak(data: bytes) -> bytes:
    """Keccak-256, as Ethereum hashes."""
    from Crypto.Hash import keccak as made  # loaded by the first toolkit, not by the package

    return made.new(digest_bits=256, data=data).digest()


@lru_cache(4096)
def checksum(lower: str) -> str:
    """An address in lower case as EIP-55 spells it."""
    marks = keccak(lower[2:].encode()).hex()
    return "0x" + "".join(c.upper() if int(mark, 16) > 7 else c for c, mark in zip(lower[2:], marks, strict=False))


def address(text: Any) -> str:
    """An address as EIP-55 spells it; of one case, or with a right checksum.

    The right spelling of a wrong one is not told: it would only launder an address that somebody made up.

    Raises:
        ToolFailure: `invalid_arguments`, it is none, or its checksum is wrong.
    """
    if not isinstance(text, str) or not _ADDRESS.fullmatch(text):
        raise invalid(f"Invalid address: {shown(text)}")
    digits = text[2:]
    right = checksum("0x" + digits.lower())
    if digits not in (digits.lower(), digits.upper()) and text != right:
        raise invalid(
            f"Invalid address checksum: {text}", "Copy the address from where it was given; do not retype it."
        )
    return right


def integer(value: Any, what: str = "amount") -> int:
    """A decimal or 0x string, or a JSON integer that no reader rounds.

    Raises:
        ToolFailure: `invalid_arguments`, it is anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) <= SAFE_INTEGER:
            return value
        raise invalid(f"Invalid {what}: write integers above 2^53-1 as a string")
    if isinstance(value, str):
        if _DECIMAL.fullmatch(value):
            return int(value)
        if _HEX.fullmatch(value):
            return int(value, 16)
    raise invalid(f"Invalid {what}: {shown(value)}")


def amount(value: Any, what: str = "amount") -> int:
    """An amount of the full uint256 range.

    Raises:
        ToolFailure: `invalid_arguments`, it is no integer, negative or too large.
    """
    number = integer(value, what)
    if not 0 <= number <= UINT256:
        raise invalid(f"Invalid {what}: {number} is out of range for uint256")
    return number


def to_wei(text: str, unit: str = "ether") -> int:
    """An amount in a unit such as `gwei` as wei, exactly.

    Raises:
        ToolFailure: `invalid_arguments`, no such unit, no number, or finer than a wei.
    """
    with localcontext(prec=120):
        try:
            wei = Decimal(text).scaleb(_power(unit))
        except (InvalidOperation, ValueError):
            raise invalid(f"Invalid amount: {shown(text)}") from None
        if not wei.is_finite() or wei != wei.to_integral_value():
            raise invalid(f"Invalid amount: {shown(text)} {unit} is no whole number of wei")
        return amount(str(int(wei)))


def from_wei(wei: int, unit: str = "ether") -> str:
    """Wei as a decimal number of a unit, without trailing zeros.

    Raises:
        ToolFailure: `invalid_arguments`, no such unit.
    """
    with localcontext(prec=120):
        text = f"{Decimal(wei).scaleb(-_power(unit)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _power(unit: str) -> int:
    if unit.lower() not in UNITS:
        raise invalid(f"Unknown unit: {shown(unit)}", f"known: {', '.join(UNITS)}")
    return UNITS[unit.lower()]


def block_id(value: Any) -> Any:
    """None, a tag, `{"number": n}` or `{"hash": h}`.

    Raises:
        ToolFailure: `invalid_arguments`, it is no block.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= SAFE_INTEGER:
        return {"number": value}
    text = value.strip() if isinstance(value, str) else ""
    if text.lower() in TAGS:
        return text.lower()
    if _HASH.fullmatch(text):
        return {"hash": text.lower()}
    if re.fullmatch(r"[0-9]{1,18}", text):
        return {"number": int(text)}
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
        return {"number": int(text, 16)}
    raise invalid(f"Invalid block identifier '{shown(value)}'. Use a number, a 0x-prefixed hash, or 'latest'")


def block_param(value: Any) -> Any:
    """A block as a node's methods take it (EIP-1898 for a hash)."""
    match block_id(value):
        case None:
            return "latest"
        case {"number": int(number)}:
            return hex(number)
        case {"hash": str(hash)}:
            return {"blockHash": hash}
        case tag:
            return tag


def tx_hash(text: Any) -> str:
    """The hash of a transaction, in lower case.

    Raises:
        ToolFailure: `invalid_arguments`, it is none.
    """
    if not isinstance(text, str) or not _HASH.fullmatch(text):
        raise invalid(f"Invalid transaction hash '{shown(text)}'", "It is 0x and 64 hex digits.")
    return text.lower()


def calldata(text: Any) -> str:
    """Calldata in lower case; hex without its 0x is taken too.

    Raises:
        ToolFailure: `invalid_arguments`, it is no hex.
    """
    value = text if isinstance(text, str) else ""
    digits = value[2:] if value[:2] in ("0x", "0X") else value
    if not isinstance(text, str) or not re.fullmatch(r"(?:[0-9a-fA-F]{2})*", digits):
        raise invalid("Calldata must be a 0x-prefixed hex string", "Use the output of encode_function_call verbatim.")
    return "0x" + digits.lower()


def clean(text: Any, longest: int = 300) -> str:
    """Foreign text without control characters and marks that turn the direction of writing, cut to a length."""
    cleaned = _CONTROL.sub("", text if isinstance(text, str) else str(text))
    return cleaned if len(cleaned) <= longest else cleaned[: longest - 3] + "..."


def shown(value: Any) -> str:
    """A wrong value as a message shows it."""
    return clean(value, 100)


def quantity(value: Any) -> int | None:
    """A quantity of a node's answer, or None where it gave none."""
    try:
        return int(value, 16) if isinstance(value, str) else None
    except ValueError:
        return None
