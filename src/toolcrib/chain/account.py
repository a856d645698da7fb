"""Accounts: what they hold, and what they did. Everything only reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from toolcrib.chain.chains import Chain, ChainKit, Chains, Settings, as_chains, chain_kit
from toolcrib.chain.ethereum import ADDRESS, CHAIN, HOLDER
from toolcrib.chain.explorers import PAGE
from toolcrib.chain.rpc import Rpc, together
from toolcrib.chain.values import address, quantity
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.types import AntiPattern, Example

FRESH_S = 60.0
BLOCKS, AT_ONCE = 1000, 8
_METHODS = ("eth_blockNumber", "eth_getBlockByNumber", "eth_getTransactionReceipt", "eth_getTransactionCount")

Transaction = dict[str, Any]


def tools(chains: Settings) -> ChainKit:
    """`get_account_info` and `get_account_transaction_history`.

    Raises:
        BadChain: a setting does not hold.
    """
    made = _Account(as_chains(chains))
    data: dict[str, Any] = {"read_only": True, "open_world": True, "timeout": 60}
    partial = AntiPattern("limits our requests", "Ask again later, or give current_nonce to use what is known.")
    functions = [
        (
            made.get_account_info,
            {**data, "anti_patterns": [ADDRESS, CHAIN], "examples": [Example({"address": HOLDER, "chain_id": 1})]},
        ),
        (
            made.get_account_transaction_history,
            {
                **data,
                "anti_patterns": [ADDRESS, CHAIN, partial],
                "examples": [Example({"address": HOLDER, "chain_id": 1, "limit": 10}, "The ten newest")],
            },
        ),
    ]
    return chain_kit("account", made.chains, functions)


class _Account:
    """The tools, with the chains that they read."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains

    async def get_account_info(self, ctx: Context, address: str, chain_id: int | None = None) -> dict[str, Any]:
        """Get an account's balance in wei, its nonce, and whether it is a contract.

        Args:
            address: The account.
            chain_id: The chain; without it the user's.
        """
        chain, where = self.chains.pick(ctx, chain_id), _address(address)
        rpc = self.chains.node(chain, "eth_getBalance", "eth_getTransactionCount", "eth_getCode")
        balance, nonce, code = await together(
            rpc.number("eth_getBalance", where, "latest"),
            rpc.number("eth_getTransactionCount", where, "latest"),
            rpc.data("eth_getCode", where, "latest"),
        )
        return {
            "address": where,
            "chain_id": chain.id,
            "balance": str(balance),
            "nonce": nonce,
            "is_contract": code != "0x",
        }

    async def get_account_transaction_history(
        self,
        ctx: Context,
        address: str,
        chain_id: int | None = None,
        current_nonce: int | None = None,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
        offset: Annotated[int, Field(ge=0, le=100_000)] = 0,
    ) -> dict[str, Any]:
        """Get the transactions of an account, newest first.

        Args:
            address: The account.
            chain_id: The chain; without it the user's.
            current_nonce: The account's nonce, if known: a higher one than at the last look has it looked at again.
            limit: How many at the most.
            offset: How many of the newest to leave out.
        """
        chain, where = self.chains.pick(ctx, chain_id), _address(address)
        if self.chains.etherscan is None or chain.local:
            transactions, complete = await self._recent(chain, where, current_nonce, offset + limit)
        else:
            transactions, complete = await self._listed(chain, where, current_nonce, offset + limit), True
        shown = transactions[offset : offset + limit]
        return {"transactions": shown, "count": len(shown), "chain_id": chain.id, "complete": complete}

    async def _listed(self, chain: Chain, where: str, nonce: int | None, wanted: int) -> list[Transaction]:
        """Return the newest transactions of an account from its explorer, page by page."""
        assert self.chains.etherscan is not None
        transactions: list[Transaction] = []
        for page in range(1, -(-wanted // PAGE) + 1):
            key = f"{chain.id}:{where}:{page}"
            rows = self._known(key, nonce)
            if rows is None:
                rows = [_of_etherscan(one) for one in await self.chains.etherscan.transactions(chain.id, where, page)]
                self.chains.cache.put("history", key, {"nonce": nonce, "rows": rows})
            transactions += rows
            if len(rows) < PAGE:
                break
        return transactions

    async def _recent(self, chain: Chain, where: str, nonce: int | None, wanted: int) -> tuple[list[Transaction], bool]:
        """The newest of an account by the last blocks, and whether that is all."""
        key = f"{chain.id}:{where}:{wanted}:recent"
        known = self._known(key, nonce)
        if known is None:
            rpc = self.chains.node(chain, *_METHODS)
            rows, complete = await _walk(rpc, where, wanted)
            known = {"rows": rows, "complete": complete}
            self.chains.cache.put("history", key, {"nonce": nonce, "rows": known})
        return known["rows"], known["complete"]

    def _known(self, key: str, nonce: int | None) -> Any:
        """Return cached rows, unless they are old or the account has acted since."""
        entry = self.chains.cache.get("history", key, FRESH_S)
        if entry is None or (
            nonce is not None and nonce > (entry[0]["nonce"] if entry[0]["nonce"] is not None else -1)
        ):
            return None
        return entry[0]["rows"]


_address = address


async def _walk(rpc: Rpc, where: str, wanted: int) -> tuple[list[Transaction], bool]:
    """Walk back block by block, several at once."""
    head = await rpc.number("eth_blockNumber")
    transactions: list[Transaction] = []
    last = max(-1, head - BLOCKS)
    for top in range(head, last, -AT_ONCE):
        numbers = range(top, max(last, top - AT_ONCE), -1)
        blocks = await together(*(rpc("eth_getBlockByNumber", hex(number), True) for number in numbers))
        for block in blocks:
            transactions += await _of_block(rpc, where, block)
        if len(transactions) >= wanted:
            return transactions, top - AT_ONCE < 0
    return transactions, last < 0


async def _of_block(rpc: Rpc, where: str, block: Any) -> list[Transaction]:
    """The transactions of a block that concern an account, newest first."""
    if not isinstance(block, Mapping):
        return []
    mine = where.lower()
    transactions = []
    for one in reversed(block.get("transactions") or ()):
        if not isinstance(one, Mapping):
            continue
        created = one.get("to") is None
        if mine not in (str(one.get("from")).lower(), str(one.get("to")).lower()) and not created:
            continue
        receipt = await rpc("eth_getTransactionReceipt", one.get("hash"))
        receipt = receipt if isinstance(receipt, Mapping) else {}
        if mine in (str(party).lower() for party in (one.get("from"), one.get("to"), receipt.get("contractAddress"))):
            transactions.append(_of_node(one, receipt, block))
    return transactions


def _of_node(one: Mapping[str, Any], receipt: Mapping[str, Any], block: Mapping[str, Any]) -> Transaction:
    return {
        "hash": one.get("hash"),
        "block_number": quantity(block.get("number")),
        "timestamp": quantity(block.get("timestamp")),
        "from_address": _party(one.get("from")),
        "to_address": _party(one.get("to")),
        "value": _text(one.get("value")),
        "gas": _text(one.get("gas")),
        "gas_price": _text(receipt.get("effectiveGasPrice") or one.get("gasPrice")),
        "gas_used": _text(receipt.get("gasUsed")),
        "is_error": quantity(receipt.get("status")) == 0,
        "input": one.get("input"),
        "contract_address": _party(receipt.get("contractAddress")),
    }


def _of_etherscan(one: Mapping[str, Any]) -> Transaction:
    return {
        "hash": one.get("hash") or None,
        "block_number": _number(one.get("blockNumber")),
        "timestamp": _number(one.get("timeStamp")),
        "from_address": _party(one.get("from")),
        "to_address": _party(one.get("to")),
        "value": one.get("value") or None,
        "gas": one.get("gas") or None,
        "gas_price": one.get("gasPrice") or None,
        "gas_used": one.get("gasUsed") or None,
        "is_error": one.get("isError") == "1",
        "input": one.get("input") or None,
        "contract_address": _party(one.get("contractAddress")),
    }


def _number(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and text.isdigit() else None


def _party(text: Any) -> str | None:
    try:
        return address(text) if text else None
    except ToolFailure:
        return None


def _text(value: Any) -> str | None:
    number = quantity(value)
    return None if number is None else str(number)
