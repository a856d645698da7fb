"""The chain at a glance, calldata, verified contracts and ERC-20 balances. Everything only reads."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any, Literal

from toolcrib.chain import contracts
from toolcrib.chain.abi import decode, encode_call
from toolcrib.chain.chain_names import chain_id, chain_name
from toolcrib.chain.chains import Chain, ChainKit, Chains, Settings, as_chains, chain_kit
from toolcrib.chain.explorers import Contract
from toolcrib.chain.rpc import Reverted, Rpc, together
from toolcrib.chain.signatures import functions, parse_signature, parse_types
from toolcrib.chain.tokens import decimals_of, symbol_of, view
from toolcrib.chain.values import ZERO, address, block_param, calldata, from_wei, invalid, keccak, to_wei
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.toolkits.collection import FunctionEntry
from toolcrib.types import AntiPattern, Example

__all__ = ["Chain", "Chains", "address", "chain_id", "chain_name", "from_wei", "to_wei", "tools"]

REGISTRY = "0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e"
"""The registry of ENS names, on chain 1."""
USDC, HOLDER = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "0x742D35cc6634C0532925a3b844bC9e7595f33749"
ADDRESS = AntiPattern("Invalid address", "Copy an address as it was given: 0x and 40 hex digits. Never make one up.")
CHAIN = AntiPattern("is not supported", "Use a chain that get_time_and_onchain_context lists.")
_COUNT = AntiPattern("Argument count mismatch", "Give one argument for each type of the signature; a tuple is one.")
_LARGE = AntiPattern("above 2^53-1", "Write large integers as decimal strings.")
_UNVERIFIED = AntiPattern(contracts.UNVERIFIED, "Nobody published its source; ask the user for an ABI.")


def tools(chains: Settings) -> ChainKit:
    """`get_time_and_onchain_context`, `encode_function_call`, `decode_abi`, `get_contract_abi` and more.

    Raises:
        BadChain: a setting does not hold.
    """
    made = _Ethereum(as_chains(chains))
    data: dict[str, Any] = {"read_only": True, "open_world": True, "timeout": 60}
    at = {"address": USDC, "chain_id": 1}
    looking: dict[str, Any] = {**data, "anti_patterns": [ADDRESS, CHAIN, _UNVERIFIED], "output_bytes": 4_000_000}
    functions: list[FunctionEntry] = [
        (made.get_time_and_onchain_context, {**data, "repeat": None, "examples": [Example({}, "Where are we?")]}),
        (made.encode_function_call, {**data, "open_world": False, "timeout": 5, **_ENCODING}),
        (made.decode_abi, {**data, "open_world": False, "timeout": 5, **_DECODING}),
        (made.get_contract_abi, {**looking, "examples": [Example({**at, "format": "signatures"})]}),
        (made.get_contract_source_code, {**looking, "examples": [Example(at)]}),
        (made.get_contract_from_etherscan, {**looking, "examples": [Example(at)]}),
        (made.get_erc20_balance, {**data, "anti_patterns": [ADDRESS, CHAIN], **_BALANCE}),
        (made.resolve_name, {**data, **_NAMES}),
    ]
    return chain_kit("ethereum", made.chains, functions)


_ENCODING: dict[str, Any] = {
    "examples": [
        Example({"function_signature": "transfer(address,uint256)", "arguments": [HOLDER, "1000000"]}, "Pay 1 USDC"),
        Example(
            {"function_signature": "f((address,uint256)[],string)", "arguments": [[[HOLDER, "1"]], "hi"]}, "Tuples"
        ),
    ],
    "anti_patterns": [ADDRESS, _COUNT, _LARGE],
}
_DECODING: dict[str, Any] = {
    "examples": [Example({"types": "uint256", "data": "0x" + "0" * 63 + "5"})],
    "anti_patterns": [
        AntiPattern("cannot be decoded", "Check the types; calldata needs function_signature, return data types.")
    ],
}
_BALANCE: dict[str, Any] = {
    "examples": [Example({"chain_id": 1, "token_address": USDC, "holder_address": HOLDER}, "USDC of an account")]
}
_NAMES: dict[str, Any] = {
    "examples": [Example({"name": "vitalik.eth"})],
    "anti_patterns": [AntiPattern("No address", "Ask the user for the address; do not guess it.")],
}


class _Ethereum:
    """The tools, with the chains that they read."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains

    async def get_time_and_onchain_context(self, ctx: Context) -> dict[str, Any]:
        """Tell the current time, the current chain, its newest block and gas price, and which chains are supported."""
        chain, now = self.chains.pick(ctx), int(time.time())
        rpc = self.chains.node(chain, "eth_blockNumber", "eth_gasPrice")
        block, price, error = None, None, None
        try:
            block, price = await together(rpc.number("eth_blockNumber"), rpc.number("eth_gasPrice"))
        except ToolFailure as failure:
            error = failure.message
        return {
            "chain_name": chain.name,
            "chain_id": chain.id,
            "current_time_unix": now,
            "current_time_iso": datetime.fromtimestamp(now, UTC).isoformat(),
            "block_number": block,
            "gas_price_wei": None if price is None else str(price),
            "supported_chains": [
                {"name": one.name, "chain_id": one.id, "is_local": one.local} for one in self.chains.all.values()
            ],
            **({} if error is None else {"error": error}),
        }

    async def encode_function_call(self, function_signature: str, arguments: list[Any]) -> str:
        """Encode a call of a contract's function as calldata.

        Args:
            function_signature: The function, such as transfer(address,uint256).
            arguments: Its arguments in order; large integers as decimal strings, arrays and tuples as arrays.
        """
        return encode_call(function_signature, arguments)

    async def decode_abi(
        self, data: str, types: str | None = None, function_signature: str | None = None
    ) -> dict[str, Any]:
        """Decode data that a contract takes or gives.

        Args:
            data: The data as 0x hex; calldata with its selector where a function_signature is given.
            types: The types of the data, such as uint256,(address,bytes)[].
            function_signature: The function whose calldata it is, in place of types.
        """
        if (types is None) == (function_signature is None):
            raise invalid("Give either types or function_signature")
        raw = calldata(data)
        if function_signature is None:
            return {"values": decode(parse_types((types or "").strip().removeprefix("(").removesuffix(")")), raw)}
        signature = parse_signature(function_signature)
        if raw[2:10] != signature.selector.hex():
            raise invalid(f"The data is no call of {signature.text}: its selector is 0x{signature.selector.hex()}")
        return {"values": decode(signature.inputs, raw[10:])}

    async def get_contract_abi(  # noqa: PLR0913 - the ways to say which contract
        self,
        ctx: Context,
        address: str | None = None,
        chain_id: int | None = None,
        name: str | None = None,
        symbol: str | None = None,
        protocol: str | None = None,
        contract_type: str | None = None,
        version: str | None = None,
        format: Literal["json", "signatures"] = "json",
    ) -> dict[str, Any]:
        """Get the ABI of a verified contract; without an address, search the contracts that were looked at before.

        Args:
            address: The contract.
            chain_id: Its chain; without it the user's.
            name: Part of its name.
            symbol: The symbol of a token.
            protocol: Part of its name, such as Uniswap.
            contract_type: Part of its name, such as Router.
            version: Part of its name, such as V2.
            format: The ABI as json, or only the signatures of its functions.
        """
        wanted = {"name": name, "symbol": symbol, "protocol": protocol, "contract_type": contract_type}
        matches = await self._lookup(ctx, address, chain_id, {**wanted, "version": version})
        shown = [
            {**about, "abi": functions(one["abi"]) if format == "signatures" else one["abi"]} for about, one in matches
        ]
        return _listed(shown)

    async def get_contract_source_code(  # noqa: PLR0913 - the ways to say which contract
        self,
        ctx: Context,
        address: str | None = None,
        chain_id: int | None = None,
        name: str | None = None,
        symbol: str | None = None,
        protocol: str | None = None,
        contract_type: str | None = None,
        version: str | None = None,
    ) -> dict[str, Any]:
        """Get the source code of a verified contract; without an address, search what was looked at before.

        Args:
            address: The contract.
            chain_id: Its chain; without it the user's.
            name: Part of its name.
            symbol: The symbol of a token.
            protocol: Part of its name, such as Uniswap.
            contract_type: Part of its name, such as Router.
            version: Part of its name, such as V2.
        """
        wanted = {"name": name, "symbol": symbol, "protocol": protocol, "contract_type": contract_type}
        matches = await self._lookup(ctx, address, chain_id, {**wanted, "version": version})
        return _listed([{**about, "source_code": one["source_code"]} for about, one in matches])

    async def get_contract_from_etherscan(
        self, ctx: Context, address: str, chain_id: int | None = None
    ) -> dict[str, Any]:
        """Get ABI and source code of a contract from Etherscan, whatever others have of it.

        Args:
            address: The contract.
            chain_id: Its chain; without it the user's.
        """
        if self.chains.etherscan is None:
            raise ToolFailure("unavailable", "No key for Etherscan is set", retryable=False)
        chain, where = self.chains.pick(ctx, chain_id), _address(address)
        contract = await contracts.find(self.chains, chain, where, etherscan_only=True)
        about = await contracts.described(self.chains, chain, where, contract)
        return _listed([{**about, "abi": contract["abi"], "source_code": contract["source_code"]}])

    async def _lookup(
        self, ctx: Context, address: str | None, chain_id: int | None, wanted: dict[str, str | None]
    ) -> list[tuple[dict[str, Any], Contract]]:
        chain = self.chains.pick(ctx, chain_id)
        # Models put the address into whatever field looks like it.
        misplaced = next((text for text in wanted.values() if text and re.fullmatch(r"0x[0-9a-fA-F]{40}", text)), None)
        where = _address(address or misplaced) if address or misplaced else ZERO
        if where != ZERO:
            contract = await contracts.find(self.chains, chain, where)
            return [(await contracts.described(self.chains, chain, where, contract), contract)]
        matches = contracts.known(self.chains, chain.id, **wanted) if any(wanted.values()) else ()
        return [(await contracts.described(self.chains, chain, at, one), one) for at, one in matches]

    async def get_erc20_balance(
        self,
        ctx: Context,
        token_address: str,
        holder_address: str,
        chain_id: int | None = None,
        tag: str = "latest",
    ) -> dict[str, Any]:
        """Get how much of an ERC-20 token an account holds, in the token's smallest unit.

        Args:
            token_address: The token's contract.
            holder_address: Who holds it.
            chain_id: The chain; without it the user's.
            tag: A block: latest, safe, finalized, earliest, pending, a number or a hash.
        """
        chain, token, holder = self.chains.pick(ctx, chain_id), _address(token_address), _address(holder_address)
        rpc, block = self.chains.node(chain, "eth_call", "eth_getCode"), block_param(tag)
        try:
            data, symbol, decimals = await together(
                view(rpc, token, "balanceOf(address)", holder, block=block),
                symbol_of(rpc, token),
                decimals_of(rpc, token),
            )
        except Reverted as error:
            raise ToolFailure("failed", contracts.why(self.chains, chain, token, error), retryable=False) from None
        if data in ("0x", ""):
            raise await _no_token(rpc, token, block)
        return {
            "chain_id": chain.id,
            "token_address": token,
            "holder_address": holder,
            "balance": decode(parse_types("uint256"), data)[0],
            "symbol": symbol,
            "decimals": decimals,
            "tag": tag,
        }

    async def resolve_name(self, ctx: Context, name: str) -> dict[str, Any]:
        """Find the address that an ENS name stands for.

        Args:
            name: The name, such as vitalik.eth.
        """
        chain, plain = self.chains.pick(ctx, 1), name.strip().lower()
        if not re.fullmatch(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63}){1,9}", plain):
            raise invalid("Invalid name: use letters, digits and hyphens, with a dot", "An address needs no resolving.")
        rpc, node = self.chains.node(chain, "eth_call"), "0x" + namehash(plain).hex()
        resolver = _last_address(await view(rpc, REGISTRY, "resolver(bytes32)", node))
        address = _last_address(await view(rpc, resolver, "addr(bytes32)", node)) if resolver else None
        if address is None:
            raise ToolFailure("not_found", f"No address for {plain}")
        return {"name": plain, "address": address, "chain_id": chain.id}


_address = address


def _listed(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"found": bool(entries), "count": len(entries), "contracts": entries}


async def _no_token(rpc: Rpc, token: str, block: Any) -> ToolFailure:
    """Why a call gave nothing: there is no contract, or it is no token."""
    if await rpc.data("eth_getCode", token, block) == "0x":
        return ToolFailure("not_found", f"No contract at {token}", hint="Is it the right chain?")
    return ToolFailure("failed", f"The contract at {token} is no ERC-20 token", retryable=False)


def namehash(name: str) -> bytes:
    """What the registry knows a name by (EIP-137)."""
    node = bytes(32)
    for label in reversed(name.split(".")):
        node = keccak(node + keccak(label.encode()))
    return node


def _last_address(data: str) -> str | None:
    if len(data) != 66:
        return None
    last = address("0x" + data[-40:])
    return None if last == ZERO else last
