"""What reaches the user's wallet, in which order it is checked, and how its answer is held against what was mined."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.chain.place import CLOSED, GRANTED, MAKER, NAMESPACES, OTHER, USER, Wallet, deployed, kits, opened, send
from tests.chain.test_values import cases
from tests.requirements import requirement
from toolcrib import Refused, Session, testing
from toolcrib.chain import Chain, ChainLimits, Chains, proposals
from toolcrib.chain.abi import encode_call as encoded
from toolcrib.errors import ToolFailure
from toolcrib.interop import aomi
from toolcrib.testing.chain import Anvil
from toolcrib.testing.clock import START
from toolcrib.types import Question, Result

PAYING = {"to": OTHER, "value": "5", "data": "0x", "description": "Pay 5 wei"}
TOOL = "send_transaction_to_wallet"


def local(chain: Anvil, **options: Any) -> Chains:
    """The chain as one where anything may be proposed."""
    listed = [Chain(chain.chain_id, "anvil", chain.url, local=True, propose=True)]
    return Chains(listed, **{"sourcify_url": CLOSED, **options})


async def asked(session: Session, **changes: Any) -> Question:
    """The question that a call asks."""
    call = await session.submit(TOOL, {**PAYING, **changes})
    async for event in session.events(call=call.id):
        assert event.kind != "done", event.fields
        if event.kind == "waiting":
            break
    return next(one for one in await session.questions() if one.call == call.id)


async def refused(session: Session, **changes: Any) -> str:
    """`code: message` of a call that asks nothing."""
    result = await session.call(TOOL, {**PAYING, **changes})
    assert result.failure is not None, result
    assert await session.questions() == []
    return f"{result.failure.code}: {result.failure.message}"


async def signed(session: Session, chain: Anvil, change: Any = None, **changes: Any) -> Result:
    """The result of a call whose question a wallet answers."""
    question = await asked(session, **changes)
    await session.answer(question.id, "accept", await asyncio.to_thread(Wallet(chain, change).sign, question.data))
    return await session.result(question.call)


@requirement("wallet.2")
async def test_wrong_arguments_ask_nothing(anvil_server: Anvil) -> None:
    for case in cases("send_transaction_to_wallet.error"):
        async with opened(local(anvil_server)) as session:
            await session.set_user(case["input"]["user"])
            result = await session.call(TOOL, case["input"]["args"])
            assert result.failure is not None
            assert result.failure.code == case["expect"]["code"]
            assert case["expect"]["message_contains"] in result.failure.message
            assert await session.questions() == []
    async with opened(local(anvil_server)) as session:
        assert "must be a valid number in wei" in await refused(session, value="1.5")
        assert "must be a valid number in wei" in await refused(session, value=str(2**256))
        assert "must be valid hex data starting with 0x" in await refused(session, data="12")
        assert "non-hex character 'z' at index 3" in await refused(session, data="0x1z")
        assert "Invalid 'gas_limit': must be a valid number" in await refused(session, gas_limit="x")
        assert "the call needs 21000 gas" in await refused(session, gas_limit=100)


@requirement("wallet.3", "wallet.4")
async def test_the_question_holds_what_a_wallet_needs(anvil_server: Anvil) -> None:
    (case,) = cases("send_transaction_to_wallet")
    user = case["input"]["user"]
    anvil_server.ask("anvil_setBalance", user["address"], hex(10**18))
    async with opened(local(anvil_server)) as session:
        await session.set_user(user)
        question = await asked(session, **case["input"]["args"])
        expected = case["expect"]["question"]
        assert question.kind == expected["kind"]
        assert (question.resume, question.expires_at - question.asked_at) == ("pass", 900)
        data = question.data
        (transaction,) = data["transactions"]
        assert data["type"] == expected["data"]["type"]
        assert transaction | expected["data"]["transactions"][0] == transaction
        block = anvil_server.ask("eth_getBlockByNumber", hex(data["simulated_at_block"]), False)
        tip = int(transaction["maxPriorityFeePerGas"], 16)
        assert int(transaction["maxFeePerGas"], 16) == 2 * int(block["baseFeePerGas"], 16) + tip
        assert transaction["type"] == "0x2"
        assert int(transaction["gas"], 16) == 31500
        inline = aomi.inline_call(question)["InlineCall"]
        assert (inline["type"], inline["payload"]) == ("wallet_tx_request", data)
        assert data.keys() >= {"summary", "moves", "warnings", "expires_at", "digest", "from", "chain_id"}
        await session.cancel(question.call)


@requirement("wallet.1", "wallet.6", "wallet.7", "wallet.9")
async def test_a_transaction_is_signed_and_waited_for(anvil_server: Anvil) -> None:
    token = deployed(anvil_server, "Token")
    send(anvil_server, USER, token, encoded("mint(address,uint256)", [USER, "100"]))
    moving = encoded("transfer(address,uint256)", [OTHER, "60"])
    async with opened(local(anvil_server)) as session:
        question = await asked(session, to=token, value="0", data=moving)
        assert question.data["moves"] == [{"token": token, "from": USER, "to": OTHER, "amount": "60"}]
        (told,) = question.data["summary"]
        assert (told["function"], told["args"]) == ("transfer(address,uint256)", [OTHER, "60"])
        answer = await asyncio.to_thread(Wallet(anvil_server).sign, question.data)
        await session.answer(question.id, "accept", answer)
        result = await session.result(question.call)
        assert result.ok, result.failure
        hash = answer["hashes"][0]
        assert result.data.keys() == {
            *("status", "tx_hash", "from", "to", "value", "block_number", "gas_used", "chain_id"),
        }
        assert (result.data["status"], result.data["tx_hash"], result.data["to"]) == ("confirmed", hash, token)
        balance = await session.call("get_erc20_balance", {"token_address": token, "holder_address": OTHER})
        assert balance.data["balance"] == "60"


@requirement("wallet.7")
async def test_a_user_who_disconnects_after_signing_changes_nothing(anvil_server: Anvil) -> None:
    both = [Chain(31337, "anvil", anvil_server.url, local=True, propose=True), Chain(5, "five", CLOSED)]
    async with opened(Chains(both)) as session:
        question = await asked(session)
        answer = await asyncio.to_thread(Wallet(anvil_server).sign, question.data)
        await session.set_user({"address": OTHER, "chainId": 5, "isConnected": False})
        await session.answer(question.id, "accept", answer)
        result = await session.result(question.call)
    assert result.ok, result.failure
    assert (result.data["from"], result.data["chain_id"]) == (USER, 31337)


@requirement("wallet.9")
async def test_without_the_grant_nothing_is_proposed(anvil_server: Anvil) -> None:
    async with opened(local(anvil_server), policy={"grants": {"allow": []}}) as session:
        assert (await refused(session)).startswith("denied")


@requirement("wallet.5")
async def test_a_wallet_that_says_no(anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        for value, message in (
            ({"rejected": True}, "Rejected in the wallet"),
            ({"rejected": True, "reason": "too much"}, "too much"),
        ):
            question = await asked(session)
            await session.answer(question.id, "accept", value)
            failure = (await session.result(question.call)).failure
            assert failure is not None
            assert (failure.code, failure.message) == ("declined", message)
        question = await asked(session)
        await session.answer(question.id, "decline", reason="no")
        failure = (await session.result(question.call)).failure
        assert failure is not None
        assert failure.code == "declined"


@requirement("wallet.5", "chain.safe.5")
async def test_an_answer_that_does_not_fit_leaves_the_question_open(anvil_server: Anvil) -> None:
    hash = "0x" + "1" * 64
    async with opened(local(anvil_server)) as session:
        question = await asked(session)
        value: Any
        for value in (
            None,
            {},
            {"hashes": []},
            {"hashes": ["x"]},
            {"hashes": [hash, hash]},
            {"hashes": [hash], "digest": "0" * 64},
            {"hashes": [hash], "rejected": True},
            {"rejected": False},
        ):
            with pytest.raises(Refused, match="does not fit"):
                await session.answer(question.id, "accept", value)
        answer = await asyncio.to_thread(Wallet(anvil_server).sign, question.data)
        await session.answer(question.id, "accept", answer)
        assert (await session.result(question.call)).ok


@requirement("chain.safe.5")
async def test_an_answer_after_the_end_is_refused(anvil_server: Anvil) -> None:
    async with testing.crib(*kits(local(anvil_server)), policy=GRANTED) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=NAMESPACES)
        await session.set_user({"address": USER, "chainId": 31337, "isConnected": True})
        question = await asked(session, value="31")
        assert question.data["expires_at"] <= question.expires_at
        answer = await asyncio.to_thread(Wallet(anvil_server).sign, question.data)
        await crib.clock.advance(15 * 60 + 1)
        with pytest.raises(Refused):
            await session.answer(question.id, "accept", answer)
        failure = (await session.result(question.call)).failure
        assert failure is not None
        assert failure.code == "timeout"


@requirement("chain.safe.5")
async def test_an_answer_to_a_request_that_is_too_old_is_no_approval(anvil_server: Anvil) -> None:
    chains = local(anvil_server)
    ctx = testing.context(answers={"Sign it": {"hashes": ["0x" + "1" * 64]}})
    desk = proposals.ProposalContext(chains, chains.all[31337], ctx, USER)
    old = {"transactions": [{}], "digest": "d", "expires_at": START - 5}
    with pytest.raises(ToolFailure, match="after the request had expired"):
        await desk.ask("tx", old, "Sign it")


@requirement("chain.safe.5")
async def test_the_digest_is_of_everything_that_matters(anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        digests = []
        for change in ({}, {"to": MAKER}, {"value": "6"}, {"data": "0x01"}, {"description": "other words"}):
            question = await asked(session, **change)
            digests.append(question.data["digest"])
            await session.cancel(question.call)
        assert len(set(digests)) == 4
        assert digests[0] == digests[-1]


@requirement("wallet.6")
@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("to", {"to": MAKER}),
        ("value", {"value": "0x6"}),
        ("data", {"data": "0x1234"}),
        ("from", {"from": MAKER, "nonce": None}),
    ],
)
async def test_a_wallet_that_sends_something_else_is_found_out(
    field: str, change: dict[str, Any], anvil_server: Anvil
) -> None:
    def changed(transaction: dict[str, Any]) -> None:
        transaction.update(change)
        transaction["gas"] = hex(60_000)
        for name in [name for name, value in transaction.items() if value is None]:
            del transaction[name]

    async with opened(local(anvil_server)) as session:
        failure = (await signed(session, anvil_server, changed)).failure
    assert failure is not None
    assert failure.code == "failed"
    assert failure.message.endswith(f"is not what was approved: {field}")


@requirement("wallet.6")
async def test_gas_fee_and_nonce_are_the_wallets(anvil_server: Anvil) -> None:
    def changed(transaction: dict[str, Any]) -> None:
        transaction |= {"gas": hex(50_000), "maxFeePerGas": hex(10**10)}
        del transaction["nonce"]

    async with opened(local(anvil_server)) as session:
        assert (await signed(session, anvil_server, changed)).ok


@requirement("wallet.6")
async def test_an_old_transaction_is_no_answer(anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        first = await signed(session, anvil_server)
        question = await asked(session)
        await session.answer(question.id, "accept", {"hashes": [first.data["tx_hash"]]})
        failure = (await session.result(question.call)).failure
    assert failure is not None
    assert failure.message.endswith("is not what was approved: block")


@requirement("wallet.6")
async def test_a_transaction_that_failed_tells_why(anvil_server: Anvil) -> None:
    token = deployed(anvil_server, "Token")
    send(anvil_server, USER, token, encoded("mint(address,uint256)", [USER, "100"]))
    away = encoded("transfer(address,uint256)", [MAKER, "100"])
    async with opened(local(anvil_server, errors=["NotEnough(address,uint256,uint256)"])) as session:
        question = await asked(session, to=token, value="0", data=encoded("transfer(address,uint256)", [OTHER, "60"]))
        send(anvil_server, USER, token, away)  # it is gone before the wallet signs
        (transaction,) = question.data["transactions"]
        transaction.pop("nonce")
        answer = await asyncio.to_thread(Wallet(anvil_server).sign, question.data)
        await session.answer(question.id, "accept", answer)
        failure = (await session.result(question.call)).failure
    assert failure is not None
    assert failure.code == "failed"
    assert failure.message == f"Transaction {answer['hashes'][0]} failed: NotEnough({USER}, 0, 60)"


@requirement("wallet.6")
async def test_a_transaction_that_nobody_mines_is_pending(anvil_server: Anvil, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "SETTLE_S", 0.3)
    async with opened(local(anvil_server)) as session:
        question = await asked(session)
        await session.answer(question.id, "accept", {"hashes": ["0x" + "2" * 64]})
        result = await session.result(question.call)
    assert result.failure is not None
    assert (result.failure.code, result.failure.retryable) == ("timeout", False)
    assert result.metadata["pending"] is True


@requirement("wallet.8")
async def test_the_same_transaction_is_not_asked_for_twice(anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        question = await asked(session)
        result = await session.call(TOOL, PAYING)
        assert result.failure is not None
        message = f"The same transaction is already waiting for the wallet (call {question.call})"
        assert (result.failure.code, result.failure.message) == ("denied", message)
        other = await asked(session, value="6")
        await session.cancel(question.call)
        await session.cancel(other.call)
        assert (await asked(session)).id


@requirement("wallet.8")
async def test_of_two_calls_in_one_turn_one_asks(anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        calls = [await session.submit(TOOL, {**PAYING, "value": "77"}) for _ in range(2)]
        kinds = [await asyncio.wait_for(_stop(session, call.id), 60) for call in calls]
        assert sorted(kinds) == ["done", "waiting"]
        ended = await session.result(calls[kinds.index("done")].id)
        assert ended.failure is not None
        assert ended.failure.code == "denied"
        assert len(await session.questions()) == 1


async def _stop(session: Session, call: str) -> str:
    """Where a call comes to a stop: at its question or at its end."""
    async for event in session.events(call=call):
        if event.kind in ("waiting", "done"):
            return event.kind
    raise AssertionError("it did neither")


@requirement("forge.sim.3")
async def test_who_cannot_pay_is_told_what_is_missing(anvil_server: Anvil) -> None:
    poor = "0x" + "0" * 36 + "b00d"
    anvil_server.ask("anvil_setBalance", poor, hex(1000))
    async with opened(local(anvil_server), user=poor) as session:
        assert await refused(session, value="1001") == "failed: Insufficient funds: needs 1001 wei, has 1000"
        told = await refused(session)
    assert told.startswith("failed: Insufficient funds: needs ")
    assert told.endswith(" wei, has 1000")


@requirement("chain.safe.2", "chain.safe.3", "chain.safe.4")
async def test_limits_deny_before_anybody_is_asked(anvil_server: Anvil) -> None:
    token = deployed(anvil_server, "Token")
    send(anvil_server, USER, token, encoded("mint(address,uint256)", [USER, "1000"]))
    async with opened(Chains([Chain(31337, "anvil", anvil_server.url, local=True)])) as session:
        assert await refused(session) == "denied: Chain 31337 is read-only here"
    limits = ChainLimits(
        tx_wei=100, day_wei=150, token={token: 50}, deny_to=[MAKER], deny_selectors=["0x40c10f19"], session_wei=None
    )
    async with opened(local(anvil_server, limits=limits)) as session:
        assert await refused(session, value="101") == "denied: Value 101 wei is above the limit of 100"
        assert await refused(session, to=MAKER) == f"denied: Target {MAKER} is not allowed"
        minting = encoded("mint(address,uint256)", [USER, "1"])
        assert await refused(session, to=token, value="0", data=minting) == "denied: Function 0x40c10f19 is not allowed"
        for amount in (2**255, 2**256 - 1):
            approving = encoded("approve(address,uint256)", [OTHER, str(amount)])
            told = await refused(session, to=token, value="0", data=approving)
            assert told == "denied: approve without a bound is not allowed"
        moving = encoded("transfer(address,uint256)", [OTHER, "51"])
        told = await refused(session, to=token, value="0", data=moving)
        assert told == f"denied: Value 51 units of {token} is above the limit of 50"
        moving = encoded("transfer(address,uint256)", [MAKER, "5"])
        assert await refused(session, to=token, value="0", data=moving) == f"denied: Target {MAKER} is not allowed"
        approving = encoded("approve(address,uint256)", [OTHER, "5"])
        question = await asked(session, to=token, value="0", data=approving)
        assert question.data["warnings"] == [
            {"function": "approve", "token": token, "spender": OTHER, "amount": "5", "infinite": False}
        ]
        await session.cancel(question.call)
    allowed = ChainLimits(allow_to=[OTHER], infinite_approvals=True)
    async with opened(local(anvil_server, limits=allowed)) as session:
        assert await refused(session, to=MAKER) == f"denied: Target {MAKER} is not allowed"
        await asked(session, value="0", data=encoded("approve(address,uint256)", [OTHER, str(2**256 - 1)]))


@requirement("chain.safe.3")
async def test_a_day_has_one_limit_over_all_sessions_and_restarts(anvil_server: Anvil, tmp_path: Path) -> None:
    def chains() -> Chains:
        return local(
            anvil_server, limits=ChainLimits(tx_wei=100, session_wei=120, day_wei=150), cache=tmp_path / "cache.db"
        )

    store = f"sqlite:///{tmp_path}/store.db"
    async with opened(chains(), store=store) as session:
        assert (await signed(session, anvil_server, value="90")).ok
        assert "above the limit of 120 for the session" in await refused(session, value="31")
        rejected = await asked(session, value="30")
        await session.answer(rejected.id, "accept", {"rejected": True})
        await session.result(rejected.call)
        declined = await asked(session, value="30")  # what was rejected does not count
        await session.answer(declined.id, "decline")
    async with opened(chains(), store=store) as first:
        session = await first.crib.open("s-2", owner="ada", namespaces=["wallet"])
        await session.set_user({"address": USER, "chainId": 31337, "isConnected": True})
        assert await refused(session, value="61") == "denied: Value 151 wei is above the limit of 150 for the day"
        await asked(session, value="60")  # nor does what was declined
        other = await first.crib.open("s-3", owner="bob", namespaces=["wallet"])
        await other.set_user({"address": USER, "chainId": 31337, "isConnected": True})
        await asked(other, value="99")
