"""Groups that a smart account carries out as one batch, by `wallet_sendCalls` of EIP-5792."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.chain.place import MAKER, OTHER, USER, Wallet, deployed, opened, send
from tests.chain.test_wallet import asked, local
from tests.requirements import requirement
from toolcrib import Refused, Session
from toolcrib.chain.abi import encode, encode_call
from toolcrib.chain.signatures import parse_types
from toolcrib.testing.chain import Anvil
from toolcrib.types import Result

pytestmark = pytest.mark.process

ATOMIC = {"0x1": {"atomic": {"status": "supported"}}}
MODE = "0x01" + "0" * 62
GAS = hex(500_000)


class Smart(Wallet):
    """A wallet whose account runs code (EIP-7702), so that it sends all calls of a request in one transaction."""

    def __init__(self, chain: Anvil, change: Callable[[dict[str, Any]], None] | None = None) -> None:
        super().__init__(chain, change)
        chain.ask("anvil_setCode", USER, "0xef0100" + deployed(chain, "Account")[2:])

    def sign(self, request: Any) -> dict[str, Any]:
        """Sends the calls, waits until they are mined, and tells their status."""
        self.asked.append(dict(request))
        asked = {**request["send_calls"], "calls": [dict(one) for one in request["send_calls"]["calls"]]}
        if self.change is not None:
            self.change(asked)
        calls = [[one["to"], str(int(one["value"], 16)), one["data"]] for one in asked["calls"]]
        batch = "0x" + encode(parse_types("(address,uint256,bytes)[]"), [calls]).hex()
        sent = {"from": USER, "to": USER, "data": encode_call("execute(bytes32,bytes)", [MODE, batch]), "gas": GAS}
        hash = self.chain.ask("eth_sendTransaction", sent)
        while (receipt := self.chain.ask("eth_getTransactionReceipt", hash)) is None:
            self.chain.ask("evm_mine")
        status = 200 if receipt["status"] == "0x1" else 500
        told = {"version": "2.0.0", "id": "0x01", "chainId": asked["chainId"], "status": status, "atomic": True}
        return {"calls": {**told, "receipts": [receipt]}, "digest": request["digest"]}


async def connect(session: Session, capabilities: Any = ATOMIC, chain: int = 1) -> None:
    await session.set_user({"address": USER, "chainId": chain, "isConnected": True, "capabilities": capabilities})


async def planned(session: Session, wallet: Wallet, *calls: dict[str, Any]) -> Result:
    """The result of a plan of one group."""
    call = await session.submit("forge_execute", {"plan": [{"description": "All at once", "calls": list(calls)}]})
    return await wallet.attend(session, call.id)


@pytest.fixture
def paying(box: Anvil) -> list[dict[str, Any]]:
    """Two calls: a token is moved, and a coin is paid."""
    token = deployed(box, "Token")
    send(box, USER, token, encode_call("mint(address,uint256)", [USER, "100"]))
    return [
        {"to": token, "function": "transfer(address,uint256)", "args": [OTHER, "60"]},
        {"to": OTHER, "value": "7"},
    ]


@requirement("wallet.10")
async def test_a_group_is_one_transaction_where_the_wallet_can(box: Anvil, paying: list[dict[str, Any]]) -> None:
    wallet = Smart(box)
    async with opened(local(box)) as session:
        await connect(session)
        result = await planned(session, wallet, *paying)
        assert result.ok, result.failure
        token = paying[0]["to"]
        held = await session.call("get_erc20_balance", {"token_address": token, "holder_address": OTHER})
    (request,) = wallet.asked
    assert request["send_calls"] == {
        "version": "2.0.0",
        "chainId": "0x1",
        "from": USER,
        "atomicRequired": True,
        "calls": [
            {"to": token, "value": "0x0", "data": encode_call("transfer(address,uint256)", [OTHER, "60"])},
            {"to": OTHER, "value": "0x7", "data": "0x"},
        ],
    }
    (hash,) = result.data["groups"][0]["hashes"]
    assert box.ask("eth_getTransactionByHash", hash)["to"].lower() == USER.lower()
    assert held.data["balance"] == "60"


@requirement("wallet.10")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda asked: asked["calls"][1].update(to=MAKER), "calls"),
        (lambda asked: asked["calls"].append({"to": MAKER, "value": "0x1", "data": "0x"}), "calls"),
        (lambda asked: asked["calls"].pop(), "calls"),
    ],
)
async def test_a_batch_of_other_calls_is_found_out(
    change: Any, field: str, box: Anvil, paying: list[dict[str, Any]]
) -> None:
    wallet = Smart(box, change)
    async with opened(local(box)) as session:
        await connect(session)
        failure = (await planned(session, wallet, *paying)).failure
    assert failure is not None
    assert failure.message.startswith("Operation 0 failed: Transaction 0x")
    assert failure.message.endswith(f"is not what was approved: {field}")


@requirement("wallet.10")
async def test_a_batch_that_reverts_tells_why(box: Anvil, paying: list[dict[str, Any]]) -> None:
    wallet = Smart(box)
    token = paying[0]["to"]
    gone = encode_call("transfer(address,uint256)", [MAKER, "100"])
    wallet.change = lambda asked: void(send(box, USER, token, gone))  # it is gone before the wallet signs
    async with opened(local(box, errors=["NotEnough(address,uint256,uint256)"])) as session:
        await connect(session)
        result = await planned(session, wallet, *paying)
    assert result.failure is not None
    assert result.failure.message.endswith(f"failed: NotEnough({USER}, 0, 60)")


def void(value: Any) -> None:
    """Somebody asks for nothing."""


@requirement("wallet.10")
@pytest.mark.parametrize("atomic", [True, False])
async def test_a_wallet_that_could_not_or_sends_one_by_one(atomic: bool, anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        await connect(session, {"0x0": {}}, 31337)
        question = await asked(session)
        assert question.data["send_calls"]["atomicRequired"] is False
        for told in ({"id": "1", "status": 100, "receipts": []}, {"id": "1", "status": 200}, {"status": 400}):
            with pytest.raises(Refused, match="does not fit"):
                await session.answer(question.id, "accept", {"calls": told})
        await session.answer(question.id, "accept", {"calls": {"id": "1", "status": 400}})
        failure = (await session.result(question.call)).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("failed", "The wallet could not send the calls")
        question = await asked(session)
        (hash,) = (await asyncio.to_thread(Wallet(anvil_server).sign, question.data))["hashes"]
        told = {"id": "1", "status": 200, "atomic": atomic, "receipts": [{"transactionHash": hash}]}
        await session.answer(question.id, "accept", {"calls": told})
        result = await session.result(question.call)
        assert result.ok, result.failure
        assert result.data["tx_hash"] == hash


@requirement("wallet.10")
@pytest.mark.parametrize("told", [None, {}, [], "0x7a69", {"0x1": {}}, {"x": {}}, {"0x7a69": None}])
async def test_a_wallet_that_does_not_say_so_is_asked_for_transactions(told: Any, anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        await connect(session, told, 31337)
        question = await asked(session)
        assert "send_calls" not in question.data
        with pytest.raises(Refused, match="does not fit"):
            await session.answer(question.id, "accept", {"calls": {"id": "1", "status": 400}})
        await session.cancel(question.call)
