"""`forge script` in a place of its own: what it proposes, and what it cannot reach."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chain.place import GRANTED, MAKER, OTHER, SOLC, USER, Wallet, file_of, need, serving
from tests.chain.test_wallet import local
from tests.requirements import requirement
from toolcrib import Crib, Session
from toolcrib.chain import BadChain, ChainLimits, forge
from toolcrib.chain.forge_scripts import ForgeScripts
from toolcrib.testing.chain import Anvil, anvil, program
from toolcrib.toolkits.shell import process
from toolcrib.types import Result

pytestmark = pytest.mark.process

COMPILER = """#!{node}
const compiler = require("{soljson}");
if (process.argv.includes("--version")) {{
  console.log("solc, the solidity compiler commandline interface\\nVersion: 0.8.37+commit.00000000.Linux.g++");
  process.exit(0);
}}
let input = "";
process.stdin.on("data", (piece) => (input += piece)).on("end", () => {{
  process.stdout.write(compiler.cwrap("solidity_compile", "string", ["string", "number", "number"])(input, 0, 0));
}});
"""
SCRIPT = """
pragma solidity ^0.8.0;
interface Vm {{
    function startBroadcast() external;
    function startBroadcast(address) external;
    function stopBroadcast() external;
    function envString(string calldata) external view returns (string memory);
    function rpc(string calldata, string calldata, string calldata) external returns (bytes memory);
    function readFile(string calldata) external view returns (string memory);
}}
contract Made {{}}
contract Run {{
    Vm constant vm = Vm(0x7109709ECfa91a80626fF3989D68f67F5b1DD12D);
    function run() external {{ {body} }}
}}
"""
PAYING = f"vm.startBroadcast(); payable({OTHER}).transfer(5); payable({MAKER}).transfer(6); vm.stopBroadcast();"


@pytest.fixture(scope="module")
def chain() -> Iterator[Anvil]:
    with need(lambda: anvil(ipc=True).__enter__()) as made:
        yield made


@pytest.fixture(scope="module")
def scripts(chain: Anvil, tmp_path_factory: pytest.TempPathFactory) -> ForgeScripts:
    """With a compiler that runs in Node, which reserves much more memory than it uses."""
    node, solc = shutil.which("node"), tmp_path_factory.mktemp("solc") / "solc"
    if node is None:
        pytest.skip("node is not here, which runs the Solidity compiler")
    soljson = file_of(SOLC, "package/soljson.js")
    solc.write_text(COMPILER.format(node=node, soljson=soljson), "utf-8")
    solc.chmod(0o755)
    assert chain.ipc is not None
    chain.ipc.chmod(0o666)  # commands run as somebody else where the tests run as root
    return ForgeScripts(
        forge=need(lambda: program("forge")), solc=solc, ipc=chain.ipc, visible=[soljson], memory=64 * 1024**3
    )


async def ran(chain: Anvil, scripts: ForgeScripts, body: str, wallet: Wallet | None = None, **options: Any) -> Result:
    """The result of a script, with a wallet that signs."""
    kit = forge.tools(local(chain, **options), scripts=scripts)
    async with Crib([kit], policy=GRANTED) as crib:
        session: Session = await crib.open("s-1", owner="ada", namespaces=["forge"])
        await session.set_user({"address": USER, "chainId": 31337, "isConnected": True})
        given = {"source": SCRIPT.format(body=body), "description": "Pay two"}
        call = await session.submit("forge_script", given)
        return await (wallet or Wallet(chain)).attend(session, call.id)


@requirement("forge.script.1")
async def test_what_a_script_would_send_is_signed_by_the_user(chain: Anvil, scripts: ForgeScripts) -> None:
    nonce, wallet = int(chain.ask("eth_getTransactionCount", USER, "latest"), 16), Wallet(chain)
    result = await ran(chain, scripts, PAYING, wallet)
    assert result.ok, result.failure
    (request,) = wallet.asked
    assert [(one["to"], one["value"]) for one in request["transactions"]] == [(OTHER, "0x5"), (MAKER, "0x6")]
    assert [one["value"] for one in result.data["transactions"]] == ["5", "6"]
    assert int(chain.ask("eth_getTransactionCount", USER, "latest"), 16) == nonce + 2


@requirement("forge.script.1", "chain.safe.3")
async def test_a_script_has_the_same_limits(chain: Anvil, scripts: ForgeScripts) -> None:
    wallet = Wallet(chain)
    result = await ran(chain, scripts, PAYING, wallet, limits=ChainLimits(deny_to=[MAKER]))
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == ("denied", f"Target {MAKER} is not allowed")
    assert wallet.asked == []


@requirement("forge.script.1")
@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("", "failed", "The script sends nothing on chain 31337"),
        ("vm.startBroadcast(); new Made();", "invalid_arguments", "creates a contract"),
        (f"vm.startBroadcast({MAKER}); payable({OTHER}).transfer(1);", "invalid_arguments", "not the user's address"),
        ('revert("not today");', "failed", "not today"),
        ('vm.envString("A_SECRET_OF_OURS");', "failed", "A_SECRET_OF_OURS"),
        ('vm.readFile("/etc/passwd");', "failed", "The script failed: "),
    ],
)
async def test_what_does_not_fit_is_told(
    body: str, code: str, said: str, chain: Anvil, scripts: ForgeScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_OURS", "the-secret-itself")
    failure = (await ran(chain, scripts, body)).failure
    assert failure is not None
    assert failure.code == code
    assert said in failure.message
    assert "the-secret-itself" not in str(failure)


@requirement("forge.script.1")
async def test_a_script_reaches_no_address(chain: Anvil, scripts: ForgeScripts) -> None:
    seen: list[str] = []

    def answer(line: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        seen.append(line)
        return 200, {}, b'{"jsonrpc": "2.0", "id": 1, "result": "0x1"}'

    async with serving(answer) as url:
        failure = (await ran(chain, scripts, f'vm.rpc("{url}", "eth_chainId", "[]");')).failure
    assert failure is not None
    assert failure.code == "failed"
    assert seen == []


@requirement("forge.script.1")
async def test_a_script_that_does_not_end_is_ended(chain: Anvil, scripts: ForgeScripts, tmp_path: Path) -> None:
    asleep = tmp_path / "solc"
    asleep.write_text("#!/bin/sh\nexec sleep 1000\n")
    asleep.chmod(0o755)
    failure = (await ran(chain, replace(scripts, solc=asleep, timeout_s=2), PAYING)).failure
    assert failure is not None
    assert (failure.code, failure.message) == ("timeout", "The script did not end within 2 s")


@requirement("forge.script.1")
async def test_without_a_place_of_its_own_nothing_runs(
    chain: Anvil, scripts: ForgeScripts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_SANDBOX", str(tmp_path / "nothing.py"))
    failure = (await ran(chain, scripts, PAYING)).failure
    assert failure is not None
    assert (failure.code, failure.message) == ("unavailable", "No sandbox available")


@requirement("forge.script.1")
def test_it_is_off_unless_it_is_asked_for(chain: Anvil, scripts: ForgeScripts) -> None:
    assert "forge_script" not in {tool.name for tool in forge.tools(local(chain))}
    made = {tool.name: tool for tool in forge.tools(local(chain), scripts=scripts)}
    assert made["forge_script"].capabilities == ("payments:initiate",)
    with pytest.raises(BadChain, match="forge is no file"):
        forge.tools(local(chain), scripts={"forge": "/none", "solc": "/none", "ipc": "/none"})
    with pytest.raises(BadChain, match="unexpected keyword argument 'x'"):
        forge.tools(local(chain), scripts={"x": 1})
