"""The chain that tests run on: where it comes from, how it starts and how it ends; and what a program loads for it."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.chain.place import CORE, FACTORY, MAKER, NAMESPACES, OTHER, USDC, USER, WETH, furnish, kits, need, opened
from tests.requirements import requirement
from toolcrib.chain import Chain, Chains
from toolcrib.chain.abi import encode_call
from toolcrib.testing.chain import ACCOUNTS, Anvil, anvil, fetched, program
from toolcrib.testing.services import ServiceError
from toolcrib.toolkits import toolkit

MEMBER = "package/build/UniswapV2Factory.json"


@requirement("anvil.1")
@pytest.mark.process
def test_a_package_is_held_against_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = need(lambda: fetched(CORE, MEMBER))
    assert tmp_path in kept.parents
    with pytest.raises(ServiceError, match="is not what its hash says"):
        fetched(CORE._replace(sha512="x"), MEMBER)
    monkeypatch.setenv("PATH", "")
    assert fetched(CORE, MEMBER) == kept  # from now on nobody is asked
    with pytest.raises(ServiceError, match="npm is not here"):
        fetched(CORE, "package/package.json")
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


@requirement("anvil.1")
@pytest.mark.process
def test_without_a_hash_the_first_download_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    free = CORE._replace(sha512="")
    kept = need(lambda: fetched(free, MEMBER))
    lock = kept.parent / "lock.json"
    assert json.loads(lock.read_text()) == {f"{CORE.name}@{CORE.version}": CORE.sha512}
    lock.write_text(json.dumps({f"{CORE.name}@{CORE.version}": "x"}))
    with pytest.raises(ServiceError, match="is not what its hash says"):
        fetched(free, "package/package.json")


@requirement("anvil.1")
def test_a_system_that_nothing_is_made_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    with pytest.raises(ServiceError, match="on pdp11"):
        program("anvil")


@requirement("anvil.2")
@pytest.mark.process
def test_a_chain_starts_on_loopback_with_nothing_of_ours_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_OF_OURS", "x")
    with need(lambda: anvil(chain_id=7).__enter__()) as chain:
        pid = chain.pid
        assert pid is not None
        assert int(chain.ask("eth_chainId"), 16) == 7
        assert chain.ask("web3_clientVersion").startswith("anvil/")
        assert {int(chain.ask("eth_getBalance", one, "latest"), 16) for one in ACCOUNTS} == {10**22}
        environment = Path(f"/proc/{pid}/environ")
        if environment.exists():
            assert b"A_SECRET_OF_OURS" not in environment.read_bytes()
        port = chain.port
        chain.stop()
        chain.start()
        assert (chain.port, chain.ask("eth_blockNumber")) == (port, "0x0")
        pid = chain.pid
        assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def post(chain: Anvil, method: str, *params: Any) -> tuple[dict[str, Any], Any]:
    """What a page of another site would get: the answer, and its headers."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"content-type": "application/json", "origin": "https://page.example"}
    with urllib.request.urlopen(urllib.request.Request(chain.url, body, headers), timeout=60) as reply:
        return json.load(reply), reply.headers


@requirement("anvil.3")
def test_pages_of_other_sites_may_not_read_the_chain(anvil_server: Anvil) -> None:
    said, headers = post(anvil_server, "eth_chainId")
    assert said["result"] == "0x7a69"
    assert "access-control-allow-origin" not in headers


def simulated(chain: Anvil, sender: str, to: str, value: int = 0) -> Any:
    """What the node itself says to a simulation."""
    call = {"from": sender, "to": to, "value": hex(value)}
    return post(chain, "eth_simulateV1", {"blockStateCalls": [{"calls": [call]}], "validation": False}, "latest")[0]


@requirement("anvil.3")
async def test_what_the_node_says_in_its_own_way_is_read_rightly(anvil_server: Anvil) -> None:
    failing, poor = "0x" + "0" * 36 + "fa11", "0x" + "0" * 36 + "f00d"
    anvil_server.ask("anvil_setCode", failing, "0x60006000fd")  # it reverts without a word
    (block,) = simulated(anvil_server, USER, failing)["result"]
    assert int(block["number"], 16) <= int(anvil_server.ask("eth_blockNumber"), 16)  # not the next one
    assert block["calls"][0]["error"] == {"code": -3200, "message": "execution failed"}
    assert simulated(anvil_server, poor, OTHER, 5)["error"]["code"] == -32003
    async with opened(Chains([Chain(31337, "anvil", anvil_server.url)])) as session:
        told = (await session.call("simulate_contract_call", {"to": failing})).data
        assert (told["ok"], told["error"]) == (False, "reverted without data")
        told = (await session.call("simulate_contract_call", {"to": OTHER, "from": poor, "value": "5"})).data
        assert told["ok"] is False
        assert "Insufficient funds" in told["error"]


@requirement("anvil.3")
async def test_a_receipt_is_waited_for_since_mining_takes_a_moment(anvil_server: Anvil) -> None:
    chains = Chains([Chain(31337, "anvil", anvil_server.url, local=True)])
    async with opened(chains) as session:
        for value in range(1, 6):
            sent = await session.call("send_transaction", {"from": MAKER, "to": OTHER, "value": str(value)})
            assert sent.data["status"] == "success"
            assert sent.data["block_number"] is not None


@requirement("anvil.4", "anvil.5")
@pytest.mark.process
def test_the_box_is_what_mainnet_has_and_needs_no_node_to_be_made(box: Anvil, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(to: str, signature: str, *args: Any) -> str:
        return str(box.ask("eth_call", {"to": to, "data": encode_call(signature, args)}, "latest"))

    assert read(FACTORY, "getPair(address,address)", USDC, WETH)[-40:] == "b4e16d0168e52d35cacd2c6185b44281ec28c9dc"
    assert int(read(USDC, "decimals()"), 16) == 6
    assert int(read(USDC, "balanceOf(address)", MAKER), 16) == 8 * 10**12
    with need(lambda: anvil(chain_id=1).__enter__()) as second:
        monkeypatch.setenv("PATH", "")  # what npm brought is kept, and the token is compiled in Python
        furnish(second)


@requirement("chain.client.1")
@pytest.mark.process
def test_libraries_are_loaded_when_a_toolkit_is_made() -> None:
    script = """
import sys
import toolcrib
from toolcrib.chain import cast, ethereum
from toolcrib.chain import Chain, Chains
from toolcrib.chain.abi import encode_call
chains = Chains([Chain(1, "ethereum", "http://127.0.0.1:9")])
heavy = {"httpx", "eth_abi", "Crypto", "web3", "eth_account"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
ethereum.tools(chains), cast.tools(chains)
assert heavy & sys.modules.keys() == {"httpx", "eth_abi", "Crypto"}
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], check=False, timeout=60)
    assert done.returncode == 0


def test_every_tool_says_what_it_does_and_how_it_is_used() -> None:
    chains = Chains([Chain(1, "ethereum", "http://127.0.0.1:9", local=True, propose=True)])
    made = kits(chains)
    tools = [tool for kit in made for tool in kit]
    assert [kit.name for kit in made] == NAMESPACES
    assert all(toolkit(name).tools for name in NAMESPACES)
    for tool in tools:
        assert tool.knowledge.examples, tool.id
        assert tool.limits.timeout_s, tool.id
        for example in tool.knowledge.examples:
            assert tool.parse(json.dumps(example.arguments).encode()).values is not None
        described = tool.input_schema["properties"].values()
        assert all(one.get("description") for one in described), tool.id
    moving = [tool.name for tool in tools if tool.capabilities]
    assert moving == ["send_transaction_to_wallet", "sign_typed_data", "forge_execute", "next_groups"]
    assert {tool.name for tool in tools if tool.does != "read"} == {
        *("forge_execute", "next_groups", "send_transaction", "send_transaction_to_wallet", "set_execution_plan"),
        "sign_typed_data",
    }
    assert all(tool.knowledge.anti_patterns for tool in tools if tool.name != "get_time_and_onchain_context")
