"""Accounts on a real chain: what they hold, and what they did."""

import pytest

from tests.chain.explorer import Explorer, exploring
from tests.chain.place import MAKER, deployed, opened, send
from tests.chain.test_ethereum import called, over
from tests.requirements import requirement
from toolcrib.chain import account
from toolcrib.chain.abi import encode_call as encoded
from toolcrib.testing.chain import Anvil

FIELDS = {
    *("hash", "block_number", "timestamp", "from_address", "to_address", "value", "gas", "gas_price", "gas_used"),
    *("is_error", "input", "contract_address"),
}


def fresh(number: int) -> str:
    """An address that no other test uses, in lower case."""
    return f"0x{0xACC0_0000 + number:040x}"


@requirement("account.1")
async def test_what_an_account_holds(anvil_server: Anvil) -> None:
    token, empty = deployed(anvil_server, "Token"), fresh(1)
    send(anvil_server, MAKER, empty, value=2**70)
    async with opened(over(anvil_server)) as session:
        held = await called(session, "get_account_info", address=empty, chain_id=31337)
        contract = await called(session, "get_account_info", address=token)
    assert held.pop("address").lower() == empty
    assert held == {"chain_id": 31337, "balance": str(2**70), "nonce": 0, "is_contract": False}
    assert contract["is_contract"]


@requirement("account.2", "account.4")
async def test_history_without_an_explorer_comes_from_the_last_blocks(anvil_server: Anvil) -> None:
    me = fresh(2)
    anvil_server.ask("anvil_setBalance", me, hex(10**18))
    anvil_server.ask("anvil_impersonateAccount", me)
    send(anvil_server, MAKER, me, value=7)
    echo = deployed(anvil_server, "Echo")
    failing = {"from": me, "to": echo, "data": encoded("fail(uint256)", ["1"]), "gas": hex(100_000)}
    anvil_server.ask("eth_sendTransaction", failing)
    anvil_server.ask("evm_mine")
    async with opened(over(anvil_server)) as session:
        whole = await called(session, "get_account_transaction_history", address=me)
        part = await called(session, "get_account_transaction_history", address=me, limit=1, offset=1)
    assert (whole["count"], whole["chain_id"], whole["complete"]) == (2, 31337, True)
    failed, received = whole["transactions"]
    assert failed.keys() == FIELDS
    assert failed["is_error"]
    assert received["value"] == "7"
    assert received["from_address"] == MAKER
    assert received["contract_address"] is None
    assert isinstance(received["timestamp"], int)
    assert isinstance(received["gas_price"], str)
    assert part["transactions"] == [received]


@requirement("account.4")
async def test_a_history_that_is_not_all_says_so(anvil_server: Anvil, monkeypatch: pytest.MonkeyPatch) -> None:
    me = fresh(3)
    send(anvil_server, MAKER, me, value=7)
    anvil_server.ask("anvil_mine", hex(20))
    monkeypatch.setattr(account, "BLOCKS", 10)
    async with opened(over(anvil_server)) as session:
        seen = await called(session, "get_account_transaction_history", address=me)
    assert seen["transactions"] == []
    assert not seen["complete"]


@requirement("account.2", "account.3")
async def test_history_of_an_explorer_is_kept_until_the_account_acts(anvil_server: Anvil) -> None:
    me, explorer = fresh(4), Explorer(anvil_server)
    send(anvil_server, MAKER, me, value=7)
    async with exploring(explorer) as settings, opened(over(anvil_server, **settings)) as session:

        async def seen(**more: int) -> int:
            found = await called(session, "get_account_transaction_history", address=me, chain_id=31337, **more)
            assert all(one.keys() == FIELDS for one in found["transactions"])
            return int(found["count"])

        assert await seen(current_nonce=3) == 1
        send(anvil_server, MAKER, me, value=8)
        assert await seen(current_nonce=3) == 1  # it is less than a minute old
        assert await seen(limit=1, offset=5) == 0
        assert explorer.seen["etherscan"] == 1
        assert await seen(current_nonce=4) == 2
        assert explorer.seen["etherscan"] == 2
        await called(session, "get_account_transaction_history", address=fresh(5))
        for wrong in ({"limit": 0}, {"limit": 1001}, {"offset": -1}):
            failure = (await session.call("get_account_transaction_history", {"address": me, **wrong})).failure
            assert failure is not None
            assert failure.code == "invalid_arguments"


@requirement("account.3")
async def test_an_old_history_is_asked_for_again(anvil_server: Anvil, monkeypatch: pytest.MonkeyPatch) -> None:
    me, explorer = fresh(6), Explorer(anvil_server)
    monkeypatch.setattr(account, "FRESH_S", 0.0)
    async with exploring(explorer) as settings, opened(over(anvil_server, **settings)) as session:
        for expected in (0, 1):
            found = await called(session, "get_account_transaction_history", address=me)
            assert found["count"] == expected
            send(anvil_server, MAKER, me, value=7)
