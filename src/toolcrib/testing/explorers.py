"""What Etherscan and Sourcify would say of a chain of our own, in their documented shapes."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolcrib.chain.abi import decode, encode_call
from toolcrib.chain.signatures import parse_types
from toolcrib.chain.values import address
from toolcrib.errors import ToolFailure
from toolcrib.testing.services import ServiceError

UNVERIFIED = "Contract source code not verified"
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
PAGE, ASK_S = 1000, 60.0
_PROXIED = {
    "eth_blockNumber": (),
    "eth_gasPrice": (),
    "eth_getCode": ("address", "tag"),
    "eth_getTransactionCount": ("address", "tag"),
    "eth_getTransactionByHash": ("txhash",),
    "eth_getTransactionReceipt": ("txhash",),
}
"""The methods that Etherscan hands on, with the names of their parameters."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A verified contract, and which services know it; one with an `implementation` is a proxy of that address."""

    name: str
    abi: list[Any]
    sources: Mapping[str, str]
    compiler: str = "v0.8.37"
    implementation: str | None = None
    known_to: tuple[str, ...] = ("etherscan", "sourcify")


class Ledger:
    """What a node knows."""

    def __init__(self, rpc: str) -> None:
        self._rpc = rpc

    def ask(self, method: str, *params: Any) -> Any:
        """The result of one request.

        Raises:
            ServiceError: the node refused.
        """
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        request = urllib.request.Request(self._rpc, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=ASK_S) as reply:
            answer = json.load(reply)
        if "error" in answer:
            raise ServiceError(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    @cached_property
    def chain(self) -> str:
        """The id of its chain."""
        return str(int(self.ask("eth_chainId"), 16))

    @property
    def head(self) -> int:
        """The number of its last block."""
        return int(self.ask("eth_blockNumber"), 16)

    def transactions(self, mine: str) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
        """Those of an account, newest first, each with its block."""
        for number in range(self.head, -1, -1):
            block = self.ask("eth_getBlockByNumber", hex(number), True)
            for one in reversed(block["transactions"]):
                if mine in (one["from"], one["to"]):
                    yield one, block

    def read(self, to: str, signature: str, kind: str, *args: Any) -> Any:
        """What a view function gives; nothing where there is none."""
        try:
            answer = self.ask("eth_call", {"to": to, "data": encode_call(signature, args)}, "latest")
            return decode(parse_types(kind), answer)[0]
        except (ServiceError, ToolFailure):
            return ""


def _find(artifacts: Mapping[str, Artifact], where: str, service: str) -> Artifact | None:
    artifact = {known.lower(): one for known, one in artifacts.items()}.get(where.lower())
    return artifact if artifact is not None and service in artifact.known_to else None


def _number(value: str | None) -> str:
    return str(int(value or "0x0", 16))


class FakeSourcify:
    """`GET /server/v2/contract/{chain}/{address}?fields=...`."""

    def __init__(self, ledger: Ledger, artifacts: Mapping[str, Artifact]) -> None:
        self._ledger, self._artifacts = ledger, artifacts

    def answer(self, chain: str, where: str, fields: str) -> tuple[int, Any]:
        """Status and JSON."""
        if chain != self._ledger.chain:
            return 400, _error("unsupported_chain", f"The chain {chain} is not supported")
        try:
            where = address(where)
        except ToolFailure:
            return 400, _error("invalid_parameter", "Invalid address")
        artifact = _find(self._artifacts, where, "sourcify")
        match = None if artifact is None else "exact_match"
        status = {"match": match, "creationMatch": match, "runtimeMatch": match, "chainId": chain, "address": where}
        if artifact is None:
            return 404, status
        selected = {name: one for name, one in _selectable(artifact).items() if name in fields.split(",")}
        return 200, {**status, "verifiedAt": "2026-01-01T00:00:00Z", "matchId": "1", **selected}


def _selectable(artifact: Artifact) -> dict[str, Any]:
    targets = [] if artifact.implementation is None else [{"address": artifact.implementation}]
    language = "Vyper" if artifact.compiler.startswith("vyper:") else "Solidity"
    return {
        "abi": artifact.abi,
        "sources": {file: {"content": text} for file, text in artifact.sources.items()},
        "compilation": {"language": language, "compilerVersion": artifact.compiler, "name": artifact.name},
        "proxyResolution": {
            "isProxy": bool(targets),
            "proxyType": "EIP1967Proxy" if targets else None,
            "implementations": targets,
        },
    }


def _error(code: str, message: str) -> dict[str, str]:
    return {"customCode": code, "message": message, "errorId": "00000000-0000-4000-8000-000000000000"}


class FakeEtherscan:
    """`GET /v2/api?chainid&module&action&...&apikey`: HTTP 200, whatever happens."""

    def __init__(self, ledger: Ledger, artifacts: Mapping[str, Artifact]) -> None:
        self._ledger, self._artifacts = ledger, artifacts

    def answer(self, query: Mapping[str, str], key: str, *, free: bool) -> Any:
        """The JSON; not `free` is one request too many."""
        problem = self._problem(query, key, free)
        if problem is not None:
            return _refused(problem)
        if query.get("module") == "proxy" and query.get("action") in _PROXIED:
            params = [query.get(name, "latest") for name in _PROXIED[query["action"]]]
            return {"jsonrpc": "2.0", "id": 1, "result": self._ledger.ask(query["action"], *params)}
        does: Callable[[Mapping[str, str]], Any] | None = {
            "account/balance": self._balance,
            "account/tokenbalance": self._token_balance,
            "account/txlist": self._transactions,
            "account/tokentx": self._transfers,
            "contract/getabi": self._abi,
            "contract/getsourcecode": self._source,
        }.get(f"{query.get('module')}/{query.get('action')}")
        if does is None:
            return _refused("Error! Missing Or invalid Action name")
        try:
            return does({**query, "address": address(query.get("address"))})
        except ToolFailure:
            return _refused("Error! Invalid address format")

    def _problem(self, query: Mapping[str, str], key: str, free: bool) -> str | None:
        if not query.get("apikey"):
            return "Missing/Invalid API Key"
        if query["apikey"] != key:
            return "Invalid API Key"
        if query.get("chainid") != self._ledger.chain:
            return (
                "Missing or unsupported chainid parameter (required for v2 api), "
                "please see https://api.etherscan.io/v2/chainlist for the list of supported chainids"
            )
        return None if free else "Max calls per sec rate limit reached (3/sec)"

    def _balance(self, query: Mapping[str, str]) -> Any:
        return _ok(_number(self._ledger.ask("eth_getBalance", query["address"], query.get("tag", "latest"))))

    def _token_balance(self, query: Mapping[str, str]) -> Any:
        token = address(query.get("contractaddress"))
        return _ok(self._ledger.read(token, "balanceOf(address)", "uint256", query["address"]) or "0")

    def _transactions(self, query: Mapping[str, str]) -> Any:
        transactions = self._ledger.transactions(query["address"].lower())
        head = self._ledger.head
        rows = [self._row(one, block, head) for one, block in transactions if _wanted(query, block)]
        return _page(query, rows, "No transactions found")

    def _row(self, one: Mapping[str, Any], block: Mapping[str, Any], head: int) -> dict[str, str]:
        receipt = self._ledger.ask("eth_getTransactionReceipt", one["hash"])
        failed = receipt["status"] != "0x1"
        return {
            **_common(one, block, receipt, head),
            "value": _number(one["value"]),
            "methodId": one["input"][:10],
            "functionName": "",
            "from": one["from"],
            "to": one["to"] or "",
            "contractAddress": receipt.get("contractAddress") or "",
            "txreceipt_status": "10"[failed],
            "isError": "01"[failed],
        }

    def _transfers(self, query: Mapping[str, str]) -> Any:
        mine, head, rows = query["address"].lower()[2:], self._ledger.head, []
        logs = self._ledger.ask("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "topics": [TRANSFER]})
        for log in reversed(logs):
            parties = ["0x" + topic[-40:] for topic in log["topics"][1:3]]
            if len(parties) == 2 and f"0x{mine}" in parties:
                rows.append(self._transfer(log, parties, head))
        return _page(query, rows, "No transactions found")

    def _transfer(self, log: Mapping[str, Any], parties: list[str], head: int) -> dict[str, str]:
        one = self._ledger.ask("eth_getTransactionByHash", log["transactionHash"])
        receipt = self._ledger.ask("eth_getTransactionReceipt", log["transactionHash"])
        block = self._ledger.ask("eth_getBlockByNumber", log["blockNumber"], False)
        return {
            **_common(one, block, receipt, head),
            "from": parties[0],
            "to": parties[1],
            "value": _number(log["data"]),
            "contractAddress": log["address"],
            "tokenName": self._ledger.read(log["address"], "name()", "string"),
            "tokenSymbol": self._ledger.read(log["address"], "symbol()", "string"),
            "tokenDecimal": self._ledger.read(log["address"], "decimals()", "uint8"),
        }

    def _abi(self, query: Mapping[str, str]) -> Any:
        artifact = _find(self._artifacts, query["address"], "etherscan")
        return _refused(UNVERIFIED) if artifact is None else _ok(json.dumps(artifact.abi))

    def _source(self, query: Mapping[str, str]) -> Any:
        artifact = _find(self._artifacts, query["address"], "etherscan")
        entry = {"SourceCode": "", "ABI": UNVERIFIED, "ContractName": "", "CompilerVersion": "", "Implementation": ""}
        entry |= {"CompilerType": "", "OptimizationUsed": "", "Runs": "", "ConstructorArguments": "", "Proxy": "0"}
        entry |= {"EVMVersion": "Default", "Library": "", "LicenseType": "", "SwarmSource": "", "SimilarMatch": ""}
        if artifact is not None:
            entry |= {"SourceCode": _written(artifact), "ABI": json.dumps(artifact.abi), "ContractName": artifact.name}
            entry |= {"CompilerVersion": artifact.compiler, "Proxy": "01"[artifact.implementation is not None]}
            entry["Implementation"] = (artifact.implementation or "").lower()
        return _ok([entry])


def _written(artifact: Artifact) -> str:
    """One file as it is; several as standard JSON in doubled braces."""
    if len(artifact.sources) == 1:
        return next(iter(artifact.sources.values()))
    files = {file: {"content": text} for file, text in artifact.sources.items()}
    return "{" + json.dumps({"language": "Solidity", "sources": files}) + "}"


def _common(one: Mapping[str, Any], block: Mapping[str, Any], receipt: Mapping[str, Any], head: int) -> dict[str, str]:
    """The fields that all records of a transaction have; every value is text."""
    return {
        "blockNumber": _number(block["number"]),
        "blockHash": block["hash"],
        "timeStamp": _number(block["timestamp"]),
        "hash": one["hash"],
        "nonce": _number(one["nonce"]),
        "transactionIndex": _number(one["transactionIndex"]),
        "gas": _number(one["gas"]),
        "gasPrice": _number(receipt["effectiveGasPrice"]),
        "gasUsed": _number(receipt["gasUsed"]),
        "cumulativeGasUsed": _number(receipt["cumulativeGasUsed"]),
        "input": one["input"],
        "confirmations": str(head - int(block["number"], 16) + 1),
    }


def _wanted(query: Mapping[str, str], block: Mapping[str, Any]) -> bool:
    return int(query.get("startblock") or 0) <= int(block["number"], 16) <= int(query.get("endblock") or 2**63)


def _page(query: Mapping[str, str], rows: list[dict[str, str]], empty: str) -> Any:
    rows = rows if query.get("sort") == "desc" else rows[::-1]
    size, page = min(int(query.get("offset") or PAGE), PAGE), int(query.get("page") or 1)
    shown = rows[(page - 1) * size : page * size]
    return _ok(shown) if shown else {"status": "0", "message": empty, "result": []}


def _ok(result: Any) -> dict[str, Any]:
    return {"status": "1", "message": "OK", "result": result}


def _refused(why: str) -> dict[str, Any]:
    return {"status": "0", "message": "NOTOK", "result": why}
