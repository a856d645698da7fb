"""The explorers and the search of this machine: in the shapes of the real ones, with what the chain really holds."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.chain.place import MAKER, OTHER, USER, compiled, deployed, opened, send
from tests.chain.test_ethereum import called, over
from tests.requirements import requirement
from tests.shared import case_data
from tests.toolkits.place import opened as searching
from toolcrib import testing
from toolcrib.chain.abi import encode_call
from toolcrib.testing.chain import Anvil
from toolcrib.testing.fake_services import Shapes
from toolcrib.toolkits import search

FIELDS: dict[str, Any] = {"module": "account", "page": 1, "offset": 10, "sort": "desc"}


@pytest.fixture
def token(anvil_server: Anvil) -> str:
    """A token, some of which its owner gave away."""
    found = deployed(anvil_server, "Token")
    send(anvil_server, MAKER, found, encode_call("mint(address,uint256)", [MAKER, "100"]))
    send(anvil_server, MAKER, found, encode_call("transfer(address,uint256)", [OTHER, "60"]))
    return found


@pytest.fixture
def web(anvil_server: Anvil, token: str, tmp_path: Path) -> Iterator[Shapes]:
    (tmp_path / "router.md").write_text("# Router\nThe router of V2 swaps & pays.\n\n# Pairs\nHow a pair works.\n")
    source = testing.Artifact("Token", compiled()["Token"]["abi"], {"a.sol": "contract A {}", "b.sol": "contract B {}"})
    with testing.shapes(anvil_server.url, {token: source}, tmp_path) as made:
        yield made


def etherscan(web: Shapes, chain: int = 31337, **asked: Any) -> Any:
    query = urlencode({"chainid": chain, "apikey": web.key, **asked})
    with urllib.request.urlopen(f"{web.url}/v2/api?{query}", timeout=60) as reply:
        return json.load(reply)


def got(url: str, **headers: str) -> tuple[int, Any, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as reply:
            return reply.status, json.load(reply), reply.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error), error.headers


@requirement("shape.etherscan.1")
def test_every_record_has_the_fields_of_the_real_one(web: Shapes, token: str) -> None:
    fields = case_data("chain-shapes/fields.json")["etherscan"]
    for action in ("txlist", "tokentx"):
        told = etherscan(web, **FIELDS, action=action, address=MAKER)
        assert (told["status"], told["message"]) == ("1", "OK")
        assert all(isinstance(value, str) for one in told["result"] for value in one.values())
        assert set(told["result"][0]) == set(fields[f"account/{action}"])
    (source,) = etherscan(web, module="contract", action="getsourcecode", address=token)["result"]
    assert set(source) == set(fields["contract/getsourcecode"])
    assert source["SourceCode"].startswith("{{")


@requirement("shape.etherscan.1")
def test_what_it_says_is_what_the_chain_holds(web: Shapes, token: str, anvil_server: Anvil) -> None:
    balance = etherscan(web, module="account", action="balance", address=USER)["result"]
    assert int(balance) == int(anvil_server.ask("eth_getBalance", USER, "latest"), 16)
    held: dict[str, Any] = {"module": "account", "action": "tokenbalance", "contractaddress": token}
    assert etherscan(web, **held, address=OTHER)["result"] == "60"
    moved = etherscan(web, **FIELDS, action="tokentx", address=OTHER)["result"][0]
    assert (moved["value"], moved["tokenSymbol"], moved["tokenDecimal"]) == ("60", "TUSD", "6")
    assert (moved["from"], moved["to"]) == (MAKER.lower(), OTHER.lower())
    abi = etherscan(web, module="contract", action="getabi", address=token)["result"]
    assert json.loads(abi) == compiled()["Token"]["abi"]
    code = etherscan(web, module="proxy", action="eth_getCode", address=token)
    assert code["result"] == anvil_server.ask("eth_getCode", token, "latest")


@requirement("shape.etherscan.2", "shape.etherscan.3")
def test_it_refuses_as_the_real_one_does(web: Shapes) -> None:
    unknown: dict[str, Any] = {"module": "contract", "address": OTHER}
    assert etherscan(web, **unknown, action="getabi")["status"] == "0"
    told = etherscan(web, **unknown, action="getsourcecode")
    assert (told["status"], told["result"][0]["ABI"]) == ("1", "Contract source code not verified")
    nobody = etherscan(web, **FIELDS, action="txlist", address="0x" + "0" * 39 + "7")
    assert nobody == {"status": "0", "message": "No transactions found", "result": []}
    for asked, said in (
        ({"apikey": "x"}, "Invalid API Key"),
        ({"apikey": ""}, "Missing/Invalid API Key"),
        ({"chain": 5}, "Missing or unsupported chainid"),
        ({"action": "nothing"}, "Error! Missing Or invalid Action name"),
        ({"address": "0x1"}, "Error! Invalid address format"),
    ):
        given: dict[str, Any] = {"module": "account", "action": "balance", "address": USER, **asked}
        assert etherscan(web, **given)["result"].startswith(said)


@requirement("shape.sourcify.1")
def test_sourcify_gives_what_is_asked_for(web: Shapes, token: str) -> None:
    base = f"{web.url}/server/v2/contract"
    status, told, _ = got(f"{base}/31337/{token}?fields=abi,sources")
    assert (status, told["match"], told["chainId"]) == (200, "exact_match", "31337")
    assert told["sources"]["a.sol"] == {"content": "contract A {}"}
    assert "compilation" not in told
    assert got(f"{base}/31337/{OTHER}")[:2] == (
        404,
        {"match": None, "creationMatch": None, "runtimeMatch": None, "chainId": "31337", "address": OTHER},
    )
    for path, code in ((f"5/{token}", "unsupported_chain"), ("31337/0x1", "invalid_parameter")):
        status, told, _ = got(f"{base}/{path}")
        assert (status, told["customCode"]) == (400, code)


async def test_the_toolkits_work_over_it(web: Shapes, token: str, anvil_server: Anvil) -> None:
    async with opened(over(anvil_server, **web.chains)) as session:
        found = await called(session, "get_contract_source_code", address=token)
        assert found["contracts"][0]["source_code"] == {"a.sol": "contract A {}", "b.sol": "contract B {}"}
        history = await called(session, "get_account_transaction_history", address=OTHER)
        assert history["complete"]
    assert web.seen == {"sourcify": 1, "etherscan": 1}


@requirement("shape.brave.1", "search.brave.4")
async def test_a_folder_is_searched_as_the_web(web: Shapes) -> None:
    async with searching(search.tools(**web.search)) as session:
        result = await session.call("brave_search", {"query": "router pays works", "count": 1})
        assert result.data["more"] is True
        assert [one["title"] for one in result.data["results"]] == ["Router"]
        assert result.data["results"][0]["description"] == "The router of V2 swaps & pays."
        assert (await session.call("brave_search", {"query": "zebra"})).text.startswith("No web results")
    async with searching(search.tools("wrong", url=web.url)) as session:
        failure = (await session.call("brave_search", {"query": "router"})).failure
        assert failure is not None
        assert (failure.code, failure.retryable) == ("unavailable", False)


@requirement("shape.brave.1", "search.brave.4")
async def test_a_spent_month_and_a_full_second(anvil_server: Anvil, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Router\nrouter\n")
    with testing.shapes(anvil_server.url, docs=tmp_path, quota=1, per_second=1) as web:
        async with searching(search.tools(**web.search)) as session:
            assert (await session.call("brave_search", {"query": "router"})).ok
            failure = (await session.call("brave_search", {"query": "router"})).failure
        assert failure is not None
        assert (failure.code, failure.retryable) == ("rate_limited", False)
        status, told, headers = got(f"{web.url}/res/v1/web/search?q=x")
        assert (status, told["error"]["code"], told["error"]["meta"]["errors"][0]["loc"][0]) == (
            *(422, "VALIDATION"),
            "header",
        )
        assert headers["X-RateLimit-Remaining"].endswith(", 0")
        assert got(f"{web.url}/elsewhere")[0] == 404


@requirement("anvil.2")
@pytest.mark.process
def test_the_names_are_there_and_cost_nothing_until_they_are_used() -> None:
    script = """
import sys
from toolcrib import testing
assert not {"toolcrib.testing.chain", "toolcrib.testing.fake_services", "httpx", "eth_abi"} & sys.modules.keys()
assert testing.anvil.__module__ == "toolcrib.testing.chain"
assert testing.shapes.__module__ == "toolcrib.testing.fake_services"
assert not {"httpx", "eth_abi"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], check=False, timeout=60)
    assert done.returncode == 0
