"""What chains are called."""

from __future__ import annotations

from typing import Any

from toolcrib.chain.values import invalid, shown

IDS = {
    "mainnet": 1,
    "ethereum": 1,
    "eth": 1,
    "goerli": 5,
    "sepolia": 11155111,
    "polygon": 137,
    "matic": 137,
    "arbitrum": 42161,
    "arb": 42161,
    "optimism": 10,
    "op": 10,
    "base": 8453,
}
_NAMES = {IDS[name]: name for name in ("ethereum", "goerli", "sepolia", "polygon", "arbitrum", "optimism", "base")}
LARGEST = 2**53 - 1


def chain_id(name: Any) -> int:
    """The id of a chain by a name that everybody knows, or by its decimal id.

    Raises:
        ToolFailure: `invalid_arguments`, nobody knows it.
    """
    text = str(name).strip().lower()
    if text in IDS:
        return IDS[text]
    if text.isascii() and text.isdigit() and 0 < int(text[:20]) <= LARGEST:
        return int(text)
    raise invalid(f"Unsupported network: {shown(name)}")


def chain_name(id: int) -> str:
    """What everybody calls a chain."""
    return _NAMES.get(id, f"chain_{id}")
