"""Typed data of EIP-712: hashed as wallets hash it, signed by the user alone, with permits under the limits."""

import asyncio
import copy
from typing import Any

import pytest

from tests.chain.place import MAKER, OTHER, USER, deployed, opened
from tests.chain.test_wallet import local
from tests.requirements import requirement
from toolcrib import Refused, Session
from toolcrib.chain import ChainLimits, eip712
from toolcrib.chain.values import keccak
from toolcrib.errors import ToolFailure
from toolcrib.testing.chain import Anvil
from toolcrib.types import Question

TOKEN = "0x" + "70" * 20
MAIL: dict[str, Any] = {
    "types": {
        "EIP712Domain": [
            {"name": "name", "type": "string"},
            {"name": "version", "type": "string"},
            {"name": "chainId", "type": "uint256"},
            {"name": "verifyingContract", "type": "address"},
        ],
        "Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}],
        "Mail": [
            {"name": "from", "type": "Person"},
            {"name": "to", "type": "Person"},
            {"name": "contents", "type": "string"},
        ],
    },
    "primaryType": "Mail",
    "domain": {
        "name": "Ether Mail",
        "version": "1",
        "chainId": 1,
        "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
    },
    "message": {
        "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
        "to": {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},
        "contents": "Hello, Bob!",
    },
}
"""The example that the standard itself hashes."""


def fields(text: str) -> list[dict[str, str]]:
    """`uint256 value, ...` as a list of fields."""
    return [dict(zip(("type", "name"), one.split(), strict=True)) for one in text.split(",")]


def data(primary: str, message: dict[str, Any], chain: Any = 31337, **types: str) -> dict[str, Any]:
    """Typed data over types that are written out."""
    domain = {"name": "Test", "chainId": chain, "verifyingContract": TOKEN}
    made = {name: fields(text) for name, text in types.items()}
    return {"types": made, "primaryType": primary, "domain": domain, "message": message}


def permit(value: Any, spender: str = OTHER, **more: Any) -> dict[str, Any]:
    kinds = "address owner,address spender,uint256 value,uint256 nonce,uint256 deadline"
    said = {"owner": USER, "spender": spender, "value": value, "nonce": 0, "deadline": 9}
    return data("Permit", said, Permit=kinds, **more)


WIDE = data(
    "Wide",
    {
        "rows": [[{"who": USER, "marks": ["0x" + "ab" * 4]}]],
        "ok": True,
        "down": "-5",
        "raw": "0x1234",
        "many": ["1", 2],
    },
    Wide="Row[][] rows,bool ok,int24 down,bytes raw,uint8[2] many",
    Row="address who,bytes4[] marks",
)


@requirement("wallet.11")
def test_the_example_of_the_standard_is_hashed_as_it_says() -> None:
    assert eip712.read(MAIL).digest == "0xbe609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2"
    without = copy.deepcopy(MAIL)
    del without["types"]["EIP712Domain"]  # then it is what the domain has
    assert eip712.read(without).digest == eip712.read(MAIL).digest


async def asked(session: Session, given: Any) -> Question:
    """The question that a call asks."""
    call = await session.submit("sign_typed_data", {"typed_data": given, "description": "Sign it"})
    async for event in session.events(call=call.id):
        assert event.kind != "done", event.fields
        if event.kind == "waiting":
            break
    return next(one for one in await session.questions() if one.call == call.id)


def signed(chain: Anvil, question: Question, who: str = USER) -> dict[str, Any]:
    signature = chain.ask("eth_signTypedData_v4", who, question.data["typed_data"])
    return {"signature": signature, "digest": question.data["digest"]}


@requirement("wallet.11")
@pytest.mark.parametrize("given", [permit("5"), WIDE], ids=["permit", "wide"])
async def test_a_wallet_signs_just_what_was_asked_for(given: dict[str, Any], anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        question = await asked(session, given)
        assert (question.kind, question.resume) == ("client", "pass")
        assert question.data.keys() == {
            *("type", "chain_id", "from", "typed_data", "description", "warnings", "expires_at", "digest"),
        }
        answer = await asyncio.to_thread(signed, anvil_server, question)
        await session.answer(question.id, "accept", answer)
        result = await session.result(question.call)
    assert result.ok, result.failure
    told = {"signature": answer["signature"], "from": USER, "digest": question.data["digest"], "chain_id": 31337}
    assert result.data == told


@requirement("wallet.11")
async def test_a_signature_of_somebody_else_or_of_something_else_is_found_out(anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        for who, given in ((MAKER, permit("5")), (USER, permit("6"))):
            question = await asked(session, permit("5"))
            made = await asyncio.to_thread(anvil_server.ask, "eth_signTypedData_v4", who, eip712.read(given).as_json())
            await session.answer(question.id, "accept", {"signature": made})
            failure = (await session.result(question.call)).failure
            assert failure is not None
            assert (failure.code, failure.message) == ("failed", f"The signature is not one of {USER}")


@requirement("wallet.11")
async def test_an_account_that_is_a_contract_signs_in_its_own_way(anvil_server: Anvil) -> None:
    account = deployed(anvil_server, "Account")
    async with opened(local(anvil_server), user=account) as session:
        for right in (True, False):
            question = await asked(session, permit("5"))
            made = keccak(bytes.fromhex(question.data["digest"][2:])) if right else b"\x01" * 32
            await session.answer(question.id, "accept", {"signature": "0x" + made.hex()})
            assert (await session.result(question.call)).ok is right


@requirement("wallet.11")
async def test_what_does_not_fit_leaves_the_question_open_and_no_is_no(anvil_server: Anvil) -> None:
    async with opened(local(anvil_server)) as session:
        question = await asked(session, permit("5"))
        value: Any
        for value in (None, {}, {"signature": "0x"}, {"signature": "x"}, {"signature": "0x12", "digest": "0x"}):
            with pytest.raises(Refused, match="does not fit"):
                await session.answer(question.id, "accept", value)
        await session.answer(question.id, "accept", {"rejected": True})
        failure = (await session.result(question.call)).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("declined", "Rejected in the wallet")


LEAST = "address token,uint160 amount,uint48 expiration,uint48 nonce"
PERMITS = [
    (permit("5"), "5", False),
    (permit(str(2**255)), str(2**255), True),
    (
        data(
            "Permit",
            {"holder": USER, "spender": OTHER, "nonce": 0, "expiry": 0, "allowed": True},
            Permit="address holder,address spender,uint256 nonce,uint256 expiry,bool allowed",
        ),
        str(2**256 - 1),
        True,
    ),
    (
        data(
            "PermitSingle",
            {
                "details": {"token": TOKEN, "amount": str(2**160 - 1), "expiration": 1, "nonce": 0},
                "spender": OTHER,
                "sigDeadline": 9,
            },
            PermitSingle="PermitDetails details,address spender,uint256 sigDeadline",
            PermitDetails=LEAST,
        ),
        str(2**160 - 1),
        True,
    ),
    (
        data(
            "PermitBatchTransferFrom",
            {"permitted": [{"token": TOKEN, "amount": "7"}], "spender": OTHER, "nonce": 1, "deadline": 9},
            PermitBatchTransferFrom="Allowed[] permitted,address spender,uint256 nonce,uint256 deadline",
            Allowed="address token,uint256 amount",
        ),
        "7",
        False,
    ),
]


@requirement("wallet.11", "chain.safe.4")
@pytest.mark.parametrize(("given", "units", "infinite"), PERMITS, ids=[case[0]["primaryType"] for case in PERMITS])
async def test_permits_are_told_and_without_a_bound_denied(
    given: dict[str, Any], units: str, infinite: bool, anvil_server: Anvil
) -> None:
    async with opened(local(anvil_server, limits=ChainLimits(infinite_approvals=True))) as session:
        question = await asked(session, given)
        (told,) = question.data["warnings"]
        assert (told["function"], told["spender"], told["amount"]) == (given["primaryType"], OTHER, units)
        assert (told["token"].lower(), told["infinite"]) == (TOKEN, infinite)
        await session.cancel(question.call)
    if infinite:
        async with opened(local(anvil_server)) as session:
            assert await refused(session, given) == f"denied: {given['primaryType']} without a bound is not allowed"


async def refused(session: Session, given: Any) -> str:
    result = await session.call("sign_typed_data", {"typed_data": given, "description": "Sign it"})
    assert result.failure is not None, result
    assert await session.questions() == []
    return f"{result.failure.code}: {result.failure.message}"


@requirement("wallet.11", "chain.safe.2", "chain.safe.3")
async def test_chain_and_limits_are_looked_at_before_anybody_is_asked(anvil_server: Anvil) -> None:
    limits = ChainLimits(deny_to=[MAKER], token={TOKEN: 10})
    async with opened(local(anvil_server, limits=limits)) as session:
        said = await refused(session, permit("5", chain=5))
        assert said == "invalid_arguments: The typed data is for chain 5, and the user is on chain 31337"
        unnamed = permit("5")
        del unnamed["domain"]["chainId"]
        assert "is for no chain" in await refused(session, unnamed)
        assert await refused(session, permit("5", spender=MAKER)) == f"denied: Target {MAKER} is not allowed"
        assert "is above the limit of 10" in await refused(session, permit("11"))
    async with opened(local(anvil_server, limits=ChainLimits(allow_to=[OTHER]))) as session:
        assert "denied: Target" in await refused(session, permit("5"))
    async with opened(local(anvil_server), policy={"grants": {"allow": []}}) as session:
        assert (await refused(session, permit("5"))).startswith("denied")
    async with opened(local(anvil_server), user=None) as session:
        assert (await refused(session, permit("5"))).startswith("unavailable: No wallet connected")


def wrong(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(MAIL), **changes}


@requirement("wallet.11")
@pytest.mark.parametrize(
    "given",
    [
        *("x", "[]", "[" * 5000, {}, wrong(primaryType="None"), wrong(primaryType="EIP712Domain"), wrong(message={})),
        wrong(types={"Mail": 5}),
        wrong(types={"Mail": [{"name": "x", "type": "uint"}]}, message={"x": 1}),
        wrong(types={"Mail": [{"name": "x", "type": "Nothing"}]}, message={"x": 1}),
        wrong(types={"Mail": [{"name": "x", "type": "bool"}]}, message={"x": "false"}),
        wrong(types={"Mail": [{"name": "x", "type": "uint8[2]"}]}, message={"x": [1]}),
        wrong(types={"Mail": [{"name": "x", "type": "uint8"}]}, message={"x": 256}),
        wrong(types={"Mail": [{"name": "x", "type": "Mail[]"}, {"name": "x", "type": "bool"}]}, message={"x": []}),
        wrong(domain={"chainId": 1, "owner": "me"}),
        wrong(message={"x": "y" * 200_000}),
    ],
)
def test_typed_data_that_does_not_hold_is_told(given: Any) -> None:
    with pytest.raises(ToolFailure) as failed:
        eip712.read(given)
    assert failed.value.code == "invalid_arguments"
    assert failed.value.message.startswith("Invalid typed data: ")


def test_a_type_may_hold_itself_but_not_without_end() -> None:
    deep: dict[str, Any] = {"next": []}
    for _ in range(30):
        deep = {"next": [deep]}
    with pytest.raises(ToolFailure, match="deeper than 16"):
        eip712.read(data("Node", deep, Node="Node[] next"))
