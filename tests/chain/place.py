"""Contracts, a chain that looks like mainnet where it matters, a wallet, and a server that answers as it is told."""

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.shared import ROOT
from toolcrib import Crib, Session
from toolcrib.chain import account, cast, ethereum, forge, wallet
from toolcrib.chain.abi import encode, encode_call
from toolcrib.chain.chains import Chain, Chains
from toolcrib.chain.signatures import parse_types
from toolcrib.testing.chain import ACCOUNTS, Anvil, Package, fetched
from toolcrib.testing.services import ServiceError
from toolcrib.types import Result

HERE = Path(__file__).parent
USER, MAKER, OTHER = ACCOUNTS[:3]
SOLC = Package(
    "solc", "0.8.37", "ieUYdPDRGNKMsZpCfi9tY64Q+ASoL8tyhLuvf9cFiqDs+6ijlx8Wn2CRi0N71AlCvRx0V092rlUYu3b3PuxWlA=="
)
CAST = Package(
    "@foundry-rs/cast-linux-amd64",
    "1.7.1",
    "XUpTM2rwtkF8BJ02dae38NNZAx5QfycWRpdR2RmSgOJnasvXuvN58whDVLjQu8IDHEV/fCNIa49aE8V74pmDwQ==",
)
CORE = Package(
    "@uniswap/v2-core",
    "1.0.1",
    "MtybtkUPSyysqLY2U210NBDeCHX+ltHt3oADGdjqoThZaFRDKwM6k1Nb3F0A3hk5hwuQvytFWhrWHOEq6nVJ8Q==",
)
PERIPHERY = Package(
    "@uniswap/v2-periphery",
    "1.1.0-beta.0",
    "6dkwAMKza8nzqYiXEr2D86dgW3TTavUvCR0w2Tu33bAbM8Ah43LKAzH7oKKPRT5VJQaMi1jtkGs1E8JPor1n5g==",
)
WETH = "0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2"
FACTORY = "0x5C69bEe701ef814a2B6a3EDD4B1652CB9cc5aA6f"
ROUTER = "0x7a250d5630B4cF539739dF2C5dAcb4c659F2488D"
USDC = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"
NAMESPACES = ["ethereum", "account", "cast", "wallet", "forge"]
GRANTED = {"grants": {"allow": ["payments:initiate"], "ungranted": "ask"}}


def need(get: Callable[[], Any]) -> Any:
    """Something that npm brings; where it cannot, a test is skipped, except where everything has to run."""
    try:
        return get()
    except ServiceError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


def file_of(package: Package, member: str) -> Path:
    """A file of a package of npm."""
    found: Path = need(lambda: fetched(package, member))
    return found


@cache
def compiled() -> dict[str, Any]:
    """Our contracts by name, with ABI and bytecode; the outcome is kept, since the compiler needs a while."""
    sources = {path.name: {"content": path.read_text("utf-8")} for path in sorted((HERE / "contracts").glob("*.sol"))}
    wanted = {"outputSelection": {"*": {"*": ["abi", "evm.bytecode.object"]}}, "evmVersion": "shanghai"}
    asked = json.dumps({"language": "Solidity", "sources": sources, "settings": wanted})
    compiler = file_of(SOLC, "package/soljson.js")
    kept = compiler.with_name(f"{hashlib.sha256(f'{SOLC} {asked}'.encode()).hexdigest()[:16]}-contracts.json")
    if not kept.exists():
        if shutil.which("node") is None:
            pytest.skip("node is not here, which runs the Solidity compiler")
        words = ["node", str(HERE / "compile.js"), str(compiler)]
        done = subprocess.run(words, input=asked, capture_output=True, text=True, timeout=180, check=True)
        made = json.loads(done.stdout)
        assert "contracts" in made, made["errors"]
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(done.stdout, "utf-8")
        part.rename(kept)
    files = json.loads(kept.read_text("utf-8"))["contracts"]
    return {name: one for file in files.values() for name, one in file.items()}


@cache
def dollar() -> str:
    """The bytecode of a token, by a compiler that pip installs: the box needs no Node."""
    try:
        vyper = import_module("vyper")
    except ImportError:
        if os.environ.get("CI"):
            raise
        pytest.skip("vyper is not here")
    source = (HERE / "contracts/Dollar.vy").read_text("utf-8")
    return str(vyper.compile_code(source, output_formats=["bytecode"])["bytecode"])


def send(chain: Anvil, sender: str, to: str | None, data: str = "0x", value: int = 0) -> dict[str, Any]:
    """A transaction, and its receipt once it is mined."""
    asked = {"from": sender, "data": data, "value": hex(value), **({"to": to} if to else {})}
    hash = chain.ask("eth_sendTransaction", asked)
    while (receipt := chain.ask("eth_getTransactionReceipt", hash)) is None:
        chain.ask("evm_mine")
    return dict(receipt)


def deploy(chain: Anvil, bytecode: str, types: str = "", *args: Any) -> str:
    """A contract's address."""
    data = "0x" + bytecode.removeprefix("0x") + encode(parse_types(types), args).hex()
    receipt = send(chain, MAKER, None, data)
    assert receipt["status"] == "0x1"
    return ethereum.address(str(receipt["contractAddress"]))


def deployed(chain: Anvil, name: str) -> str:
    """The address of one of our contracts."""
    return deploy(chain, compiled()[name]["evm"]["bytecode"]["object"])


def furnish(chain: Anvil) -> None:
    """WETH, Uniswap V2 and a dollar at their addresses of mainnet, with a pool of 500 ETH and 2 million dollars."""

    def artifact(package: Package, name: str) -> str:
        return str(json.loads(file_of(package, f"package/build/{name}.json").read_text("utf-8"))["bytecode"])

    def settle(at: str, where: str) -> None:
        chain.ask("anvil_setCode", where, chain.ask("eth_getCode", at, "latest"))
        for slot in range(3):
            value = chain.ask("eth_getStorageAt", at, hex(slot), "latest")
            chain.ask("anvil_setStorageAt", where, f"0x{slot:064x}", value)

    settle(deploy(chain, artifact(PERIPHERY, "WETH9")), WETH)
    chain.ask("anvil_setCode", USDC, chain.ask("eth_getCode", deploy(chain, dollar()), "latest"))
    settle(deploy(chain, artifact(CORE, "UniswapV2Factory"), "address", MAKER), FACTORY)
    router = deploy(chain, artifact(PERIPHERY, "UniswapV2Router02"), "address,address", FACTORY, WETH)
    chain.ask("anvil_setCode", ROUTER, chain.ask("eth_getCode", router, "latest"))
    send(chain, MAKER, USDC, encode_call("mint(address,uint256)", [MAKER, str(10**13)]))
    send(chain, MAKER, USDC, encode_call("approve(address,uint256)", [ROUTER, str(10**13)]))
    pool = [USDC, str(2 * 10**12), "0", "0", MAKER, str(2**40)]
    adding = encode_call("addLiquidityETH(address,uint256,uint256,uint256,address,uint256)", pool)
    assert send(chain, MAKER, ROUTER, adding, 500 * 10**18)["status"] == "0x1"


def kits(chains: Chains) -> list[Any]:
    """All chain toolkits."""
    return [kit.tools(chains) for kit in (ethereum, account, cast, wallet, forge)]


@asynccontextmanager
async def opened(chains: Chains, *, user: str | None = USER, **options: Any) -> AsyncIterator[Session]:
    """A session with all chain toolkits, and a connected wallet."""
    async with Crib(kits(chains), **{"policy": GRANTED, **options}) as crib:
        session = await crib.open("s-1", owner="ada", namespaces=NAMESPACES)
        if user is not None:
            await session.set_user({"address": user, "chainId": next(iter(chains.all)), "isConnected": True})
        yield session


def killed(what: str, *words: str) -> str:
    """Has a process do something, and kills it once it has told its call."""
    argv = [sys.executable, "-m", "tests.chain.killed", what, *words]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        call = child.stdout.readline().strip()
        child.kill()
    assert call, "it ended before it told its call"
    return call


class Wallet:
    """Signs what it is asked to, by sending it to the chain, whose accounts are unlocked."""

    def __init__(self, chain: Anvil, change: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.chain, self.change = chain, change
        self.asked: list[dict[str, Any]] = []

    def sign(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        self.asked.append(dict(request))
        hashes = []
        for one in request["transactions"]:
            sent = {name: value for name, value in one.items() if name != "description"}
            if self.change is not None:
                self.change(sent)
            hashes.append(self.chain.ask("eth_sendTransaction", sent))
        return {"hashes": hashes, "digest": request["digest"]}

    async def attend(self, session: Session, call: str) -> Result:
        """Answers what one call asks until it is done."""
        async for event in session.events(call=call):
            if event.kind == "waiting":
                question = event.fields["question"]
                await session.answer(question["id"], "accept", await asyncio.to_thread(self.sign, question["data"]))
        return await session.result(call)


Answered = tuple[int, dict[str, str], bytes]
"""Status, headers and content."""


@asynccontextmanager
async def serving(answer: Callable[[str, bytes], Answered]) -> AsyncIterator[str]:
    """A web server of our own, which keeps its connections open; its URL."""

    open_now: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *rest = head.decode().split("\r\n")
                fields = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
                body = await reader.readexactly(int(fields.get("content-length") or 0))
                status, headers, content = await asyncio.to_thread(answer, line, body)
                told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                writer.write(f"HTTP/1.1 {status} X\r\n{told}content-length: {len(content)}\r\n\r\n".encode() + content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            open_now.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        if open_now:
            await asyncio.wait(open_now, timeout=30)  # whoever asked has hung up by now


class Replay:
    """A server that gives just the replies that a case lists, in order, the last one again and again."""

    def __init__(self, replies: Mapping[str, list[dict[str, Any]]]) -> None:
        self.replies = {service: list(given) for service, given in replies.items()}
        self.seen: Counter[str] = Counter()

    def _next(self, service: str, method: str = "") -> dict[str, Any] | None:
        self.seen[service] += 1
        fitting = [one for one in self.replies.get(service, ()) if one.get("method", "") == method]
        if len(fitting) > 1:
            self.replies[service].remove(fitting[0])
        return fitting[0] if fitting else None

    def answer(self, line: str, body: bytes) -> Answered:
        """What is said to one request."""
        if line.startswith("POST"):
            return self._rpc(json.loads(body)["method"])
        reply = self._next("etherscan" if "/v2/api" in line else "sourcify")
        if reply is None:
            return 503, {}, b""
        content = json.dumps(reply["json"]) if "json" in reply else reply.get("text", "")
        return reply["status"], dict(reply.get("headers", {})), content.encode()

    def _rpc(self, method: str) -> Answered:
        reply = self._next("rpc", method) or {"error": {"code": -32601, "message": "Method not found"}}
        if "http" in reply:
            return reply["http"], dict(reply.get("headers", {})), reply.get("text", "").encode()
        if "result_bytes" in reply:
            reply = {"result": "0x" + "0" * reply["result_bytes"]}
        said = {name: reply[name] for name in ("result", "error") if name in reply}
        return 200, {"content-type": "application/json"}, json.dumps({"jsonrpc": "2.0", "id": 1, **said}).encode()


@asynccontextmanager
async def replaying(replies: Mapping[str, list[dict[str, Any]]]) -> AsyncIterator[tuple[Replay, str]]:
    """The server, and its URL."""
    made = Replay(replies)
    async with serving(made.answer) as url:
        yield made, url


CLOSED = "http://127.0.0.1:9"
"""Nobody listens there."""


def mainnet(url: str, **options: Any) -> Chains:
    """Chain 1 at a URL, which may propose freely."""
    return Chains([Chain(1, "ethereum", url, local=True, propose=True)], sourcify_url=CLOSED, **options)
