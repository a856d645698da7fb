"""What asks the user's wallet to sign: validate, check limits, simulate, ask, settle, in this order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolcrib.chain import eip712
from toolcrib.chain.abi import encode_call
from toolcrib.chain.chains import Chain, ChainKit, Chains, Settings, as_chains, chain_kit, user_chain
from toolcrib.chain.ethereum import HOLDER
from toolcrib.chain.proposals import ProposalContext, ProposedCall, check_open, sender_of
from toolcrib.chain.rpc import Reverted, Rpc
from toolcrib.chain.simulation import SimulatedCall
from toolcrib.chain.values import address, amount, invalid
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.toolkits.collection import FunctionEntry
from toolcrib.types import AntiPattern, Example

TIMEOUT_S = 300
RECOVER = "0x" + "0" * 39 + "1"
"""The address at which every chain recovers who made a signature; so no such code is needed here."""

IS_VALID, VALID = "isValidSignature(bytes32,bytes)", "0x1626ba7e"
"""ERC-1271: how a contract says that a signature is its own."""


def tools(chains: Settings) -> ChainKit:
    """`send_transaction_to_wallet` and `sign_typed_data`.

    Raises:
        BadChain: a setting does not hold.
    """
    made = _Wallet(as_chains(chains))
    data: dict[str, Any] = {
        "capabilities": ("payments:initiate",),
        "effect": "idempotent",
        "open_world": True,
        "timeout": TIMEOUT_S,
        "examples": [Example({"to": HOLDER, "value": "1000", "data": "0x", "description": "Send 1000 wei"})],
        "anti_patterns": [
            AntiPattern("Invalid 'to'", "Copy an address as it was given; never make one up."),
            AntiPattern("No wallet connected", "Ask the user to connect a wallet."),
            AntiPattern("Rejected in the wallet", "The user said no; do not ask again unless they want it."),
            AntiPattern("Insufficient funds", "Tell the user what is missing, or propose a smaller amount."),
        ],
    }
    signing = {
        **data,
        "examples": [Example({"typed_data": _GREETING, "description": "Sign in"})],
        "anti_patterns": [
            *data["anti_patterns"][1:3],
            AntiPattern("Invalid typed data", "Copy the typed data as it was given, with all of its types."),
            AntiPattern("The typed data is for chain", "Ask the user to switch the wallet to that chain."),
        ],
    }
    functions: list[FunctionEntry] = [(made.send_transaction_to_wallet, data), (made.sign_typed_data, signing)]
    return chain_kit("wallet", made.chains, functions)


_GREETING = {
    "types": {"Greeting": [{"name": "text", "type": "string"}]},
    "primaryType": "Greeting",
    "domain": {"name": "Example", "chainId": 1},
    "message": {"text": "hello"},
}


class _Wallet:
    """The tools, with the chains that they may propose on."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains

    async def send_transaction_to_wallet(
        self,
        ctx: Context,
        to: str,
        value: str | int,
        data: str,
        description: str,
        gas_limit: str | int | None = None,
    ) -> dict[str, Any]:
        """Ask the user's wallet to sign and send a transaction, and wait until it is mined.

        Args:
            to: The recipient or contract.
            value: The amount in wei, as a decimal string; 0 for most calls of contracts.
            data: The calldata, as encode_function_call gives it; 0x for a plain transfer.
            description: One sentence for the user about what it does.
            gas_limit: A limit of gas, if it has to be another one than the simulation finds.
        """
        proposed = _proposed(to, value, data, description, gas_limit)
        request = await ctx.step("request", lambda: self._request(ctx, proposed))
        # The user may have switched chain and wallet since; the request counts.
        proposals = ProposalContext(self.chains, self.chains.pick(ctx, request["chain_id"]), ctx, request["from"])
        sent = await proposals.ask("tx", request, f"Sign in the wallet: {description}")
        settled = await ctx.step("settled", lambda: proposals.settle(request, sent))
        if "failure" in settled:
            metadata = {"tx_hash": sent.hashes[0], "pending": settled.get("pending", False)}
            raise ToolFailure(**settled["failure"], retryable=False, metadata=metadata)
        return {"status": "confirmed", **settled["mined"][0]}

    async def _request(self, ctx: Context, proposed: ProposedCall) -> dict[str, Any]:
        sender, chain = sender_of(ctx), self.chains.pick(ctx, user_chain(ctx))
        return await ProposalContext(self.chains, chain, ctx, sender).request("tx", [proposed])

    async def sign_typed_data(self, ctx: Context, typed_data: dict[str, Any] | str, description: str) -> dict[str, Any]:
        """Ask the user's wallet to sign typed data of EIP-712, such as a permit or an order. Nothing is sent.

        Args:
            typed_data: An object with types, primaryType, domain and message; its domain names the user's chain.
            description: One sentence for the user about what the signature is for.
        """
        data = eip712.read(typed_data)
        request = await ctx.step("request", lambda: self._typed_request(ctx, data, description))
        chain = self.chains.pick(ctx, request["chain_id"])
        proposals = ProposalContext(self.chains, chain, ctx, request["from"])
        value = await proposals.answer("typed", request, f"Sign in the wallet: {description}", _signatures(request))
        signature = value["signature"].lower()
        if not await ctx.step("checked", lambda: self._is_by(chain, request["from"], data.digest, signature)):
            raise ToolFailure("failed", f"The signature is not one of {request['from']}", retryable=False)
        return {"signature": signature, "from": request["from"], "digest": data.digest, "chain_id": chain.id}

    def _typed_request(self, ctx: Context, data: eip712.Typed, description: str) -> dict[str, Any]:
        sender, chain = sender_of(ctx), self.chains.pick(ctx, user_chain(ctx))
        if data.chain_id != chain.id:
            where = "no chain" if data.chain_id is None else f"chain {data.chain_id}"
            raise invalid(f"The typed data is for {where}, and the user is on chain {chain.id}")
        check_open(chain)
        warnings = eip712.permits(data)
        self.chains.limits.check_permits(data.contract, warnings)
        return {
            "type": "wallet_eip712_request",
            "chain_id": chain.id,
            "from": sender,
            "typed_data": data.as_json(),
            "description": description,
            "warnings": warnings,
            "expires_at": ProposalContext(self.chains, chain, ctx, sender).expires_at,
            "digest": data.digest,
        }

    async def _is_by(self, chain: Chain, who: str, digest: str, signature: str) -> bool:
        """True if an account, or a contract that is one, made a signature: the chain itself is asked."""
        rpc = self.chains.node(chain, "eth_call", "eth_getCode")
        if len(signature) == 132:
            r, s, v = signature[2:66], signature[66:130], int(signature[130:], 16)
            recovered = await rpc.data(
                "eth_call", {"to": RECOVER, "data": f"{digest}{v % 27 + 27:064x}{r}{s}"}, "latest"
            )
            if recovered[-40:] == who[2:].lower():
                return True
        return await _takes(rpc, who, digest, signature)


def _proposed(to: str, value: Any, data: str, description: str, gas_limit: Any) -> ProposedCall:
    try:
        target = address(to)
    except ToolFailure:
        raise invalid("Invalid 'to' address: must be a valid Ethereum address starting with 0x") from None
    try:
        wei = amount(value)
    except ToolFailure:
        raise invalid("Invalid 'value': must be a valid number in wei") from None
    try:
        gas = None if gas_limit is None else amount(gas_limit)
    except ToolFailure:
        raise invalid("Invalid 'gas_limit': must be a valid number") from None
    return ProposedCall(SimulatedCall(target, wei, _data(data)), description, None, gas)


def _data(text: str) -> str:
    if not text.startswith("0x"):
        raise invalid("Invalid 'data': must be valid hex data starting with 0x")
    wrong = re.search(r"[^0-9a-fA-F]", text[2:])
    if wrong is not None:
        what = f"non-hex character '{wrong[0]}' at index {wrong.start() + 2}"
        raise invalid(f"Invalid 'data': {what}. Use encode_function_call output verbatim.")
    if len(text) % 2:
        raise invalid("Invalid 'data': hex length must be even. Use encode_function_call output verbatim.")
    return text.lower()


async def _takes(rpc: Rpc, who: str, digest: str, signature: str) -> bool:
    """True if a contract accepts a signature as its own."""
    if await rpc.data("eth_getCode", who, "latest") == "0x":
        return False
    try:
        answer = await rpc.data("eth_call", {"to": who, "data": encode_call(IS_VALID, [digest, signature])}, "latest")
    except Reverted:
        return False
    return answer[:10] == VALID


def _signatures(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a wallet's answer; anything else is refused, and the question stays open."""
    properties = {"rejected": {"const": True}, "reason": {"type": "string"}, "digest": {"const": request["digest"]}}
    properties["signature"] = {"type": "string", "pattern": "^0x(?:[0-9a-fA-F]{2}){1,5000}$"}
    return {
        "type": "object",
        "properties": properties,
        "oneOf": [{"required": ["signature"]}, {"required": ["rejected"]}],
    }
