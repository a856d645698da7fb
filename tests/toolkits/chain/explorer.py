"""Etherscan and Sourcify in their documented shapes, with what a real chain and a real compiler say."""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.toolkits.chain.place import HERE, Answered, compiled, serving
from toolcrib.testing.chain import Anvil

KEY = "the-right-key"
UNVERIFIED = "Contract source code not verified"


@dataclass
class Explorer:
    """What it knows: contracts by address (their names, and where proxies lead), and who asked how often."""

    chain: Anvil
    etherscan: dict[str, str] = field(default_factory=dict)
    sourcify: dict[str, str] = field(default_factory=dict)
    proxies: dict[str, str] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    per_second: int = 1000
    _times: list[float] = field(default_factory=list)

    def answer(self, line: str, body: bytes) -> Answered:
        """What is said to one request."""
        parts = urlsplit(line.split(" ")[1])
        if parts.path == "/v2/api":
            self.seen["etherscan"] += 1
            return _json(200, self._etherscan({name: given[0] for name, given in parse_qs(parts.query).items()}))
        self.seen["sourcify"] += 1
        chain, where = parts.path.split("/")[-2:]
        return self._sourcify(chain, where)

    def _etherscan(self, asked: dict[str, str]) -> dict[str, Any]:
        if asked["apikey"] != KEY:
            return _refused("Invalid API Key")
        if asked["chainid"] != str(self.chain.chain_id):
            return _refused("Missing or unsupported chainid parameter (required for v2 api), please see the list")
        now = time.monotonic()
        self._times = [one for one in self._times if now - one < 1]
        if len(self._times) >= self.per_second:
            return _refused("Max calls per sec rate limit reached (3/sec)")
        self._times.append(now)
        if asked["action"] == "txlist":
            rows = self._rows(asked["address"].lower())
            page, size = int(asked["page"]), int(asked["offset"])
            rows = rows[(page - 1) * size : page * size]
            told = {"status": "1", "message": "OK", "result": rows}
            return told if rows else {"status": "0", "message": "No transactions found", "result": []}
        return {"status": "1", "message": "OK", "result": [self._source(asked["address"])]}

    def _rows(self, mine: str) -> list[dict[str, str]]:
        found = []
        for number in range(int(self.chain.ask("eth_blockNumber"), 16), -1, -1):
            block = self.chain.ask("eth_getBlockByNumber", hex(number), True)
            mined = [one for one in reversed(block["transactions"]) if mine in (one["from"], one["to"])]
            found += [self._row(one, block) for one in mined]
        return found

    def _row(self, one: dict[str, Any], block: dict[str, Any]) -> dict[str, str]:
        receipt = self.chain.ask("eth_getTransactionReceipt", one["hash"])
        numbers = {"blockNumber": block["number"], "timeStamp": block["timestamp"], "value": one["value"]}
        numbers |= {"gas": one["gas"], "gasPrice": receipt["effectiveGasPrice"], "gasUsed": receipt["gasUsed"]}
        texts = {name: str(int(value, 16)) for name, value in numbers.items()}
        texts |= {"hash": one["hash"], "from": one["from"], "to": one["to"] or "", "input": one["input"]}
        created = receipt.get("contractAddress") or ""
        return texts | {"isError": "01"[receipt["status"] != "0x1"], "contractAddress": created}

    def _source(self, where: str) -> dict[str, str]:
        name = self.etherscan.get(where)
        target = self.proxies.get(where, "")
        told = {"ContractName": name or "", "CompilerVersion": "v0.8.37", "Proxy": "01"[bool(target)]}
        told["Implementation"] = target.lower()
        if name is None:
            return {**told, "SourceCode": "", "ABI": UNVERIFIED}
        text = (HERE / f"contracts/{name}.sol").read_text("utf-8")
        return {**told, "SourceCode": text, "ABI": json.dumps(compiled()[name]["abi"])}

    def _sourcify(self, chain: str, where: str) -> Answered:
        if chain != str(self.chain.chain_id):
            told = {"customCode": "unsupported_chain", "message": "No such chain", "errorId": "1"}
            return _json(400, told)
        name = self.sourcify.get(where)
        if name is None:
            return _json(404, {"match": None, "chainId": chain, "address": where})
        text = (HERE / f"contracts/{name}.sol").read_text("utf-8")
        target = [{"address": self.proxies[where]}] if where in self.proxies else []
        found = {
            "match": "exact_match",
            "chainId": chain,
            "address": where,
            "abi": compiled()[name]["abi"],
            "sources": {f"contracts/{name}.sol": {"content": text}},
            "compilation": {"language": "Solidity", "name": name},
            "proxyResolution": {"isProxy": bool(target), "proxyType": None, "implementations": target},
        }
        return _json(200, found)


def _refused(why: str) -> dict[str, Any]:
    return {"status": "0", "message": "NOTOK", "result": why}


def _json(status: int, told: Any) -> Answered:
    return status, {"content-type": "application/json; charset=utf-8"}, json.dumps(told).encode()


@asynccontextmanager
async def exploring(explorer: Explorer) -> AsyncIterator[dict[str, Any]]:
    """The explorer as settings of `Chains`, with a key that it takes."""
    async with serving(explorer.answer) as url:
        yield {"etherscan_url": url, "etherscan_key": KEY, "sourcify_url": url}
