"""The chain at a glance, verified contracts and tokens, on a real chain with explorers beside it."""

from pathlib import Path
from typing import Any

import pytest

from tests.chain.explorer import KEY, Explorer, exploring
from tests.chain.place import CLOSED, HERE, MAKER, OTHER, USER, compiled, deployed, opened, send
from tests.requirements import requirement
from toolcrib import Session
from toolcrib.chain import Chain, Chains, contracts
from toolcrib.chain.abi import encode_call as encoded
from toolcrib.chain.ethereum import REGISTRY, namehash
from toolcrib.testing.chain import Anvil, anvil


def over(chain: Anvil, **options: Any) -> Chains:
    """The settings for one chain."""
    return Chains([Chain(chain.chain_id, "anvil", chain.url)], **{"sourcify_url": CLOSED, **options})


async def called(session: Session, tool: str, **arguments: Any) -> Any:
    """The data of a call that succeeds."""
    result = await session.call(tool, arguments)
    assert result.ok, result.failure
    return result.data


@requirement("eth.context.1")
async def test_the_chain_at_a_glance(anvil_server: Anvil) -> None:
    async with opened(over(anvil_server)) as session:
        about = await called(session, "get_time_and_onchain_context")
    assert (about["chain_name"], about["chain_id"]) == ("anvil", 31337)
    assert isinstance(about["block_number"], int)
    assert int(about["gas_price_wei"]) > 0
    assert about["current_time_iso"].endswith("+00:00")
    assert about["supported_chains"] == [{"name": "anvil", "chain_id": 31337, "is_local": False}]
    assert "error" not in about
    assert "127.0.0.1" not in str(about)


@requirement("eth.erc20.1")
async def test_a_balance_of_a_token(anvil_server: Anvil) -> None:
    token = deployed(anvil_server, "Token")
    before = int(anvil_server.ask("eth_blockNumber"), 16)
    send(anvil_server, MAKER, token, encoded("mint(address,uint256)", [OTHER, str(2**200)]))
    async with opened(over(anvil_server)) as session:
        held = await called(session, "get_erc20_balance", token_address=token, holder_address=OTHER, chain_id=31337)
        asked = {"token_address": token, "holder_address": OTHER.lower(), "tag": str(before)}
        earlier = await called(session, "get_erc20_balance", **asked)
        nobody = await session.call("get_erc20_balance", {"token_address": OTHER, "holder_address": USER})
    assert held == {
        "chain_id": 31337,
        "token_address": token,
        "holder_address": OTHER,
        "balance": str(2**200),
        "symbol": "TUSD",
        "decimals": 6,
        "tag": "latest",
    }
    assert earlier["balance"] == "0"
    assert nobody.failure is not None
    assert (nobody.failure.code, nobody.failure.message) == ("not_found", f"No contract at {OTHER}")


@requirement("eth.contract.1", "eth.contract.2")
async def test_contracts_come_from_sourcify_then_from_the_cache(anvil_server: Anvil, tmp_path: Path) -> None:
    token = deployed(anvil_server, "Token")
    explorer = Explorer(anvil_server, sourcify={token: "Token"})
    async with exploring(explorer) as settings:
        chains = over(anvil_server, **settings, cache=tmp_path / "cache.db")
        async with opened(chains) as session:
            first = await called(session, "get_contract_abi", address=token, chain_id=31337)
            source = await called(session, "get_contract_source_code", address=token.lower())
        again = over(anvil_server, **settings, cache=tmp_path / "cache.db")
        async with opened(again) as session:
            after = await called(session, "get_contract_abi", address=token, format="signatures")
    assert first == {
        "found": True,
        "count": 1,
        "contracts": [
            {
                "address": token,
                "chain": "anvil",
                "chain_id": 31337,
                "name": "Token",
                "symbol": "TUSD",
                "is_proxy": False,
                "implementation_address": None,
                "fetched_from": "sourcify",
                "abi": compiled()["Token"]["abi"],
            }
        ],
    }
    text = (HERE / "contracts/Token.sol").read_text("utf-8")
    assert source["contracts"][0]["source_code"] == {"contracts/Token.sol": text}
    assert source["contracts"][0]["fetched_from"] == "cache"
    assert "transfer(address to,uint256 amount)(bool)" in after["contracts"][0]["abi"]
    assert explorer.seen == {"sourcify": 1}


@requirement("eth.contract.1", "eth.contract.2", "eth.contract.4")
async def test_a_proxy_shows_what_it_leads_to(anvil_server: Anvil) -> None:
    token, echo = deployed(anvil_server, "Token"), deployed(anvil_server, "Echo")
    explorer = Explorer(anvil_server, etherscan={token: "Token", echo: "Echo"}, proxies={token: echo})
    async with exploring(explorer) as settings, opened(over(anvil_server, **settings)) as session:
        shown = await called(session, "get_contract_abi", address=token)
        alone = await called(session, "get_contract_from_etherscan", address=echo, chain_id=31337)
    (one,) = shown["contracts"]
    assert (one["address"], one["name"], one["implementation_address"]) == (token, "Token", echo)
    assert one["is_proxy"]
    assert one["abi"] == compiled()["Echo"]["abi"]
    assert one["fetched_from"] == "etherscan"
    assert alone["contracts"][0]["source_code"].keys() == {"Echo.sol"}
    assert alone["contracts"][0]["abi"] == compiled()["Echo"]["abi"]


@requirement("eth.contract.1", "eth.contract.2")
async def test_what_nobody_has_is_not_asked_for_again(anvil_server: Anvil) -> None:
    explorer = Explorer(anvil_server)
    async with exploring(explorer) as settings, opened(over(anvil_server, **settings)) as session:
        for _ in range(2):
            failure = (await session.call("get_contract_abi", {"address": OTHER})).failure
            assert failure is not None
            assert (failure.code, failure.message) == ("not_found", "Contract source code not verified")
    assert explorer.seen == {"sourcify": 1, "etherscan": 1}


@requirement("eth.contract.2")
async def test_where_a_proxy_leads_to_is_asked_for_again(anvil_server: Anvil, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, token, echo = (deployed(anvil_server, name) for name in ("Echo", "Token", "Echo"))
    explorer = Explorer(anvil_server, sourcify={proxy: "Echo", token: "Token", echo: "Echo"}, proxies={proxy: token})
    async with exploring(explorer) as settings, opened(over(anvil_server, **settings)) as session:
        for target, old in ((token, 3600.0), (token, 3600.0), (echo, 0.0)):
            monkeypatch.setattr(contracts, "TARGET_S", old)
            shown = await called(session, "get_contract_abi", address=proxy)
            assert shown["contracts"][0]["implementation_address"] == target
            explorer.lead(proxy, echo)
    assert explorer.seen == {"sourcify": 4}


@requirement("eth.contract.3")
async def test_the_cache_is_searched_by_name_and_symbol(anvil_server: Anvil) -> None:
    token, echo = deployed(anvil_server, "Token"), deployed(anvil_server, "Echo")
    explorer = Explorer(anvil_server, sourcify={token: "Token", echo: "Echo"})
    async with exploring(explorer) as settings, opened(over(anvil_server, **settings)) as session:
        assert await called(session, "get_contract_abi", name="token") == {"found": False, "count": 0, "contracts": []}
        for where in (token, echo):
            await called(session, "get_contract_abi", address=where)
        for wanted in ({"name": " T_o-KEN"}, {"symbol": "tusd"}, {"protocol": "tok", "symbol": "TUSD"}):
            found = await called(session, "get_contract_abi", **wanted)
            assert [one["address"] for one in found["contracts"]] == [token], wanted
        zero = await called(session, "get_contract_abi", address="0x" + "0" * 40, name="echo")
        assert zero["contracts"][0]["address"] == echo
        misplaced = await called(session, "get_contract_source_code", name=token)
        assert misplaced["contracts"][0]["address"] == token
        nothing = await called(session, "get_contract_abi")
        assert nothing == {"found": False, "count": 0, "contracts": []}


@requirement("shape.etherscan.3")
async def test_an_explorer_that_refuses_tells_how_and_no_key(anvil_server: Anvil) -> None:
    explorer = Explorer(anvil_server, per_second=3)
    async with exploring(explorer) as settings:
        wrong = {**settings, "etherscan_key": "a-wrong-key"}
        async with opened(over(anvil_server, **wrong)) as session:
            result = await session.call("get_contract_from_etherscan", {"address": OTHER})
            assert result.failure is not None
            assert (result.failure.code, result.failure.retryable) == ("unavailable", False)
            assert "wrong" not in str(result.failure)
        chains = Chains([Chain(31337, "anvil", anvil_server.url), Chain(7, "seven", CLOSED)], **settings)
        async with opened(chains) as session:
            result = await session.call("get_contract_from_etherscan", {"address": OTHER, "chain_id": 7})
            assert result.failure is not None
            assert "chain 7" in result.failure.message
            history = [await session.call("get_account_transaction_history", {"address": a}) for a in _addresses(6)]
            assert all(one.ok and one.data["count"] == 0 for one in history), history  # the limit was waited for
        assert KEY not in str(result)


def _addresses(count: int) -> list[str]:
    return [f"0x{number:040x}" for number in range(1, count + 1)]


async def test_without_a_key_etherscan_is_not_there(anvil_server: Anvil) -> None:
    async with opened(over(anvil_server)) as session:
        failure = (await session.call("get_contract_from_etherscan", {"address": OTHER})).failure
        assert failure is not None
        assert (failure.code, failure.retryable) == ("unavailable", False)
        failure = (await session.call("get_contract_abi", {"address": OTHER})).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("unavailable", "Sourcify cannot be reached")


@requirement("chain.value.5")
async def test_a_name_is_resolved_by_the_registry_of_chain_1(anvil_server: Anvil) -> None:
    async with opened(over(anvil_server)) as session:
        failure = (await session.call("resolve_name", {"name": "ada.eth"})).failure
        assert failure is not None
        assert "Chain 1 is not supported" in failure.message
    with anvil(chain_id=1) as main:
        main.ask("anvil_setCode", REGISTRY, main.ask("eth_getCode", deployed(main, "Names"), "latest"))
        node = "0x" + namehash("ada.eth").hex()
        send(main, MAKER, REGISTRY, encoded("set(bytes32,address)", [node, OTHER]))
        async with opened(over(main)) as session:
            assert await called(session, "resolve_name", name=" Ada.eth ") == {
                "name": "ada.eth",
                "address": OTHER,
                "chain_id": 1,
            }
            for name, code in (
                ("bob.eth", "not_found"),
                (OTHER, "invalid_arguments"),
                ("\u0430.eth", "invalid_arguments"),
            ):
                failure = (await session.call("resolve_name", {"name": name})).failure
                assert failure is not None
                assert failure.code == code


@pytest.mark.parametrize("tool", ["get_contract_abi", "get_contract_source_code", "get_contract_from_etherscan"])
async def test_a_wrong_checksum_is_refused_by_every_tool(tool: str, anvil_server: Anvil) -> None:
    async with opened(over(anvil_server, etherscan_key="k", etherscan_url=CLOSED)) as session:
        failure = (await session.call(tool, {"address": "0x742d35Cc6634C0532925a3b844Bc9e7595f33749"})).failure
    assert failure is not None
    assert failure.code == "invalid_arguments"
    assert "Invalid address checksum" in failure.message
