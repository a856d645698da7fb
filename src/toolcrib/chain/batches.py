"""Several calls that a wallet carries out as one: `wallet_sendCalls` of EIP-5792, where the wallet says that it can.

What is mined then is a transaction of the wallet's own making. It is held against what was approved by the calls inside
of it: smart accounts hand them on in one of two well-known forms, whatever is wrapped around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.chain.abi import encode
from toolcrib.chain.signatures import parse_types
from toolcrib.chain.values import quantity

VERSION = "2.0.0"
CONFIRMED, NOT_SENT = 200, 400
ENDED = (CONFIRMED, NOT_SENT, 500, 600)
"""The statuses of `wallet_getCallsStatus` after which nothing more happens."""

ALL_CHAINS = 0


@dataclass(frozen=True, slots=True)
class SentBatch:
    """What a wallet sent: one transaction a call, or `together` as it saw fit; `status` is what it says of it."""

    hashes: list[str]
    together: bool = False
    status: int = CONFIRMED


def send_calls(user: Mapping[str, Any], chain: int, transactions: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the parameter of `wallet_sendCalls`; None if the wallet's `wallet_getCapabilities` are not known."""
    capabilities = user.get("capabilities")
    entries = capabilities.items() if isinstance(capabilities, Mapping) else ()
    mine = {quantity(id): can for id, can in entries if isinstance(can, Mapping)}
    if mine.keys().isdisjoint((ALL_CHAINS, chain)):
        return None
    atomic = {**mine.get(ALL_CHAINS, {}), **mine.get(chain, {})}.get("atomic")
    status = atomic.get("status") if isinstance(atomic, Mapping) else None
    return {
        "version": VERSION,
        "chainId": hex(chain),
        "from": transactions[0]["from"],
        "atomicRequired": len(transactions) > 1 and status in ("supported", "ready"),
        "calls": [{name: one[name] for name in ("to", "value", "data")} for one in transactions],
    }


def answers() -> dict[str, Any]:
    """The reply of `wallet_getCallsStatus` once it is final, as an answer may hold it."""
    hash = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
    receipt = {"type": "object", "required": ["transactionHash"], "properties": {"transactionHash": hash}}
    receipts = {"type": "array", "items": receipt, "minItems": 1, "maxItems": 100}
    properties = {"id": {"type": "string"}, "status": {"enum": list(ENDED)}, "atomic": {"type": "boolean"}}
    unsent = {"properties": {"status": {"const": NOT_SENT}}}
    sent = {"required": ["receipts"], "properties": {"receipts": receipts}}
    return {"type": "object", "required": ["id", "status"], "properties": properties, "anyOf": [unsent, sent]}


def sent_of(data: Mapping[str, Any], count: int) -> SentBatch:
    """What a final status tells."""
    hashes = list(dict.fromkeys(one["transactionHash"].lower() for one in data.get("receipts") or ()))
    return SentBatch(hashes, bool(data.get("atomic")) or len(hashes) != count, data["status"])


def difference(mined: Sequence[Mapping[str, Any]], request: Mapping[str, Any]) -> str | None:
    """Return what the transactions of a batch lack of what was approved: chain, account or calls; else None."""
    inputs = [str(one.get("input")).lower() for one in mined]
    account = request["from"][2:].lower()
    if any(quantity(one.get("chainId")) != request["chain_id"] for one in mined):
        return "chainId"
    texts = [f"{one.get('from')}{one.get('to')}{text}".lower() for one, text in zip(mined, inputs, strict=True)]
    if not any(account in text for text in texts):
        return "from"
    return None if any(form in text for form in _forms(request["transactions"]) for text in inputs) else "calls"


def _forms(transactions: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The calls as ERC-7821, ERC-7579 and most smart accounts take them, and packed as a Safe does."""
    calls = [[one["to"], str(int(one["value"], 16)), one["data"]] for one in transactions]
    listed = encode(parse_types("(address,uint256,bytes)[]"), [calls])[32:].hex()
    packed = "".join(
        f"00{to[2:].lower()}{int(value):064x}{len(data) // 2 - 1:064x}{data[2:]}" for to, value, data in calls
    )
    return listed, packed
