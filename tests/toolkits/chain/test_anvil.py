"""The chain that tests run on: where it comes from, how it starts and how it ends; and what a program loads for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.toolkits.chain.place import CORE, NAMESPACES, kits, need
from toolcrib.testing.chain import ACCOUNTS, anvil, fetched
from toolcrib.testing.services import ServiceError
from toolcrib.toolkits import toolkit
from toolcrib.toolkits.chain import Chain, Chains

MEMBER = "package/build/UniswapV2Factory.json"


@requirement("anvil.1")
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


@requirement("anvil.2")
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


@requirement("chain.client.1")
def test_libraries_are_loaded_when_a_toolkit_is_made() -> None:
    script = """
import sys
import toolcrib
from toolcrib.toolkits import cast, ethereum
from toolcrib.toolkits.chain import Chain, Chains
chains = Chains([Chain(1, "ethereum", "http://127.0.0.1:9")])
heavy = {"httpx", "eth_abi", "Crypto", "web3", "eth_account"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
ethereum.tools(chains), cast.tools(chains)
assert heavy & sys.modules.keys() == {"httpx", "eth_abi", "Crypto"}
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=60)


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
    assert moving == ["send_transaction_to_wallet", "forge_execute", "next_groups"]
    assert {tool.name for tool in tools if tool.does != "read"} == {
        *("forge_execute", "next_groups", "send_transaction", "send_transaction_to_wallet", "set_execution_plan"),
    }
    assert all(tool.knowledge.anti_patterns for tool in tools if tool.name != "get_time_and_onchain_context")
