"""What asks the user's wallet to sign: validate, check limits, simulate, ask, settle, in this order."""

from __future__ import annotations

import re
from typing import Any

from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.toolkits.chain.chains import ChainKit, Chains, Settings, as_chains, chain_kit, user_chain
from toolcrib.toolkits.chain.ethereum import HOLDER
from toolcrib.toolkits.chain.proposals import Desk, Proposed, sender_of
from toolcrib.toolkits.chain.simulate import Call
from toolcrib.toolkits.chain.values import address, amount, invalid
from toolcrib.types import AntiPattern, Example

TIMEOUT_S = 300


def tools(chains: Settings) -> ChainKit:
    """`send_transaction_to_wallet`.

    Raises:
        BadChain: a setting does not hold.
    """
    made = _Wallet(as_chains(chains))
    said: dict[str, Any] = {
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
    return chain_kit("wallet", made.chains, [(made.send_transaction_to_wallet, said)])


class _Wallet:
    """The tool, with the chains that it may propose on."""

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
        # The user may have switched chain and wallet since; what was asked for is what counts.
        desk = Desk(self.chains, self.chains.pick(ctx, request["chain_id"]), ctx, request["from"])
        hashes = await desk.ask("tx", request, f"Sign in the wallet: {description}")
        settled = await ctx.step("settled", lambda: desk.settle(request, hashes))
        if "failure" in settled:
            told = {"tx_hash": hashes[0], "pending": settled.get("pending", False)}
            raise ToolFailure(**settled["failure"], retryable=False, metadata=told)
        return {"status": "confirmed", **settled["mined"][0]}

    async def _request(self, ctx: Context, proposed: Proposed) -> dict[str, Any]:
        sender, chain = sender_of(ctx), self.chains.pick(ctx, user_chain(ctx))
        return await Desk(self.chains, chain, ctx, sender).request("tx", [proposed])


def _proposed(to: str, value: Any, data: str, description: str, gas_limit: Any) -> Proposed:
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
    return Proposed(Call(target, wei, _data(data)), description, None, gas)


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
