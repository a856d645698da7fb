"""Typed data of EIP-712: read strictly, hashed as wallets hash it, and looked at for permits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.chain.abi import encode
from toolcrib.chain.limits import INFINITE
from toolcrib.chain.signatures import leaf
from toolcrib.chain.values import address, amount, integer, invalid, keccak, shown
from toolcrib.errors import ToolFailure

DOMAIN = "EIP712Domain"
DOMAIN_FIELDS = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
    "salt": "bytes32",
}
LARGEST, DEEPEST, MOST = 100_000, 16, 100
UINT160_INFINITE = 2**159
"""Permit2 counts in 160 bits."""

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,99}")
_KIND = re.compile(r"([A-Za-z_$][A-Za-z0-9_$]{0,99})((?:\[[0-9]{0,6}\])*)")

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Typed:
    """Typed data that holds: every value is one of its type."""

    types: Mapping[str, Fields]
    primary: str
    domain: Mapping[str, Any]
    message: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """What is signed."""
        whole = b"\x19\x01" + self._struct(DOMAIN, self.domain) + self._struct(self.primary, self.message)
        return "0x" + keccak(whole).hex()

    @property
    def chain_id(self) -> int | None:
        """The chain that it is for."""
        return integer(self.domain["chainId"], "chainId") if "chainId" in self.domain else None

    @property
    def contract(self) -> str | None:
        """The contract that checks the signature."""
        return address(self.domain["verifyingContract"]) if "verifyingContract" in self.domain else None

    def as_json(self) -> dict[str, Any]:
        """The form that `eth_signTypedData_v4` takes."""
        types = {name: [{"name": field, "type": kind} for field, kind in some] for name, some in self.types.items()}
        return {"types": types, "primaryType": self.primary, "domain": self.domain, "message": self.message}

    def _struct(self, name: str, values: Any, depth: int = 0) -> bytes:
        fields = self.types[name]
        if depth > DEEPEST:
            raise invalid(f"Invalid typed data: deeper than {DEEPEST}")
        if not isinstance(values, Mapping) or set(values) != {field for field, _ in fields}:
            raise invalid(f"Invalid typed data: the fields of {name} are {', '.join(field for field, _ in fields)}")
        return keccak(
            keccak(self._text(name).encode())
            + b"".join(self._word(kind, values[field], f"{name}.{field}", depth) for field, kind in fields)
        )

    def _text(self, name: str) -> str:
        """Return a type with all the types it refers to, in the order that is hashed."""
        names, open_now = {name}, [name]
        while open_now:
            inner = {kind.partition("[")[0] for _, kind in self.types[open_now.pop()]} & self.types.keys()
            open_now += inner - names
            names |= inner
        ordered = [name, *sorted(names - {name})]
        return "".join(f"{one}({','.join(f'{kind} {field}' for field, kind in self.types[one])})" for one in ordered)

    def _word(self, kind: str, value: Any, where: str, depth: int) -> bytes:
        """The 32 bytes that stand for a value."""
        if kind.endswith("]"):
            item, _, length = kind[:-1].rpartition("[")
            if not isinstance(value, list) or (length and len(value) != int(length)):
                raise invalid(f"Invalid typed data: {where} must be an array {kind}")
            return keccak(b"".join(self._word(item, one, where, depth + 1) for one in value))
        if kind in self.types:
            return self._struct(kind, value, depth + 1)
        if kind == "bool" and not isinstance(value, bool):
            raise invalid(f"Invalid typed data: {where} must be true or false")  # to a wallet any other text is true
        try:
            whole = encode([leaf(kind)], [value])
        except ToolFailure as error:
            raise invalid(f"Invalid typed data: {where}: {error.message}", error.hint) from None
        if kind not in ("string", "bytes"):
            return whole
        return keccak(value.encode() if kind == "string" else bytes.fromhex(value[2:]))


def read(data: Any) -> Typed:
    """Typed data, as an object or as a string that holds JSON.

    Raises:
        ToolFailure: `invalid_arguments`, saying what does not hold.
    """
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            raise invalid("Invalid typed data: it is no JSON") from None
    if len(json.dumps(data)) > LARGEST:
        raise invalid(f"Invalid typed data: more than {LARGEST} characters")
    match data:
        case {"types": dict(types), "primaryType": str(primary), "domain": dict(domain), "message": dict(message)}:
            fields = {str(name): _fields(name, some) for name, some in types.items()}
            fields.setdefault(DOMAIN, tuple((name, kind) for name, kind in DOMAIN_FIELDS.items() if name in domain))
        case _:
            raise invalid("Invalid typed data: it needs types, primaryType, domain and message")
    if primary not in fields or primary == DOMAIN:
        raise invalid(f"Invalid typed data: there is no type {shown(primary)}")
    wrong = [kind for some in fields.values() for _, kind in some if not _known(kind, fields)]
    if wrong or len(fields) > MOST:
        raise invalid(
            f"Invalid typed data: unknown type {shown(wrong[0])}" if wrong else "Invalid typed data: too many"
        )
    if any(DOMAIN_FIELDS.get(name) != kind for name, kind in fields[DOMAIN]):
        raise invalid(f"Invalid typed data: {DOMAIN} has other fields than {', '.join(DOMAIN_FIELDS)}")
    made = Typed(fields, primary, domain, message)
    assert made.digest  # every value was read
    return made


def _fields(name: Any, value: Any) -> Fields:
    match value:
        case [*some] if _NAME.fullmatch(str(name)):
            fields = tuple((str(one.get("name")), str(one.get("type"))) for one in some if isinstance(one, Mapping))
            names = [field for field, _ in fields]
            if len(fields) == len(some) == len(set(names)) and all(map(_NAME.fullmatch, names)):
                return fields
    raise invalid(f"Invalid typed data: the type {shown(name)} is a list of {{name, type}}")


def _known(kind: str, types: Mapping[str, Fields]) -> bool:
    match = _KIND.fullmatch(kind)
    # Other spellings, such as `uint`, would be hashed otherwise by some wallets.
    return match is not None and (
        match[1] in types or (leaf(match[1]).problem is None and leaf(match[1]).text == match[1])
    )


def permits(typed: Typed) -> list[dict[str, Any]]:
    """Return what a signature lets somebody else spend: permits of ERC-2612, DAI and Permit2."""
    message, names = typed.message, set(typed.message)
    if not names >= {"spender"}:
        return []
    if names >= {"owner", "value", "deadline"}:
        return [_permit(typed, typed.contract, message["value"], INFINITE)]
    if names >= {"holder", "allowed"}:
        return [_permit(typed, typed.contract, str(2**256 - 1) if message["allowed"] else "0", INFINITE)]
    details = message.get("details", message.get("permitted"))
    listed = details if isinstance(details, list) else [details]
    limit = UINT160_INFINITE if "details" in message else INFINITE
    return [
        _permit(typed, one["token"], one["amount"], limit)
        for one in listed
        if isinstance(one, Mapping) and {"token", "amount"} <= set(one)
    ]


def _permit(typed: Typed, token: Any, units: Any, infinite: int) -> dict[str, Any]:
    many = amount(units)
    return {
        "function": typed.primary,
        "token": None if token is None else address(token),
        "spender": address(typed.message["spender"]),
        "amount": str(many),
        "infinite": many >= infinite,
    }
