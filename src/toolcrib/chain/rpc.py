"""JSON-RPC to one node: which methods a tool may use, what is tried again, and what its failures mean."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from toolcrib.chain.http import Http, RequestFailed
from toolcrib.chain.redaction import Scrubber
from toolcrib.chain.values import quantity
from toolcrib.errors import ToolFailure
from toolcrib.http import Response

TRIES, PAUSE_S, LONGEST_PAUSE_S = 3, 0.2, 5.0
BUSY = (429, 502, 503, 504)
WRITES = frozenset({"eth_sendTransaction"})
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_HEADERS = {"content-type": "application/json"}


class Unreachable(ToolFailure):
    """The node is away or talks nonsense; it may be back later."""


class Reverted(ToolFailure):
    """The contract reverted; `data` is its reason as hex."""

    def __init__(self, text: str, data: str | None) -> None:
        super().__init__("failed", text, retryable=False)
        self.data = data


class NoMethod(ToolFailure):
    """The node does not know the method."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """A node as one tool sees it: it answers the methods on the tool's list, and no other."""

    node: RpcNode
    methods: frozenset[str]

    async def __call__(self, method: str, *params: Any) -> Any:
        """The result of one request.

        Raises:
            ToolFailure: `unavailable`, `rate_limited`, `failed` for a revert, `too_large`.
        """
        if method not in self.methods:
            raise RuntimeError(f"{method} is not on the list of this tool")
        await self.node.check()
        return await self.node.request(method, params)

    async def number(self, method: str, *params: Any) -> int:
        """The same, for a method that gives a quantity."""
        value = quantity(await self(method, *params))
        return self.node.nonsense() if value is None else value

    async def data(self, method: str, *params: Any) -> str:
        """The same, for a method that gives hex."""
        value = await self(method, *params)
        return value if isinstance(value, str) and _HEX.fullmatch(value) else self.node.nonsense()


class RpcNode:
    """The endpoint of one chain."""

    def __init__(self, id: int, name: str, url: str, http: Http, scrub: Scrubber) -> None:
        self.id, self.name = id, name
        self._url, self._http, self._scrub = url, http, scrub
        self._checked = False
        self._checking: asyncio.Task[None] | None = None
        self._lacks: set[str] = set()

    def may(self, *methods: str) -> Rpc:
        """The node for a tool that uses these methods."""
        return Rpc(self, frozenset(methods))

    async def check(self) -> None:
        """Check, before the first request, that the node serves the configured chain.

        Raises:
            ToolFailure: `unavailable`, it is another one.
        """
        if self._checked:
            return
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(self._check())
            self._checking.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._checking)  # many calls may wait for it, and each may be stopped

    async def _check(self) -> None:
        id = quantity(await self.request("eth_chainId", ()))
        if id is None:
            self.nonsense()
        if id != self.id:
            message = f"Endpoint of chain {self.id} answers for chain {id}"
            raise ToolFailure("unavailable", message, retryable=False, hint="The operator has to correct its settings.")
        self._checked = True

    async def request(self, method: str, params: Any) -> Any:
        """One request, tried again where that cannot do harm."""
        if method in self._lacks:
            raise self._unknown(method)
        content = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self._result(method, await self._reply(content, 1 if method in WRITES else TRIES))

    async def _reply(self, content: bytes, tries: int) -> Response:
        for left in reversed(range(tries)):
            try:
                reply = await self._http.send("POST", self._url, _HEADERS, content)
            except RequestFailed as away:
                if not left or away.slow:
                    raise self._away(away) from None
                await asyncio.sleep(PAUSE_S)
                continue
            if reply.status not in BUSY or not left:
                return reply
            await asyncio.sleep(pause(reply))
        raise AssertionError("it is tried at least once")

    def _away(self, away: RequestFailed) -> Unreachable:
        what = "did not answer in time" if away.slow else "cannot be reached"
        return Unreachable("unavailable", f"The node of chain {self.id} {what}", retryable=True)

    def _result(self, method: str, reply: Response) -> Any:
        if reply.status == 429:
            raise self._limited("too many requests")
        if reply.status in (401, 403):
            message = f"The node of chain {self.id} refuses our credentials"
            raise ToolFailure("unavailable", message, retryable=False, hint="The operator has to correct its settings.")
        try:
            answer = msgspec.json.decode(reply.body)
        except (msgspec.DecodeError, RecursionError):
            self.nonsense(reply.status)
        match answer:
            case {"error": {"code": int(code), "message": str(text)} as error}:
                self._fail(method, code, text, error.get("data"))
            case {"result": result}:
                return result
        return self.nonsense(reply.status)

    def _fail(self, method: str, code: int, text: str, data: Any) -> NoReturn:
        message = self._scrub(text)
        if code == -32601:
            self._lacks.add(method)
            raise self._unknown(method)
        if code == -32005:
            raise self._limited(message)
        if code == 3 or (code in (-32000, -32003, -3200) and "revert" in text.lower()):
            raise Reverted(message, _hex(data))
        raise ToolFailure("failed", f"The node of chain {self.id} refused {method}: {message}", retryable=False)

    def _unknown(self, method: str) -> NoMethod:
        return NoMethod("unavailable", f"The node of chain {self.id} does not know {method}", retryable=False)

    def _limited(self, text: str) -> ToolFailure:
        message = f"The node of chain {self.id} limits our requests: {text}"
        return ToolFailure("rate_limited", message, hint="Wait a while before the next call.")

    def nonsense(self, status: int = 200) -> NoReturn:
        """Refuse an answer that is not JSON-RPC.

        Raises:
            Unreachable: always.
        """
        detail = f" (HTTP {status})" if status != 200 else ""
        message = f"The node of chain {self.id} does not answer in JSON-RPC{detail}"
        raise Unreachable("unavailable", message, retryable=True)


async def together(*work: Awaitable[Any]) -> list[Any]:
    """Waits for several requests; when one fails, the others are not left running."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def pause(reply: Response) -> float:
    """Return how long a busy server asks us to wait, up to our own limit."""
    seconds = reply.headers.get("retry-after", "")
    return min(float(seconds), LONGEST_PAUSE_S) if seconds.isdigit() else PAUSE_S


def _hex(data: Any) -> str | None:
    """The data of a revert; some nodes wrap it once more."""
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    if isinstance(data, str):
        data = data.removeprefix("Reverted ")
        return data if data.startswith("0x") else None
    return None
