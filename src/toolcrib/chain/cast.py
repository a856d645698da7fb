"""Balances, code, calls, blocks and transactions of a chain; and sending on a development chain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from toolcrib.chain import contracts
from toolcrib.chain.abi import decode, encode_call
from toolcrib.chain.chains import Chain, ChainKit, Chains, Settings, as_chains, by_schema, chain_kit
from toolcrib.chain.ethereum import ADDRESS, CHAIN, HOLDER, USDC
from toolcrib.chain.limits import denied
from toolcrib.chain.rpc import Reverted, Rpc, Unreachable, together
from toolcrib.chain.signatures import parse_signature
from toolcrib.chain.simulation import SimulatedCall, is_ours, simulate
from toolcrib.chain.values import (
    ZERO,
    address,
    amount,
    block_id,
    block_param,
    calldata,
    invalid,
    quantity,
    shown,
    tx_hash,
)
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.toolkits.collection import FunctionEntry
from toolcrib.types import AntiPattern, Example

__all__ = ["block_id", "tools"]

_ARGUMENTS = AntiPattern("Argument count mismatch", "Give one argument for each type of the signature.")
_AWAY = AntiPattern("not available", "The node is away; try again later, or use another network.")
_DATA = AntiPattern("Calldata must be", "Use the output of encode_function_call verbatim, or function and args.")
_NETWORK = AntiPattern("Unsupported network", "Use a chain that get_time_and_onchain_context lists, by name or id.")
MINED_TRIES, PAUSE_S = 240, 0.05
SENDING = (
    "eth_sendTransaction",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
    "eth_getBlockByNumber",
    "eth_blockNumber",
    "web3_clientVersion",
)


def tools(chains: Settings) -> ChainKit:
    """`get_account_balance`, `call_view_function`, `simulate_contract_call`, blocks, transactions and more.

    `send_transaction` is there only if a chain is `local`.

    Raises:
        BadChain: a setting does not hold.
    """
    made = _Cast(as_chains(chains))
    wrong = [ADDRESS, CHAIN, _NETWORK, _AWAY]
    data: dict[str, Any] = {"read_only": True, "open_world": True, "timeout": 60, "anti_patterns": wrong}
    calling = {**data, "anti_patterns": [*wrong, _ARGUMENTS, _DATA]}
    who, what = {"address": HOLDER}, {"to": USDC, "function": "totalSupply()(uint256)"}
    functions: list[FunctionEntry] = [
        (made.get_account_balance, {**data, "examples": [Example({**who, "network": "ethereum"})]}),
        (made.get_contract_code, {**data, "examples": [Example({"address": USDC})], "output_bytes": 200_000}),
        (made.get_contract_code_size, {**data, "examples": [Example({"address": USDC})]}),
        by_schema(
            made.call_view_function,
            {**calling, "examples": [Example(what, "How much USDC there is")]},
            _CALLED,
            "to",
        ),
        by_schema(
            made.simulate_contract_call,
            {**calling, "examples": [Example(what, "What a call would do")]},
            _CALLED,
            "to",
        ),
        (made.get_transaction_details, {**data, "examples": [Example({"tx_hash": "0x" + "ab" * 32})]}),
        (made.get_block_details, {**data, "examples": [Example({"block": "latest", "field": "timestamp"})]}),
    ]
    if any(chain.local for chain in made.chains.all.values()):
        sending = {"effect": "once", "timeout": 60, "anti_patterns": wrong, "reconcile": made.reconcile}
        sending |= {"examples": [Example({"from": HOLDER, "to": USDC, "value": "1"})]}
        functions.append(by_schema(made.send_transaction, sending, _SENT, "from", "to"))
    return chain_kit("cast", made.chains, functions)


class _Cast:
    """The tools, with the chains that they read."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains

    async def get_account_balance(
        self, ctx: Context, address: str, block: int | str | None = None, network: int | str | None = None
    ) -> dict[str, Any]:
        """Get the balance of an account, in wei.

        Args:
            address: The account.
            block: A number, a hash, or latest, earliest, pending, safe, finalized.
            network: The chain, by name or id; without it the user's.
        """
        chain, where, at = self.chains.pick(ctx, network), _address(address), block_param(block)
        rpc = self.chains.node(chain, "eth_getBalance")
        balance = await _there(chain, rpc.number("eth_getBalance", where, at))
        return {"address": where, "balance": str(balance), "block": _named(block), "chain_id": chain.id}

    async def get_contract_code(self, ctx: Context, address: str, network: int | str | None = None) -> dict[str, Any]:
        """Get the code of a contract, as hex.

        Args:
            address: The contract.
            network: The chain, by name or id; without it the user's.
        """
        chain, where, code = await self._code(ctx, address, network)
        return {"address": where, "code": code, "size": len(code) // 2 - 1, "chain_id": chain.id}

    async def get_contract_code_size(
        self, ctx: Context, address: str, network: int | str | None = None
    ) -> dict[str, Any]:
        """Get how many bytes of code a contract has; 0 means that it is no contract.

        Args:
            address: The contract.
            network: The chain, by name or id; without it the user's.
        """
        chain, where, code = await self._code(ctx, address, network)
        return {"address": where, "size": len(code) // 2 - 1, "chain_id": chain.id}

    async def _code(self, ctx: Context, text: str, network: int | str | None) -> tuple[Chain, str, str]:
        chain, where = self.chains.pick(ctx, network), address(text)
        code = await _there(chain, self.chains.node(chain, "eth_getCode").data("eth_getCode", where, "latest"))
        return chain, where, code

    async def call_view_function(self, ctx: Context, values: dict[str, Any]) -> dict[str, Any]:
        """Call a function of a contract without sending anything, and get what it gives."""
        chain, call, sender = self._call(ctx, values)
        params = {"to": call.to, "value": hex(call.value), "data": call.data, **({"from": sender} if sender else {})}
        rpc = self.chains.node(chain, "eth_call")
        try:
            result = await _there(chain, rpc.data("eth_call", params, block_param(values.get("block"))))
        except Reverted as error:
            raise ToolFailure("failed", contracts.why(self.chains, chain, call.to, error), retryable=False) from None
        return {"result": result, **_decoded(values, result), "chain_id": chain.id}

    async def simulate_contract_call(self, ctx: Context, values: dict[str, Any]) -> dict[str, Any]:
        """Simulate a transaction: whether it would pass, what it would cost and what it would move."""
        chain, call, sender = self._call(ctx, values)
        simulation = await _there(chain, simulate(self.chains, chain, sender or user_address(ctx) or ZERO, [call]))
        one = simulation.outcomes[0]
        made: dict[str, Any] = {"ok": one.error is None, "result": one.result, "gas_used": str(one.gas_used)}
        made |= {"gas_limit": str(one.gas), "moves": list(one.moves), "chain_id": chain.id}
        return made | (_decoded(values, one.result) if one.error is None else {"error": one.error})

    def _call(self, ctx: Context, values: Mapping[str, Any]) -> tuple[Chain, SimulatedCall, str | None]:
        chain, to = self.chains.pick(ctx, values.get("network")), address(values["to"])
        function, data = values.get("function"), values.get("input")
        if function is not None and data not in (None, "", "0x"):
            raise invalid("Give either input or function, not both")
        made = calldata(data or "0x") if function is None else encode_call(function, values.get("args") or [])
        sender = values.get("from")
        return chain, SimulatedCall(to, amount(values.get("value") or "0", "value"), made), sender and address(sender)

    async def get_transaction_details(
        self, ctx: Context, tx_hash: str, field: str | None = None, network: int | str | None = None
    ) -> dict[str, Any]:
        """Get a transaction and its receipt, or one field of them.

        Args:
            tx_hash: The hash of the transaction.
            field: The name of a field, such as blockNumber or gasUsed; without it everything.
            network: The chain, by name or id; without it the user's.
        """
        chain, hash = self.chains.pick(ctx, network), _hash(tx_hash)
        rpc = self.chains.node(chain, "eth_getTransactionByHash", "eth_getTransactionReceipt")
        both = together(rpc("eth_getTransactionByHash", hash), rpc("eth_getTransactionReceipt", hash))
        transaction, receipt = await _there(chain, both)
        if not isinstance(transaction, Mapping):
            raise ToolFailure("not_found", "Transaction not found", hint="Is it the right chain?")
        if field is None:
            return {"transaction": transaction, "receipt": receipt, "chain_id": chain.id}
        everything = {**(receipt if isinstance(receipt, Mapping) else {}), **transaction}
        if field not in everything:
            raise invalid(f"Field '{shown(field)}' not found in transaction or receipt")
        return {"field": field, "value": everything[field], "chain_id": chain.id}

    async def get_block_details(
        self,
        ctx: Context,
        block: int | str = "latest",
        field: str | None = None,
        network: int | str | None = None,
    ) -> dict[str, Any]:
        """Get a block without the bodies of its transactions, or one field of it.

        Args:
            block: A number, a hash, or latest, earliest, pending, safe, finalized.
            field: The name of a field, such as timestamp; without it everything.
            network: The chain, by name or id; without it the user's.
        """
        chain, wanted = self.chains.pick(ctx, network), block_param(block)
        rpc = self.chains.node(chain, "eth_getBlockByNumber", "eth_getBlockByHash")
        by_hash = isinstance(wanted, Mapping)
        request = ("eth_getBlockByHash", wanted["blockHash"]) if by_hash else ("eth_getBlockByNumber", wanted)
        details = await _there(chain, rpc(*request, False))
        if not isinstance(details, Mapping):
            raise ToolFailure("not_found", "Block not found")
        if field is None:
            return {**details, "chain_id": chain.id}
        if field not in details:
            raise invalid(f"Field '{shown(field)}' not found in block data")
        return {"field": field, "value": details[field], "chain_id": chain.id}

    async def send_transaction(self, ctx: Context, values: dict[str, Any]) -> dict[str, Any]:
        """Send a transaction from an unlocked account of a local development chain."""
        chain, call, sender = self._call(ctx, values)
        rpc = await self._sending(chain)
        nonce = await ctx.step("nonce", lambda: rpc("eth_getTransactionCount", sender, "pending"))
        params = {"from": sender, "to": call.to, "value": hex(call.value), "data": call.data, "nonce": nonce}
        try:
            hash = await _there(chain, rpc("eth_sendTransaction", params))
        except Reverted as error:
            raise ToolFailure("failed", contracts.why(self.chains, chain, call.to, error), retryable=False) from None
        return await _mined(chain, rpc, hash)

    async def _sending(self, chain: Chain) -> Rpc:
        rpc = self.chains.node(chain, *SENDING)
        if not await _there(chain, is_ours(chain, rpc)):
            raise denied(f"Chain {chain.id} is no local development chain", "Use send_transaction_to_wallet.")
        return rpc

    async def reconcile(self, ctx: Context, **values: Any) -> dict[str, Any] | ToolFailure:
        """Finds out, by sender and nonce, whether a transaction was sent before the process died."""
        chain, _, sender = self._call(ctx, values)
        rpc = await self._sending(chain)
        known: list[Any] = []
        nonce = await ctx.step("nonce", lambda: known.append(None))
        head = 0 if known else quantity(await rpc("eth_blockNumber")) or 0
        for number in range(head, max(-1, head - 1000), -1) if not known else ():
            block = await rpc("eth_getBlockByNumber", hex(number), True)
            for one in block["transactions"]:
                if one["nonce"] == nonce and one["from"].lower() == str(sender).lower():
                    return await _mined(chain, rpc, one["hash"])
        return ToolFailure("failed", "The transaction was not sent", retryable=True)


_address, _hash = address, tx_hash
_NETWORK_FIELD = {
    "type": ["string", "integer", "null"],
    "description": "The chain, by name or id; without it the user's.",
}
_CALLED: dict[str, Any] = {
    "to": {"type": "string", "description": "The contract."},
    "from": {"type": ["string", "null"], "description": "Who calls."},
    "value": {"type": ["string", "integer"], "default": "0", "description": "Wei that is sent with it."},
    "input": {"type": ["string", "null"], "description": "Calldata as 0x hex, in place of function and args."},
    "function": {"type": ["string", "null"], "description": "A signature such as balanceOf(address)(uint256)."},
    "args": {"type": ["array", "null"], "description": "Its arguments; large integers as decimal strings."},
    "block": {"type": ["string", "integer", "null"], "description": "A number, a hash, or latest."},
    "network": _NETWORK_FIELD,
}
_SENT = {name: _CALLED[name] for name in ("from", "to", "value", "input", "network")}
_SENT |= {"from": {"type": "string", "description": "An unlocked account of the chain."}}


def _decoded(values: Mapping[str, Any], result: str) -> dict[str, Any]:
    """Decode the result where the signature names its output types."""
    types = parse_signature(values["function"]).outputs if values.get("function") else ()
    if not types:
        return {}
    try:
        decoded = decode(types, result)
    except ToolFailure as error:
        raise ToolFailure("failed", error.message, hint="Is it the right contract and function?") from None
    return {"decoded": decoded[0] if len(decoded) == 1 else decoded}


def user_address(ctx: Context) -> str | None:
    """The address of the user's connected wallet."""
    user: Mapping[str, Any] = ctx.user or {}
    return address(user["address"]) if user.get("isConnected") and user.get("address") else None


async def _mined(chain: Chain, rpc: Rpc, hash: str) -> dict[str, Any]:
    """Wait for a transaction: a development chain mines it soon, but not at once."""
    for _ in range(MINED_TRIES):
        receipt = await rpc("eth_getTransactionReceipt", hash)
        if isinstance(receipt, Mapping):
            status = "success" if quantity(receipt.get("status")) == 1 else "failed"
            summary = {"hash": hash, "status": status, "block_number": quantity(receipt.get("blockNumber"))}
            return {**summary, "chain_id": chain.id}
        await asyncio.sleep(PAUSE_S)
    return {"hash": hash, "status": "pending", "block_number": None, "chain_id": chain.id}


def _named(block: Any) -> Any:
    match block_id(block):
        case None:
            return "latest"
        case {"number": number}:
            return number
        case {"hash": hash}:
            return hash
        case tag:
            return tag


async def _there(chain: Chain, work: Awaitable[Any]) -> Any:
    """Wait for a node; report one that is away as a client that could not be created."""
    try:
        return await work
    except Unreachable:
        raise ToolFailure("unavailable", f"Cast client for '{chain.name}' not available", retryable=True) from None
