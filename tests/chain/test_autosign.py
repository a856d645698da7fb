"""A stand-in for a wallet, which signs on development chains and nowhere else."""

import asyncio
from typing import Any

import pytest

from tests.chain.place import OTHER, USER, opened
from tests.chain.test_cast import without
from tests.chain.test_eip712 import permit
from tests.chain.test_wallet import PAYING, TOOL, local
from tests.requirements import requirement
from toolcrib import Session
from toolcrib.chain import Chain, ChainLimits, Chains
from toolcrib.chain.autosign import _take, autosign
from toolcrib.chain.simulation import is_ours
from toolcrib.testing.chain import Anvil
from toolcrib.types import Question

pytestmark = pytest.mark.process

LIMITS = ChainLimits(tx_wei=100, day_wei=100)


async def waiting(session: Session, tool: str = TOOL, args: Any = PAYING) -> Question:
    """A question, once it is open."""
    call = await session.submit(tool, args)
    async for event in session.events(call=call.id):
        assert event.kind != "done", event.fields
        if event.kind == "waiting":
            break
    return next(one for one in await session.questions() if one.call == call.id)


@requirement("chain.safe.6")
async def test_a_development_chain_is_signed_for(box: Anvil) -> None:
    chains = local(box)
    plan = [
        {"calls": [{"to": OTHER, "value": "1"}, {"to": OTHER, "value": "2"}]},
        {"calls": [{"to": OTHER, "value": "3"}]},
    ]
    async with opened(chains) as session:
        before = await waiting(session)  # what was asked before counts too
        async with autosign(session, chains):
            assert (await session.result(before.call)).ok
            call = await session.submit("forge_execute", {"plan": plan})
            result = await session.result(call.id)
        assert result.ok, result.failure
        left = await waiting(session, args={**PAYING, "value": "9"})  # now nobody signs any more
        assert [one.id for one in await session.questions()] == [left.id]
    assert int(box.ask("eth_getTransactionCount", USER, "latest"), 16) == 4


@requirement("chain.safe.6")
async def test_a_transaction_that_the_node_refuses_is_rejected(box: Anvil) -> None:
    chains = local(box)
    async with opened(chains) as session:
        question = await waiting(session)
        box.ask("anvil_setNonce", USER, "0x9")  # its nonce is used up
        async with autosign(session, chains):
            failure = (await session.result(question.call)).failure
    assert failure is not None
    assert failure.code == "declined"
    assert "nonce too low" in failure.message


@requirement("chain.safe.6")
@pytest.mark.parametrize("lacking", ["local", "anvil"])
async def test_no_other_chain_is_signed_for(lacking: str, box: Anvil) -> None:
    version = "Geth/v1.14" if lacking == "anvil" else None
    async with without(box, version=version) as url:
        real = Chain(1, "ethereum", url, local=lacking != "local", propose=True)
        chains = Chains([real], limits=LIMITS)
        async with opened(chains) as session:
            question = await waiting(session)
            await _take(session, chains, question.id, question.data)
            assert [one.id for one in await session.questions()] == [question.id]
            assert box.ask("eth_getTransactionCount", USER, "pending") == "0x0"


@requirement("chain.safe.6")
async def test_a_node_elsewhere_is_not_even_asked() -> None:
    far = Chain(1, "ethereum", "https://node.example", local=True)
    assert await asyncio.wait_for(is_ours(far, Chains([far]).node(far, "web3_clientVersion")), 30) is False


@requirement("chain.safe.6")
async def test_other_questions_are_not_for_it(box: Anvil) -> None:
    chains = local(box)
    async with opened(chains) as session, autosign(session, chains):
        args = {"typed_data": permit("5", chain=1), "description": "Sign it"}
        question = await waiting(session, "sign_typed_data", args)
        assert (await session.call(TOOL, PAYING)).ok
        assert [one.id for one in await session.questions()] == [question.id]
