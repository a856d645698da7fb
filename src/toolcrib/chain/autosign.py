"""A stand-in for the user's wallet during development: it signs every request, on development chains alone.

    async with autosign(session, chains):
        await session.call("send_transaction_to_wallet", {...})

It is no tool, and no model can reach it: it answers the same questions that a wallet would, and only those of a chain
that is `local`, whose node is on this machine and says that it is anvil. All other questions are left open.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.chain.rpc import Rpc
from toolcrib.chain.simulation import is_ours
from toolcrib.errors import Refused, ToolFailure

if TYPE_CHECKING:
    from toolcrib.chain.chains import Chains
    from toolcrib.session import Session

SIGNING = ("eth_sendTransaction", "web3_clientVersion")
GONE = ("already_answered", "expired", "not_found")
ACTOR = "autosign"


@contextlib.asynccontextmanager
async def autosign(session: Session, chains: Chains) -> AsyncIterator[None]:
    """Signs what the calls of a session ask a wallet for, as long as the block runs."""
    busy = asyncio.Lock()  # what is being signed is brought to its end
    following = asyncio.create_task(_follow(session, chains, busy))
    try:
        yield
    finally:
        async with busy:
            following.cancel()
        (ended,) = await asyncio.gather(following, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended


async def _follow(session: Session, chains: Chains, busy: asyncio.Lock) -> None:
    seen: set[str] = set()
    async for event in session.events():
        if event.kind == "waiting":
            for question in await session.questions():  # what was answered before is not among them
                if question.id not in seen:
                    seen.add(question.id)
                    async with busy:
                        await _take(session, chains, question.id, question.data)


async def _take(session: Session, chains: Chains, question: str, data: Any) -> None:
    rpc = await _ours(chains, data)
    if rpc is None:
        return
    try:
        value = {"hashes": [await _sent(rpc, one) for one in data["transactions"]], "digest": data["digest"]}
    except ToolFailure as error:
        value = {"rejected": True, "reason": error.message}
    try:
        await session.answer(question, "accept", value, actor=ACTOR)
    except Refused as error:
        if error.code not in GONE:
            raise


async def _ours(chains: Chains, data: Any) -> Rpc | None:
    """The node to sign with; None where the question is for a wallet of somebody else."""
    if not isinstance(data, Mapping) or data.get("type") != "wallet_tx_request":
        return None
    chain = chains.all.get(data["chain_id"])
    if chain is None:
        return None
    rpc = chains.node(chain, *SIGNING)
    try:
        return rpc if await is_ours(chain, rpc) else None
    except ToolFailure:
        return None


async def _sent(rpc: Rpc, transaction: Mapping[str, Any]) -> str:
    """Send a transaction; it carries its nonce, so that it is never sent twice."""
    params = {name: value for name, value in transaction.items() if name != "description"}
    return str(await rpc("eth_sendTransaction", params))
