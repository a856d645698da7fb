"""From calls to a question that a wallet answers, and from its answer to what was mined.

The order stands in code: limits, simulation, limits on what it moves, funds; then the wallet is asked; then what was
mined is compared with the request. Nothing here signs or sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.chain import batches, contracts
from toolcrib.chain.abi import decode_call
from toolcrib.chain.batches import SentBatch
from toolcrib.chain.chains import Chain, Chains
from toolcrib.chain.limits import approval, bound, denied
from toolcrib.chain.rpc import Reverted, Rpc, together
from toolcrib.chain.signatures import Signature, parse_signature
from toolcrib.chain.simulation import SimulatedCall, Simulation, simulate
from toolcrib.chain.values import address, quantity, tx_hash
from toolcrib.context import Context
from toolcrib.errors import ToolFailure
from toolcrib.tool import digest_of
from toolcrib.types import Answer

EXPIRES_S, SETTLE_S = 15 * 60, 180.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
TIP = 10**9
REMEMBERED = 1000
READING = ("eth_getBalance", "eth_getTransactionCount", "eth_maxPriorityFeePerGas")
SETTLING = ("eth_getTransactionReceipt", "eth_getTransactionByHash", "eth_call")
NO_REASON = "reverted without data"
NO_WALLET = "No wallet connected. Please connect your wallet first."
_KNOWN = tuple(
    map(
        parse_signature,
        (
            "transfer(address to,uint256 amount)",
            "transferFrom(address from,address to,uint256 amount)",
            "approve(address spender,uint256 amount)",
            "setApprovalForAll(address operator,bool approved)",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call that somebody wants the user to sign."""

    call: SimulatedCall
    description: str = ""
    function: str | None = None
    gas: int | None = None


@dataclass(frozen=True, slots=True)
class SenderAccount:
    """What the sender has, and what its next transaction begins with."""

    balance: int
    nonce: int
    tip: int

    def check(self, needs: int) -> None:
        """Whether there is enough.

        Raises:
            ToolFailure: `failed`, there is not.
        """
        if needs > self.balance:
            message = f"Insufficient funds: needs {needs} wei, has {self.balance}"
            raise ToolFailure("failed", message, retryable=False)


def sender_of(ctx: Context) -> str:
    """The address of the user's wallet.

    Raises:
        ToolFailure: `unavailable`, no wallet is connected.
    """
    user: Mapping[str, Any] = ctx.user or {}
    if not user.get("isConnected") or not user.get("address"):
        raise ToolFailure("unavailable", NO_WALLET, retryable=False)
    return address(user["address"])


def check_open(chain: Chain) -> None:
    """Whether anything may be proposed there.

    Raises:
        ToolFailure: `denied`, the operator did not say so.
    """
    if not chain.propose:
        raise denied(f"Chain {chain.id} is read-only here")


class ProposalContext:
    """What one call proposes, on one chain, from one address."""

    def __init__(self, chains: Chains, chain: Chain, ctx: Context, sender: str) -> None:
        self.chains, self.chain, self.ctx, self.sender = chains, chain, ctx, sender

    def _key(self, key: str) -> str:
        return f"{self.ctx.id}:{key}"

    @property
    def expires_at(self) -> int:
        """When a request that is made now is too old."""
        return int(self.ctx.now()) + EXPIRES_S

    async def request(self, key: str, proposed: Sequence[ProposedCall]) -> dict[str, Any]:
        """The data of the question, once limits and simulation say yes.

        Raises:
            ToolFailure: `denied` by the limits, `failed` by the simulation.
        """
        check_open(self.chain)
        for one in proposed:
            self.chains.limits.check_call(one.call.to, one.call.value, one.call.data)
        await self._check_same(proposed)
        purse = await self._purse()
        purse.check(sum(one.call.value for one in proposed))
        simulation = await simulate(self.chains, self.chain, self.sender, [one.call for one in proposed])
        if simulation.error is not None:
            raise ToolFailure("failed", f"The simulation failed: {simulation.error}", retryable=False)
        for outcome in simulation.outcomes:
            self.chains.limits.check_moves(self.sender, outcome.moves)
        transactions = self._transactions(proposed, simulation, purse)
        await self._count(self._key(key), proposed, simulation)
        return self._data(proposed, simulation, transactions)

    async def _check_same(self, proposed: Sequence[ProposedCall]) -> None:
        """Two dialogs for one transaction are how it is sent twice; a model may well call a tool twice in one turn."""
        session = self.ctx.this_session
        if session is None:
            return
        mine = {(one.call.to, hex(one.call.value), one.call.data) for one in proposed}
        for one in mine:
            other = self.chains.asking.get((session.id, self.chain.id, self.sender, *one))
            if other is not None and other in session.live:
                self._refuse_same(other)
        if len(self.chains.asking) > REMEMBERED:
            self.chains.asking.clear()  # what waits is found among the questions
        self.chains.asking |= {(session.id, self.chain.id, self.sender, *one): self.ctx.id for one in mine}
        for question in await session.questions():
            match question.data:
                case {"type": "wallet_tx_request", "chain_id": self.chain.id, "from": self.sender, "transactions": txs}:
                    if mine & {(one["to"], one["value"], one["data"]) for one in txs}:
                        self._refuse_same(question.call)

    def _refuse_same(self, other: str) -> None:
        if other != self.ctx.id:
            message = f"The same transaction is already waiting for the wallet (call {other})"
            raise denied(message, "Wait for the user, or cancel that call.")

    async def _purse(self) -> SenderAccount:
        rpc = self.chains.node(self.chain, *READING)
        balance, nonce, tip = await together(
            rpc.number("eth_getBalance", self.sender, "pending"),
            rpc.number("eth_getTransactionCount", self.sender, "pending"),
            _tip(rpc),
        )
        return SenderAccount(balance, nonce, tip)

    def _transactions(
        self, proposed: Sequence[ProposedCall], simulation: Simulation, purse: SenderAccount
    ) -> list[dict[str, Any]]:
        fee, made, needs = 2 * simulation.base_fee + purse.tip, [], 0
        for number, (one, outcome) in enumerate(zip(proposed, simulation.outcomes, strict=True)):
            gas = one.gas or outcome.gas
            if gas < outcome.gas_used:
                raise ToolFailure("invalid_arguments", f"Invalid 'gas_limit': the call needs {outcome.gas_used} gas")
            needs += one.call.value + gas * fee
            made.append(self._transaction(one, purse.nonce + number, gas, fee, purse.tip))
        purse.check(needs)
        return made

    def _transaction(self, one: ProposedCall, nonce: int, gas: int, fee: int, tip: int) -> dict[str, Any]:
        return {
            "from": self.sender,
            "to": one.call.to,
            "value": hex(one.call.value),
            "data": one.call.data,
            "chainId": hex(self.chain.id),
            "nonce": hex(nonce),
            "gas": hex(gas),
            "maxFeePerGas": hex(fee),
            "maxPriorityFeePerGas": hex(tip),
            "type": "0x2",
            "description": one.description,
        }

    async def _count(self, key: str, proposed: Sequence[ProposedCall], simulation: Simulation) -> None:
        """Counts what leaves the user, with what others of the owner's calls have out, against session and day."""
        limits, cache, ctx = self.chains.limits, self.chains.cache, self.ctx
        session = ctx.this_session
        if session is not None:
            for call in cache.waiting(ctx.owner):
                row = await session.crib.store.call(call)
                if call != ctx.id and (row is None or row.state == "done"):
                    cache.withdraw(call=call)  # nobody accepted it
        moved = (m for one in simulation.outcomes for m in one.moves)
        out = sum(int(m["amount"]) for m in moved if m["token"] == "native" and m["from"] == self.sender != m["to"])
        wei = max(out, sum(one.call.value for one in proposed))
        cache.withdraw(key=key)
        bound(cache.spent(ctx.owner, ctx.session) + wei, limits.session_wei, " for the session")
        bound(cache.spent(ctx.owner) + wei, limits.day_wei, " for the day")
        cache.propose(key, ctx.id, ctx.owner, ctx.session, wei)

    def _data(
        self, proposed: Sequence[ProposedCall], simulation: Simulation, transactions: list[dict[str, Any]]
    ) -> dict[str, Any]:
        calls = [one.call for one in proposed]
        what = [{"to": call.to, "value": str(call.value), "data": call.data} for call in calls]
        warnings = [warning for call in calls if (warning := approval(call.to, call.data)) is not None]
        batch = batches.send_calls(self.ctx.user or {}, self.chain.id, transactions)
        return {
            "type": "wallet_tx_request",
            "chain_id": self.chain.id,
            "from": self.sender,
            "transactions": transactions,
            "summary": [self._summary(one) for one in proposed],
            "moves": [move for outcome in simulation.outcomes for move in outcome.moves],
            "warnings": warnings,
            "simulated_at_block": simulation.block,
            "expires_at": self.expires_at,
            "digest": digest_of({"chain": self.chain.id, "from": self.sender, "calls": what}),
            **({} if batch is None else {"send_calls": batch}),
        }

    def _summary(self, one: ProposedCall) -> dict[str, Any]:
        """Describe a call as far as its function is known."""
        call, summary = one.call, {"to": one.call.to, "value": str(one.call.value), "note": one.description}
        for signature in self._signatures(one):
            args = decode_call(signature, call.data)
            if args is not None:
                return {**summary, "function": signature.text, "args": args}
        return summary if call.data == "0x" else {**summary, "selector": call.data[:10]}

    def _signatures(self, one: ProposedCall) -> list[Signature]:
        mine = [parse_signature(one.function)] if one.function else []
        return [*mine, *_KNOWN, *contracts.functions_of(self.chains, self.chain.id, one.call.to)]

    async def ask(self, key: str, request: dict[str, Any], prompt: str) -> SentBatch:
        """What the wallet sent.

        Raises:
            ToolFailure: `declined`, it did not; `failed`, it could not; `timeout`, it answered too late.
        """
        value = await self.answer(key, request, prompt, _answers(request))
        batch = value.get("calls")
        if batch is None:
            return SentBatch([tx_hash(hash) for hash in value["hashes"]])
        if batch["status"] == batches.NOT_SENT:
            self.chains.cache.withdraw(key=self._key(key))
            raise ToolFailure("failed", "The wallet could not send the calls", retryable=False)
        return batches.sent_of(batch, len(request["transactions"]))

    async def answer(self, key: str, request: dict[str, Any], prompt: str, schema: dict[str, Any]) -> Mapping[str, Any]:
        """What the wallet says to a request, if that is not no.

        Raises:
            ToolFailure: `declined`, it said no; `timeout`, it answered too late.
        """
        answer: Answer = await self.ctx.ask(
            prompt,
            kind="client",
            resume="pass",
            data=request,
            key=f"wallet:{key}",
            schema=schema,
            expires_s=EXPIRES_S,
        )
        value: Mapping[str, Any] = answer.value
        if value.get("rejected"):
            self.chains.cache.withdraw(key=self._key(key))
            raise ToolFailure("declined", value.get("reason") or "Rejected in the wallet")
        self.chains.cache.sent(self._key(key))
        if min(answer.at, self.ctx.now()) > request["expires_at"] + 1:
            raise ToolFailure("timeout", "The wallet answered after the request had expired", retryable=False)
        return value

    async def settle(self, request: Mapping[str, Any], sent: SentBatch) -> dict[str, Any]:
        """Waits for what was sent and compares it: `{"mined": [...]}`, with `failure` where something is wrong.

        It raises nothing of its own, since a step that is recorded keeps a value in full and a failure only in part.
        """
        rpc, mined = self.chains.node(self.chain, *SETTLING), []
        try:
            async with asyncio.timeout(SETTLE_S):
                if sent.together:
                    return {"mined": await self._batch(rpc, sent, request)}
                for hash, wanted in zip(sent.hashes, request["transactions"], strict=True):
                    mined.append(await self._mined(rpc, hash, wanted, request["simulated_at_block"]))
        except TimeoutError:
            message = f"No receipt for {sent.hashes[len(mined)]} within {SETTLE_S:g} s; it may still be mined"
            return {"mined": mined, "failure": {"code": "timeout", "message": message}, "pending": True}
        except ToolFailure as error:
            return {"mined": mined, "failure": {"code": error.code, "message": error.message}}
        return {"mined": mined}

    async def _batch(self, rpc: Rpc, sent: SentBatch, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the calls of a batch, each with the transaction that the wallet put them all into."""
        receipts = [await _receipt(rpc, hash) for hash in sent.hashes]
        mined = [await rpc("eth_getTransactionByHash", hash) for hash in sent.hashes]
        transactions, wanted = [one if isinstance(one, Mapping) else {} for one in mined], request["transactions"]
        hash, used = sent.hashes[-1], sum(quantity(one.get("gasUsed")) or 0 for one in receipts)
        blocks = [quantity(one.get("blockNumber")) or 0 for one in receipts]
        plain = len(transactions) == len(wanted) and not any(map(_difference, transactions, wanted))
        field = None if plain else batches.difference(transactions, request)
        if field is None and min(blocks) <= request["simulated_at_block"]:
            field = "block"
        if field is not None:
            raise ToolFailure("failed", f"Transaction {hash} is not what was approved: {field}", retryable=False)
        if any(quantity(one.get("status")) != 1 for one in receipts):
            reasons = [await self._reason(rpc, one, blocks[-1]) for one in wanted]
            why = next((one for one in reasons if one != NO_REASON), NO_REASON)
            raise ToolFailure("failed", f"Transaction {hash} failed: {why}", retryable=False)
        if sent.status != batches.CONFIRMED:
            message = f"The wallet says that the calls failed (status {sent.status})"
            raise ToolFailure("failed", message, retryable=False)
        return [self._mined_summary(hash, one, blocks[-1], used) for one in wanted]

    async def _mined(self, rpc: Rpc, hash: str, wanted: Mapping[str, Any], after: int) -> dict[str, Any]:
        receipt = await _receipt(rpc, hash)
        transaction = await rpc("eth_getTransactionByHash", hash)
        block, used = quantity(receipt.get("blockNumber")) or 0, quantity(receipt.get("gasUsed")) or 0
        field = _difference(transaction if isinstance(transaction, Mapping) else {}, wanted)
        if field is None and block <= after:
            field = "block"  # a transaction of before, which is another one
        if field is not None:
            raise ToolFailure("failed", f"Transaction {hash} is not what was approved: {field}", retryable=False)
        if quantity(receipt.get("status")) != 1:
            reason = await self._reason(rpc, wanted, block)
            raise ToolFailure("failed", f"Transaction {hash} failed: {reason}", retryable=False)
        return self._mined_summary(hash, wanted, block, used)

    def _mined_summary(self, hash: str, wanted: Mapping[str, Any], block: int, used: int) -> dict[str, Any]:
        mined = {"tx_hash": hash, "from": wanted["from"], "to": wanted["to"], "value": str(int(wanted["value"], 16))}
        return {**mined, "block_number": block, "gas_used": str(used), "chain_id": self.chain.id}

    async def _reason(self, rpc: Rpc, wanted: Mapping[str, Any], block: int) -> str:
        """Why a mined transaction failed: it is called once more where it was."""
        call = {name: wanted[name] for name in ("from", "to", "value", "data")}
        try:
            await rpc("eth_call", call, hex(max(0, block - 1)))
        except Reverted as error:
            return contracts.why(self.chains, self.chain, wanted["to"], error)
        except ToolFailure:
            pass
        return NO_REASON


async def _tip(rpc: Rpc) -> int:
    try:
        return await rpc.number("eth_maxPriorityFeePerGas")
    except ToolFailure as error:
        if error.code == "unavailable" and not error.retryable:
            return TIP  # an older node
        raise


async def _receipt(rpc: Rpc, hash: str) -> Mapping[str, Any]:
    """Poll until there is a receipt; a node that is away for a while is polled again."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            receipt = await rpc("eth_getTransactionReceipt", hash)
        except ToolFailure as error:
            if not error.retryable:
                raise
            receipt = None
        if isinstance(receipt, Mapping) and receipt.get("blockNumber"):
            return receipt
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_S)


def _difference(data: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return the first field in which a mined transaction differs from the request (the wallet sets gas and nonce)."""
    for field in ("from", "to"):
        if str(data.get(field)).lower() != wanted[field].lower():
            return field
    for field in ("value", "chainId"):
        if quantity(data.get(field)) != int(wanted[field], 16):
            return field
    return None if str(data.get("input")).lower() == wanted["data"] else "data"


def _answers(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a wallet's answer; anything else is refused, and the question stays open."""
    count = len(request["transactions"])
    hash = {"type": "string", "pattern": "^0x[0-9a-fA-F]{64}$"}
    hashes = {"type": "array", "items": hash, "minItems": count, "maxItems": count, "uniqueItems": True}
    properties = {"rejected": {"const": True}, "reason": {"type": "string"}, "digest": {"const": request["digest"]}}
    either = [{"required": ["hashes"]}, {"required": ["rejected"]}]
    if "send_calls" in request:
        properties, either = {**properties, "calls": batches.answers()}, [*either, {"required": ["calls"]}]
    return {"type": "object", "properties": {"hashes": hashes, **properties}, "oneOf": either}
