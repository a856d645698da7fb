"""Nodes that are away, lie, are slow, talk nonsense or limit us: clear failures, and no endpoint in any of them."""

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.chain.place import CLOSED, USDC, USER, Answered, Replay, mainnet, opened, replaying, serving
from tests.requirements import requirement
from toolcrib import Session
from toolcrib.chain import BadChain, Chain, ChainLimits, Chains, proposals, simulation
from toolcrib.chain.rpc import RpcNode
from toolcrib.testing.chain import Anvil
from toolcrib.types import Failure

KEY = "0123456789abcdef0123456789abcdef"
RIGHT = {"method": "eth_chainId", "result": "0x1"}
BALANCE = {"method": "eth_getBalance", "result": "0x5"}
GREETING = {
    "types": {"Greeting": [{"name": "text", "type": "string"}]},
    "primaryType": "Greeting",
    "domain": {"chainId": 1},
    "message": {"text": "hello"},
}


@asynccontextmanager
async def node(*replies: dict[str, Any], **options: Any) -> AsyncIterator[tuple[Session, Replay]]:
    """A session over chain 1, whose node gives just these replies at a URL that holds a key."""
    async with replaying({"rpc": list(replies)}) as (server, url):
        chains = Chains([Chain(1, "ethereum", f"{url}/v3/{KEY}?token={KEY}")], sourcify_url=CLOSED, **options)
        async with opened(chains, user=None) as session:
            yield session, server


async def failure_of(session: Session, tool: str = "get_account_balance", **arguments: Any) -> Failure:
    """Why a call fails; nothing of it may tell the endpoint."""
    result = await session.call(tool, arguments or {"address": USER})
    assert result.failure is not None
    told = json.dumps([event.fields async for event in session.events(follow=False)])
    for text in (str(result.failure), told):
        assert KEY not in text
        assert "127.0.0.1" not in text
    return result.failure


@requirement("chain.client.5")
async def test_an_endpoint_of_another_chain_is_found_out_at_once() -> None:
    async with node({"method": "eth_chainId", "result": "0x89"}, BALANCE) as (session, server):
        failure = await failure_of(session)
        assert failure == Failure(
            "unavailable",
            "Endpoint of chain 1 answers for chain 137",
            False,
            "The operator has to correct its settings.",
        )
        assert server.seen["rpc"] == 1
        await failure_of(session)
        assert server.seen["rpc"] == 2  # it may have been corrected since


@requirement("chain.client.6", "chain.client.8")
async def test_reads_are_tried_three_times_where_a_node_is_busy() -> None:
    busy = {"method": "eth_getBalance", "http": 503, "text": "<html>busy</html>"}
    async with node(RIGHT, busy, busy, BALANCE) as (session, server):
        result = await session.call("get_account_balance", {"address": USER})
        assert result.data["balance"] == "5"
        assert server.seen["rpc"] == 4
    async with node(RIGHT, busy) as (session, server):
        failure = await failure_of(session)
        assert (failure.code, failure.retryable) == ("unavailable", True)
        assert failure.message == "Cast client for 'ethereum' not available"
        assert server.seen["rpc"] == 4


@requirement("chain.client.8")
@pytest.mark.parametrize(
    ("reply", "code", "retryable", "said"),
    [
        ({"http": 429}, "rate_limited", True, "limits our requests"),
        ({"error": {"code": -32005, "message": f"limit at https://x.example/{KEY}"}}, "rate_limited", True, "[url]"),
        ({"http": 200, "text": "<html>hello</html>"}, "unavailable", True, "does not answer in JSON-RPC"),
        ({"http": 200, "text": "[" * 100_000}, "unavailable", True, "does not answer in JSON-RPC"),
        ({"http": 302, "headers": {"location": f"http://127.0.0.1:1/{KEY}"}}, "unavailable", True, "(HTTP 302)"),
        ({"http": 401, "text": "{}"}, "unavailable", False, "refuses our credentials"),
        ({"http": 200, "text": "{}"}, "unavailable", True, "does not answer in JSON-RPC"),
        ({"error": {"code": -32601, "message": "no"}}, "unavailable", False, "does not know eth_getBalance"),
        ({"error": {"code": -32000, "message": f"bad {KEY} {'x' * 900}"}}, "failed", False, "bad ***"),
        ({"result_bytes": 11_000_000}, "too_large", False, "more than 10 MB"),
    ],
)
async def test_what_a_node_says_becomes_a_clear_failure(
    reply: dict[str, Any], code: str, retryable: bool, said: str
) -> None:
    others = [{"method": "eth_getTransactionCount", "result": "0x0"}, {"method": "eth_getCode", "result": "0x"}]
    async with node(RIGHT, *others, {"method": "eth_getBalance", **reply}) as (session, _):
        failure = await failure_of(session, "get_account_info", address=USER)
    assert (failure.code, failure.retryable) == (code, retryable)
    assert said in failure.message
    assert len(failure.message) < 420


@requirement("chain.client.6")
async def test_a_node_that_is_silent_ends_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with opened(Chains([Chain(1, "ethereum", url)], timeout_s=0.3), user=None) as session:
            failure = await failure_of(session, "get_account_info", address=USER)
        server.close()
    assert (failure.code, failure.message) == ("unavailable", "The node of chain 1 did not answer in time")
    assert failure.retryable


@requirement("cast.5", "eth.context.1")
async def test_a_node_that_is_away() -> None:
    async with opened(Chains([Chain(1, "ethereum", f"{CLOSED}/{KEY}"), Chain(5, "old", CLOSED)])) as session:
        failure = await failure_of(session)
        assert (failure.code, failure.message) == ("unavailable", "Cast client for 'ethereum' not available")
        about = (await session.call("get_time_and_onchain_context", {})).data
    assert about["block_number"] is None
    assert about["error"] == "The node of chain 1 cannot be reached"
    assert about["current_time_unix"] > 1_700_000_000
    assert about["supported_chains"] == [
        {"name": "ethereum", "chain_id": 1, "is_local": False},
        {"name": "old", "chain_id": 5, "is_local": False},
    ]


@requirement("chain.client.3")
async def test_an_unknown_chain_is_refused_before_anybody_is_asked() -> None:
    async with node(RIGHT) as (session, server):
        failure = await failure_of(session, "get_account_info", address=USER, chain_id=5)
        assert (failure.code, failure.message) == (
            "invalid_arguments",
            "Chain 5 is not supported. Supported chains: [1]",
        )
        failure = await failure_of(session, "get_account_balance", address=USER, network="x")
        assert (failure.code, failure.message) == ("invalid_arguments", "Unsupported network: x")
        for url in ("http://elsewhere.example", "file:///etc/passwd"):
            await failure_of(session, "get_account_balance", address=USER, network=url)
        assert server.seen["rpc"] == 0


@requirement("chain.client.4")
async def test_a_tool_without_a_chain_uses_the_users() -> None:
    async with (
        replaying({"rpc": [RIGHT, BALANCE]}) as (_, first),
        replaying({"rpc": [{"method": "eth_chainId", "result": "0xa"}, BALANCE]}) as (_, second),
        opened(Chains([Chain(1, "ethereum", first), Chain(10, "optimism", second)]), user=None) as session,
    ):
        for user, expected in ((None, 1), (10, 10), ("0xa", 10), (137, 1), ("x", 1)):
            await session.set_user({"chainId": user})
            result = await session.call("get_account_balance", {"address": USER})
            assert result.data["chain_id"] == expected
        named = await session.call("get_account_balance", {"address": USER, "network": " Optimism "})
        assert named.data["chain_id"] == 10


@requirement("chain.client.7")
async def test_a_tool_has_only_the_methods_on_its_list() -> None:
    chains = Chains([Chain(1, "ethereum", CLOSED)])
    rpc = chains.node(chains.all[1], "eth_getBalance")
    with pytest.raises(RuntimeError, match="not on the list"):
        await rpc("eth_sendTransaction", {})


CHECKS = {"eth_getBalance", "eth_getTransactionCount", "eth_maxPriorityFeePerGas"}
SETTLES = {"eth_getTransactionReceipt", "eth_getTransactionByHash", "eth_call"}
SIMULATES = {
    *("eth_simulateV1", "eth_getBlockByNumber", "eth_call", "eth_estimateGas", "eth_getBalance", "web3_clientVersion"),
}
LISTS = {
    "get_time_and_onchain_context": {"eth_blockNumber", "eth_gasPrice"},
    "get_account_balance": {"eth_getBalance"},
    "get_account_info": {"eth_getBalance", "eth_getTransactionCount", "eth_getCode"},
    "get_account_transaction_history": {
        *("eth_blockNumber", "eth_getBlockByNumber", "eth_getTransactionReceipt", "eth_getTransactionCount"),
    },
    "get_contract_code": {"eth_getCode"},
    "get_contract_code_size": {"eth_getCode"},
    "call_view_function": {"eth_call"},
    "simulate_contract_call": SIMULATES,
    "get_transaction_details": {"eth_getTransactionByHash", "eth_getTransactionReceipt"},
    "get_block_details": {"eth_getBlockByNumber", "eth_getBlockByHash"},
    "get_erc20_balance": {"eth_call", "eth_getCode"},
    "resolve_name": {"eth_call"},
    "encode_function_call": set(),
    "send_transaction_to_wallet": CHECKS | SIMULATES,
    "sign_typed_data": set(),
    "forge_execute": CHECKS | SIMULATES,
    "set_execution_plan": set(),
    "send_transaction": {
        *("eth_sendTransaction", "eth_getTransactionCount", "eth_getTransactionReceipt"),
        *("eth_getBlockByNumber", "eth_blockNumber", "web3_clientVersion"),
    },
}
"""What each tool may ask a node for, until it waits for the wallet."""


@requirement("chain.client.7")
@pytest.mark.process
async def test_every_tool_has_its_own_list_and_uses_nothing_else(box: Anvil, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: set[str] = set()
    may = RpcNode.may

    def heard(node: RpcNode, *methods: str) -> Any:
        listed.update(methods)
        return may(node, *methods)

    monkeypatch.setattr(RpcNode, "may", heard)
    token = "0x" + "70" * 20
    calls = [*every_read(USDC), ("get_time_and_onchain_context", {}), ("get_contract_code_size", {"address": USDC})]
    calls += [("encode_function_call", {"function_signature": "f()", "arguments": []})]
    calls += [("sign_typed_data", {"typed_data": GREETING, "description": "d"})]
    calls += [("set_execution_plan", {"groups": [{"calls": [{"to": token, "value": "1"}]}]})]
    calls += [("send_transaction", {"from": USER, "to": token, "value": "1"})]
    async with opened(mainnet(box.url)) as session:
        for tool, arguments in calls:
            listed.clear()
            call = await session.submit(tool, arguments)
            async for event in session.events(call=call.id):
                if event.kind == "waiting":
                    await session.cancel(call.id)
            assert listed == LISTS[tool], tool


@requirement("chain.client.7")
def test_no_list_signs_and_one_alone_sends() -> None:
    every = {name: methods for name, methods in LISTS.items() if methods}
    lists = [*every.values(), set(proposals.SETTLING), set(simulation.METHODS), set(proposals.READING)]
    for methods in lists:
        assert not [one for one in methods if one.startswith(("eth_sign", "personal_", "debug_", "anvil_", "evm_"))]
    assert [name for name, methods in every.items() if "eth_sendTransaction" in methods] == ["send_transaction"]
    assert set(proposals.SETTLING) == SETTLES


@requirement("chain.client.8")
async def test_no_log_tells_where_a_node_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with node(RIGHT, BALANCE) as (session, _):
        assert (await session.call("get_account_balance", {"address": USER})).ok
    assert KEY not in caplog.text
    assert KEY not in repr(Chain(1, "ethereum", f"http://x/{KEY}"))


@requirement("chain.client.2", "chain.safe.2")
def test_settings_that_do_not_hold_are_told_without_the_secret() -> None:
    for wrong in (
        Chain(0, "zero", CLOSED),
        Chain(1, "ftp", f"ftp://host/{KEY}"),
        Chain(1, "nowhere", KEY),
        Chain(1, "open", f"https://node.example/{KEY}", propose=True),
    ):
        with pytest.raises(BadChain) as refused:
            Chains([wrong])
        assert KEY not in str(refused.value)
    with pytest.raises(BadChain, match="at least one"):
        Chains([])
    with pytest.raises(BadChain, match="missing '\\('"):
        Chains([Chain(1, "ethereum", CLOSED)], errors=["Wrong"])
    with pytest.raises(BadChain, match="Invalid address: x"):
        ChainLimits(deny_to=["x"])


async def test_a_hundred_reads_share_a_few_connections(anvil_server: Anvil) -> None:
    chains = Chains([Chain(31337, "anvil", anvil_server.url)], per_host=4)
    async with opened(chains, user=None) as session:
        calls = (session.call("get_account_balance", {"address": USER}) for _ in range(100))
        results = await asyncio.gather(*calls)
        assert all(result.ok for result in results)
        transport: Any
        (transport,) = chains.http._client._kept.values()
        assert 1 <= len(transport._pool.connections) <= 4


NONSENSE: list[Any] = [
    *(None, 5, True, 1.5, "", "x", "0x", "0xzz", "0x" + "f" * 64, "0x" + "0" * 62 + "20" + "f" * 64),
    *([], {}, [None], [{}], [[]], {"number": 5}, {"number": "0x1", "timestamp": [], "transactions": [None, 5, {}]}),
    *(
        {"transactions": {"a": 1}},
        {"status": 1, "logs": [{}]},
        [{"calls": [5]}],
        [{"calls": [{"logs": [{"topics": 5}]}]}],
    ),
]


def every_read(who: str) -> list[tuple[str, dict[str, Any]]]:
    """A call of every tool that asks a node; no two are alike, or the same failure would stop them."""
    return [
        ("get_account_balance", {"address": who}),
        ("get_account_info", {"address": who}),
        ("get_account_transaction_history", {"address": who}),
        ("get_contract_code", {"address": who}),
        ("call_view_function", {"to": who, "function": "f()(string,uint256[])"}),
        ("simulate_contract_call", {"to": who, "function": "f()(uint256)"}),
        ("get_transaction_details", {"tx_hash": who + "0" * 24}),
        ("get_transaction_details", {"tx_hash": who + "1" * 24, "field": "f"}),
        ("get_block_details", {"block": who + "1" * 24}),
        ("get_erc20_balance", {"token_address": who, "holder_address": USER}),
        ("resolve_name", {"name": f"{who}.eth"}),
        ("send_transaction_to_wallet", {"to": who, "value": "0", "data": "0x", "description": "d"}),
        ("forge_execute", {"plan": [{"calls": [{"to": who, "value": "1"}]}]}),
    ]


@requirement("chain.client.8")
async def test_a_node_that_answers_nonsense_breaks_no_tool() -> None:
    rng = random.Random(13)

    def answer(line: str, body: bytes) -> Answered:
        method = json.loads(body)["method"]
        said = "0x1" if method == "eth_chainId" else rng.choice(NONSENSE)
        return 200, {}, json.dumps({"jsonrpc": "2.0", "id": 1, "result": said}).encode()

    async with serving(answer) as url, opened(mainnet(url)) as session:
        for _ in range(6):
            for tool, arguments in every_read(f"0x{rng.getrandbits(160):040x}"):
                call = await session.submit(tool, arguments)
                async for event in session.events(call=call.id):
                    if event.kind == "waiting":
                        await session.cancel(call.id)
                failure = (await session.result(call.id)).failure
                assert failure is None or failure.code != "internal", f"{tool}: {failure}"
