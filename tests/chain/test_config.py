"""Chains in a `crib.yaml`."""

from pathlib import Path
from typing import Any

import pytest

from tests.chain.place import USER
from toolcrib.chain import BadChain, cast, ethereum
from toolcrib.cli.config.document import BadConfig
from toolcrib.cli.config.loader import load
from toolcrib.testing.chain import Anvil

CRIB = """
sources:
  - toolkit: ethereum
    chains: &chains
      chains: [{id: 31337, name: anvil, rpc: "${RPC}", local: true, propose: true}]
      limits: {tx_wei: 100, day_wei: 100}
  - {toolkit: cast, chains: *chains}
  - {toolkit: forge, chains: *chains}
"""


async def test_a_file_names_chains_once_for_all_toolkits(
    anvil_server: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RPC", anvil_server.url)
    (tmp_path / "crib.yaml").write_text(CRIB)
    async with load(tmp_path / "crib.yaml") as crib:
        session = await crib.open("s", owner="ada", namespaces=["ethereum", "cast"])
        assert (await session.call("get_account_balance", {"address": USER})).ok
        assert "encode_function_call" in session.model_tools()


async def test_a_cache_lies_beside_the_file(
    anvil_server: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RPC", anvil_server.url)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/crib.yaml").write_text(CRIB.replace("      limits:", "      cache: chains.db\n      limits:"))
    monkeypatch.chdir(tmp_path)
    async with load(tmp_path / "project/crib.yaml") as crib:
        session = await crib.open("s", owner="ada", namespaces=["ethereum"])
        await session.call("get_contract_abi", {"name": "nothing"})
    assert (tmp_path / "project/chains.db").is_file()
    assert not (tmp_path / "chains.db").exists()


async def test_programs_for_scripts_lie_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RPC", "http://127.0.0.1:9")
    for name in ("forge", "solc"):
        (tmp_path / name).touch()
    scripts = "scripts: {forge: forge, solc: solc, ipc: anvil.ipc, timeout_s: 5}"
    (tmp_path / "crib.yaml").write_text(CRIB.replace("{toolkit: forge, ", f"{{toolkit: forge, {scripts}, "))
    async with load(tmp_path / "crib.yaml") as crib:
        session = await crib.open("s", owner="ada", namespaces=["forge"])
        assert session.tool("forge_script") is not None


def test_a_mistake_is_told_with_its_place_and_no_secret(tmp_path: Path) -> None:
    secret = "https://node.example/0123456789"
    entry = f"{{toolkit: cast, chains: [{{id: 1, name: ethereum, rpc: '{secret}', propose: true}}]}}"
    (tmp_path / "crib.yaml").write_text(f"sources:\n  - {entry}\n")
    with pytest.raises(BadConfig, match=r"crib\.yaml:2") as error:
        load(tmp_path / "crib.yaml")
    assert "needs limits=Limits" in str(error.value)
    assert "0123456789" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"id": 1}], "missing 2 required positional arguments: 'name' and 'rpc'"),
        ([{"id": "1", "name": "x", "rpc": "http://x"}], "'1' is no chain id"),
        ({"x": 1}, "Name the chains"),
        ({"chains": [{"id": 1, "name": "x", "rpc": "http://x"}], "cahe": "x"}, "unexpected keyword argument 'cahe'"),
        (
            {"chains": [{"id": 1, "name": "x", "rpc": "http://x"}], "limits": {"a": 1}},
            "unexpected keyword argument 'a'",
        ),
    ],
)
def test_settings_that_do_not_hold_are_refused(given: Any, said: str) -> None:
    with pytest.raises(BadChain, match=said):
        ethereum.tools(given)


def test_the_same_settings_are_shared() -> None:
    given = {"chains": [{"id": 1, "name": "ethereum", "rpc": "http://x"}]}
    first, second = ethereum.tools(given), cast.tools({**given})
    assert first.chains is second.chains
    assert cast.tools({**given, "per_host": 2}).chains is not first.chains
