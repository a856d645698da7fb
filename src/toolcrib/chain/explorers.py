"""Sourcify and Etherscan: verified contracts and the transactions of accounts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from toolcrib.chain.http import Http, RequestFailed
from toolcrib.chain.redaction import Scrubber
from toolcrib.chain.values import address, clean
from toolcrib.errors import ToolFailure
from toolcrib.http import Response

PAGE = 1000
"""The most records that Etherscan gives at once."""
TRIES, PAUSE_S = 5, 0.4
_FIELDS = "abi,sources,compilation,proxyResolution"
_NAME = 64

Contract = dict[str, Any]
"""`name, abi, source_code, is_proxy, implementation_address` of a verified contract."""


class Sourcify:
    """Sourcify's API, version 2."""

    def __init__(self, url: str, http: Http) -> None:
        self._url, self._http = url.rstrip("/"), http

    async def contract(self, chain: int, where: str) -> Contract | None:
        """A verified contract; None where Sourcify has none.

        Raises:
            ToolFailure: `unavailable`, it could not be asked.
        """
        url = f"{self._url}/server/v2/contract/{chain}/{where}?fields={_FIELDS}"
        try:
            reply = await self._http.send("GET", url, {})
        except RequestFailed:
            raise ToolFailure("unavailable", "Sourcify cannot be reached") from None
        answer = _json(reply)
        if reply.status == 404 and isinstance(answer, Mapping):
            return None
        if reply.status != 200 or not isinstance(answer, Mapping) or not isinstance(answer.get("abi"), list):
            raise ToolFailure("unavailable", f"Sourcify does not answer as it should (HTTP {reply.status})")
        proxy, made = _map(answer.get("proxyResolution")), _map(answer.get("compilation"))
        targets = [one for one in proxy.get("implementations") or () if isinstance(one, Mapping)]
        return {
            "name": clean(made.get("name") or "", _NAME),
            "abi": answer["abi"],
            "source_code": _files(_map(answer.get("sources"))),
            "is_proxy": bool(proxy.get("isProxy")),
            "implementation_address": _address(targets[0].get("address")) if targets else None,
        }


class Etherscan:
    """Etherscan's API, version 2: one key for all chains, HTTP 200 even for errors."""

    def __init__(self, url: str, key: str, http: Http, scrub: Scrubber) -> None:
        self._url, self._key, self._http, self._scrub = url.rstrip("/"), key, http, scrub

    async def contract(self, chain: int, where: str) -> Contract | None:
        """A verified contract; None where Etherscan has none.

        Raises:
            ToolFailure: `unavailable` or `rate_limited`.
        """
        rows = await self._ask(chain, module="contract", action="getsourcecode", address=where)
        one = _map(rows[0]) if isinstance(rows, list) and rows else {}
        try:
            abi = json.loads(one.get("ABI") or "")
        except (ValueError, RecursionError):
            return None  # it says there that the contract is not verified
        target = _address(one.get("Implementation"))
        return {
            "name": clean(one.get("ContractName") or "", _NAME),
            "abi": abi,
            "source_code": _sources(one),
            "is_proxy": one.get("Proxy") == "1" and target is not None,
            "implementation_address": target,
        }

    async def transactions(self, chain: int, where: str, page: int) -> list[Mapping[str, Any]]:
        """A page of the transactions of an account, newest first.

        Raises:
            ToolFailure: `unavailable` or `rate_limited`.
        """
        query = {"module": "account", "action": "txlist", "address": where, "startblock": 0, "endblock": 9999999999}
        rows = await self._ask(chain, **query, page=page, offset=PAGE, sort="desc")
        return [one for one in rows if isinstance(one, Mapping)] if isinstance(rows, list) else []

    async def _ask(self, chain: int, **query: Any) -> Any:
        url = f"{self._url}/v2/api?{urlencode({'chainid': chain, **query, 'apikey': self._key})}"
        for left in reversed(range(TRIES)):
            try:
                reply = await self._http.send("GET", url, {})
            except RequestFailed:
                raise ToolFailure("unavailable", "Etherscan cannot be reached", retryable=True) from None
            answer = _map(_json(reply))
            if reply.status != 429 and not _limited(answer):
                return self._result(chain, reply, answer)
            if left:
                await asyncio.sleep(PAUSE_S)
        raise ToolFailure("rate_limited", "Etherscan limits our requests", hint="Wait a while before the next call.")

    def _result(self, chain: int, reply: Response, data: Mapping[str, Any]) -> Any:
        result = data.get("result")
        if data.get("status") == "1":
            return result or []
        if data.get("status") == "0" and (result == [] or str(data.get("message", "")).startswith("No ")):
            return []
        text = str(result)
        if "not verified" in text:
            return []
        for word, what in _REFUSALS.items():
            if word in text.lower():
                raise ToolFailure("unavailable", what.format(chain), retryable=False)
        detail = f": {self._scrub(text)}" if isinstance(result, str) else ""
        message = f"Etherscan does not answer as it should (HTTP {reply.status}){detail}"
        raise ToolFailure("unavailable", message, retryable=True)


_REFUSALS = {
    "api key": "Etherscan refuses our key; the operator has to correct it (chain {})",
    "chainid": "Etherscan does not cover chain {}",
    "free api access": "Etherscan does not cover chain {} for our plan",
}


def _limited(data: Mapping[str, Any]) -> bool:
    return data.get("status") == "0" and "rate limit" in str(data.get("result")).lower()


def _json(reply: Response) -> Any:
    try:
        return msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _address(value: Any) -> str | None:
    try:
        return address(value)
    except ToolFailure:
        return None


def _files(data: Mapping[str, Any]) -> dict[str, str]:
    """`{file: {"content": text}}` as `{file: text}`."""
    return {
        clean(name, 300): clean(one["content"], len(one["content"]))
        for name, one in data.items()
        if isinstance(one, Mapping) and isinstance(one.get("content"), str)
    }


def _sources(one: Mapping[str, Any]) -> dict[str, str]:
    """Etherscan's SourceCode: one text, files as JSON, or standard JSON in doubled braces."""
    text = str(one.get("SourceCode") or "")
    try:
        read = _map(json.loads(text[1:-1] if text.startswith("{{") else text))
        files = _files(_map(read.get("sources")) or read)
    except (ValueError, RecursionError):
        files = {}
    if files or not text:
        return files
    ending = "vy" if str(one.get("CompilerVersion")).startswith("vyper:") else "sol"
    return {f"{clean(one.get('ContractName') or 'Contract', _NAME)}.{ending}": clean(text, len(text))}
