"""Balances, code, calls, simulations, blocks and transactions on a real chain."""

import asyncio
import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.chain.explorer import Explorer, exploring
from tests.chain.place import CLOSED, MAKER, OTHER, USER, Answered, deployed, killed, kits, opened, send, serving
from tests.chain.test_ethereum import called, over
from tests.requirements import requirement
from toolcrib import Crib, Session
from toolcrib.chain import Chain, Chains
from toolcrib.chain.abi import encode_call as encoded
from toolcrib.chain.simulation import SimulationOutcome
from toolcrib.testing.chain import Anvil


def ours(chain: Anvil, **options: Any) -> Chains:
    """The chain as a local one."""
    return Chains([Chain(chain.chain_id, "anvil", chain.url, local=True)], sourcify_url=CLOSED, **options)


async def message_of(session: Session, tool: str, **arguments: Any) -> str:
    """`code: message` of a call that fails."""
    result = await session.call(tool, arguments)
    assert result.failure is not None, result
    return f"{result.failure.code}: {result.failure.message}"


@requirement("cast.1")
async def test_balance_and_code(anvil_server: Anvil) -> None:
    token, poor = deployed(anvil_server, "Token"), "0x" + "0" * 36 + "ca51"
    before = int(anvil_server.ask("eth_blockNumber"), 16)
    send(anvil_server, MAKER, poor, value=2**65)
    code = anvil_server.ask("eth_getCode", token, "latest")
    async with opened(over(anvil_server)) as session:
        now = await called(session, "get_account_balance", address=poor, network="anvil")
        then = await called(session, "get_account_balance", address=poor, block=before)
        hash = anvil_server.ask("eth_getBlockByNumber", hex(before), False)["hash"]
        at_hash = await called(session, "get_account_balance", address=poor, block=hash, network="31337")
        whole = await called(session, "get_contract_code", address=token)
        size = await called(session, "get_contract_code_size", address=token)
        wrong = await message_of(session, "get_account_balance", address=poor, block="foo")
    assert (now["balance"], now["block"], now["chain_id"]) == (str(2**65), "latest", 31337)
    assert (then["balance"], then["block"]) == ("0", before)
    assert (at_hash["balance"], at_hash["block"]) == ("0", hash)
    assert whole == {"address": token, "code": code, "size": len(code) // 2 - 1, "chain_id": 31337}
    assert size == {"address": token, "size": len(code) // 2 - 1, "chain_id": 31337}
    assert wrong.startswith("invalid_arguments: Invalid block identifier 'foo'")


@requirement("cast.2", "chain.client.9")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        (0, "Error: plain text"),
        (1, "custom error 0x35fd4500"),
        (2, "Panic(0x01) assertion failed"),
        (3, "Panic(0x12) division by zero"),
        (4, "reverted without data"),
    ],
)
async def test_a_call_that_reverts_tells_why(how: int, said: str, anvil_server: Anvil) -> None:
    echo = deployed(anvil_server, "Echo")
    async with opened(over(anvil_server)) as session:
        told = await message_of(session, "call_view_function", to=echo, function="fail(uint256)", args=[str(how)])
        tried = await called(session, "simulate_contract_call", to=echo, function="fail(uint256)", args=[str(how)])
    assert tried["ok"] is False
    if how != 1:
        assert told == f"failed: {said}"
        assert tried["error"] == said
    assert told.startswith("failed: ")


@requirement("chain.client.9")
async def test_a_custom_error_has_its_name_where_the_abi_is_known(anvil_server: Anvil) -> None:
    echo, token = deployed(anvil_server, "Echo"), deployed(anvil_server, "Token")
    failing = {"to": echo, "function": "fail(uint256)", "args": ["1"]}
    explorer = Explorer(anvil_server, sourcify={echo: "Echo"})
    errors = ["error NotEnough(address holder, uint256 has, uint256 needs)"]
    async with exploring(explorer) as settings, opened(over(anvil_server, **settings, errors=errors)) as session:
        assert (await message_of(session, "call_view_function", **failing)).startswith("failed: custom error 0x")
        await called(session, "get_contract_abi", address=echo)
        assert await message_of(session, "call_view_function", **failing) == "failed: Wrong(7, custom)"
        moving = {"to": token, "function": "transfer(address,uint256)", "args": [OTHER, "5"], "from": USER}
        assert await message_of(session, "call_view_function", **moving) == f"failed: NotEnough({USER}, 0, 5)"
        assert (await called(session, "simulate_contract_call", **moving))["error"] == f"NotEnough({USER}, 0, 5)"


@requirement("cast.2")
async def test_a_view_function_is_called_and_decoded(anvil_server: Anvil) -> None:
    token = deployed(anvil_server, "Token")
    async with opened(over(anvil_server)) as session:
        asked = {"to": token, "function": "decimals()(uint8)"}
        assert (await called(session, "call_view_function", **asked))["decoded"] == "6"
        raw = await called(session, "call_view_function", to=token, input=encoded("symbol()", [])[2:])
        assert raw.keys() == {"result", "chain_id"}
        told = await message_of(session, "call_view_function", to=token, input="0xzz")
        assert told == "invalid_arguments: Calldata must be a 0x-prefixed hex string"
        told = await message_of(session, "call_view_function", to=token, function="decimals()(string)")
        assert told == "failed: The data cannot be decoded as (string)"
        told = await message_of(session, "call_view_function", to=token, function="f()", input="0x1234")
        assert told.startswith("invalid_arguments: Give either")
        for value in (1.5, True, "-1", "0x" + "f" * 65):
            result = await session.call("call_view_function", {"to": token, "value": value})
            assert result.failure is not None
            assert result.failure.code == "invalid_arguments", value


@requirement("cast.3", "forge.sim.1", "forge.sim.2", "forge.sim.3")
async def test_a_simulation_tells_cost_and_moves_and_changes_nothing(anvil_server: Anvil) -> None:
    token = deployed(anvil_server, "Token")
    send(anvil_server, USER, token, encoded("mint(address,uint256)", [USER, "100"]))
    async with opened(over(anvil_server)) as session:
        moving = {"to": token, "function": "transfer(address,uint256)(bool)", "args": [OTHER, "60"]}
        moved = await called(session, "simulate_contract_call", **moving)
        paid = await called(session, "simulate_contract_call", to=OTHER, value="5")
        held = await called(session, "get_erc20_balance", token_address=token, holder_address=USER)
    assert moved["ok"]
    assert moved["decoded"] is True
    assert moved["moves"] == [{"token": token, "from": USER, "to": OTHER, "amount": "60"}]
    assert int(moved["gas_limit"]) == -(-int(moved["gas_used"]) * 3 // 2)
    assert paid["moves"] == [{"token": "native", "from": USER, "to": OTHER, "amount": "5"}]
    assert paid["gas_limit"] == "31500"
    assert held["balance"] == "100"


@requirement("forge.sim.1")
@pytest.mark.process
async def test_a_group_is_simulated_at_once_a_block_later_than_the_last(box: Anvil) -> None:
    clock = "0x" + "0" * 36 + "1234"
    box.ask("anvil_setCode", clock, "0x4260005260206000f3")  # it gives the time of its block
    asked: list[Any] = []
    plan = [{"calls": [{"to": clock, "function": "now()"}, {"to": OTHER, "value": "1"}]}]
    async with without(box, heard=asked) as url:
        chains = Chains([Chain(1, "ethereum", url, local=True, propose=True)], sourcify_url=CLOSED)
        async with opened(chains) as session:
            last = int(box.ask("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
            told = await called(session, "simulate_contract_call", to=clock)
            call = await session.submit("forge_execute", {"plan": plan})
            async for event in session.events(call=call.id):
                if event.kind == "waiting":
                    break
    assert int(told["result"], 16) == last + 12
    _, group = [one["params"] for one in asked if one["method"] == "eth_simulateV1"]
    assert group[0]["validation"] is False
    assert group[0]["traceTransfers"] is True
    (block,) = group[0]["blockStateCalls"]
    assert block["blockOverrides"] == {"time": hex(last + 12)}
    assert [(one["from"], one["to"]) for one in block["calls"]] == [(USER, clock), (USER, OTHER)]


@requirement("forge.sim.1")
@pytest.mark.process
async def test_only_status_and_data_of_each_call_decide(box: Anvil) -> None:
    def told(**call: Any) -> list[Any]:
        return [{"calls": [{"returnData": "0x", "gasUsed": "0x5208", "logs": [], **call}]}]

    text = encoded("Error(string)", ["no"])
    for call, error in (
        ({"status": "0x1", "error": {"code": -3200, "message": "odd"}}, None),
        ({"status": "0x0"}, "reverted without data"),
        ({"status": "0x0", "returnData": text}, "Error: no"),
    ):
        async with (
            without(box, said={"eth_simulateV1": told(**call)}) as url,
            opened(Chains([Chain(1, "ethereum", url)])) as session,
        ):
            found = await called(session, "simulate_contract_call", to=OTHER)
        assert (found["ok"], found.get("error")) == (error is None, error)


@requirement("forge.sim.2")
@pytest.mark.parametrize(("used", "offered"), [(0, 21_000), (14_000, 21_000), (14_001, 21_002), (100_001, 150_002)])
def test_gas_is_half_as_much_again_rounded_up(used: int, offered: int) -> None:
    assert SimulationOutcome("0x", used, ()).gas == offered


def without(
    chain: Anvil,
    *methods: str,
    version: str | None = None,
    said: Mapping[str, Any] | None = None,
    heard: list[Any] | None = None,
) -> Any:
    """A node that lacks some methods or says something else to others, in front of a real one."""
    instead = {**(said or {}), **({} if version is None else {"web3_clientVersion": version})}

    def answer(line: str, body: bytes) -> Answered:
        asked = json.loads(body)
        if heard is not None:
            heard.append(asked)
        if asked["method"] in methods:
            told: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
        elif asked["method"] in instead:
            told = {"result": instead[asked["method"]]}
        else:
            told = _relayed(chain, asked)
        return 200, {}, json.dumps({"jsonrpc": "2.0", "id": 1, **told}).encode()

    return serving(answer)


def _relayed(chain: Anvil, asked: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(chain.url, json.dumps(asked).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        said: dict[str, Any] = json.load(reply)
    return said


@requirement("forge.sim.4")
@pytest.mark.process
async def test_a_node_without_simulation_of_ours_makes_the_calls_and_takes_them_back(box: Anvil) -> None:
    token = deployed(box, "Token")
    send(box, USER, token, encoded("mint(address,uint256)", [USER, "100"]))
    head = box.ask("eth_blockNumber")
    moving = {"to": token, "function": "transfer(address,uint256)", "args": [OTHER, "60"]}
    async with without(box, "eth_simulateV1") as url:
        async with opened(Chains([Chain(1, "ethereum", url, local=True)])) as session:
            moved = await called(session, "simulate_contract_call", **moving)
            failed = await called(session, "simulate_contract_call", **{**moving, "args": [OTHER, "101"]})
        async with opened(Chains([Chain(1, "ethereum", url)])) as session:
            estimated = await called(session, "simulate_contract_call", **moving)
            refused = await called(session, "simulate_contract_call", **{**moving, "args": [OTHER, "101"]})
    assert moved["ok"]
    assert moved["moves"] == [{"token": token, "from": USER, "to": OTHER, "amount": "60"}]
    assert failed["error"].startswith("custom error 0x")
    assert estimated["ok"]
    assert int(estimated["gas_used"]) >= int(moved["gas_used"])
    assert refused["error"] == failed["error"]
    assert box.ask("eth_blockNumber") == head


@requirement("cast.4")
async def test_transactions_and_blocks_and_their_fields(anvil_server: Anvil) -> None:
    receipt = send(anvil_server, MAKER, OTHER, value=3)
    async with opened(over(anvil_server)) as session:
        whole = await called(session, "get_transaction_details", tx_hash=receipt["transactionHash"])
        field = await called(session, "get_transaction_details", tx_hash=receipt["transactionHash"], field="gasUsed")
        block = await called(session, "get_block_details", block=receipt["blockHash"])
        number = await called(session, "get_block_details", block="latest", field="number")
        told = [
            await message_of(session, "get_transaction_details", tx_hash="x"),
            await message_of(session, "get_transaction_details", tx_hash="0x" + "1" * 64),
            await message_of(session, "get_transaction_details", tx_hash=receipt["transactionHash"], field="f"),
            await message_of(session, "get_block_details", block=10**9),
            await message_of(session, "get_block_details", field="f"),
        ]
    assert whole["transaction"]["value"] == "0x3"
    assert whole["receipt"]["status"] == "0x1"
    assert (field["field"], field["value"]) == ("gasUsed", "0x5208")
    assert block["hash"] == receipt["blockHash"]
    assert int(number["value"], 16) >= int(receipt["blockNumber"], 16)
    assert told == [
        "invalid_arguments: Invalid transaction hash 'x'",
        "not_found: Transaction not found",
        "invalid_arguments: Field 'f' not found in transaction or receipt",
        "not_found: Block not found",
        "invalid_arguments: Field 'f' not found in block data",
    ]


@requirement("cast.6")
async def test_sending_is_for_development_chains_alone(anvil_server: Anvil) -> None:
    paying = {"from": MAKER, "to": OTHER, "value": "5"}
    async with opened(ours(anvil_server)) as session:
        sent = await called(session, "send_transaction", **paying)
        assert sent["status"] == "success"
        told = await message_of(session, "send_transaction", **{**paying, "from": "0x" + "1" * 40})
        assert told.startswith("failed: The node of chain 31337 refused eth_sendTransaction")
    async with opened(over(anvil_server)) as session:
        assert (await message_of(session, "send_transaction", **paying)).startswith("not_found")
    async with (
        without(anvil_server, version="Geth/v1.14") as url,
        opened(Chains([Chain(31337, "anvil", url, local=True)])) as session,
    ):
        told = await message_of(session, "send_transaction", **paying)
    assert told == "denied: Chain 31337 is no local development chain"
    remote = Chains([Chain(1, "ethereum", "https://node.example", local=True), Chain(2, "two", CLOSED)])
    async with opened(remote) as session:
        assert (await message_of(session, "send_transaction", **paying)).startswith("denied")


@requirement("cast.6")
@pytest.mark.process
async def test_a_transaction_of_a_process_that_died_is_found_by_its_nonce(box: Anvil, tmp_path: Path) -> None:
    call = await asyncio.to_thread(killed, "send", box.url, str(tmp_path / "store.db"))
    box.ask("evm_mine")
    assert box.ask("eth_getTransactionCount", OTHER, "latest") == "0x1"  # it was sent, and nobody was told
    async with Crib(kits(ours(box)), store=f"sqlite:///{tmp_path}/store.db") as crib:
        session = await crib.open("s-1", owner="ada", namespaces=["cast"])
        result = await session.result(call)
    assert result.ok, result.failure
    assert result.data["status"] == "success"
    assert box.ask("eth_getTransactionCount", OTHER, "latest") == "0x1"
