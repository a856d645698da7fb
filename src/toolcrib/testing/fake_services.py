"""Etherscan, Sourcify and Brave Search on this machine, in their documented shapes and with real data.

    with anvil() as chain, shapes(chain.url, {token: Artifact("Token", abi, {"Token.sol": text})}, "docs") as web:
        chains = Chains([...], **web.chains)
        crib = Crib([ethereum.tools(chains), search.tools(**web.search)])

What they say of accounts is read from the chain, what they say of contracts stands in the artifacts, and what is found
on the web are the pages of a folder. They refuse what the real ones refuse: keys, chains, parameters, and too many
requests. They listen on 127.0.0.1 alone; only what toolkits use of them is there.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from toolcrib.testing.brave_search import FakeBraveSearch
from toolcrib.testing.explorers import Artifact, FakeEtherscan, FakeSourcify, Ledger
from toolcrib.testing.services import HOST

__all__ = ["Artifact", "Shapes", "shapes"]

KEY = "the-key-of-a-test"
READ_S = 30.0


class FakeResponse(NamedTuple):
    """An answer."""

    status: int
    json: Any
    headers: Mapping[str, str]


class RequestRate:
    """How many requests a second may come; None for as many as like to."""

    def __init__(self, per_second: int | None) -> None:
        self._most, self._times, self._lock = per_second, list[float](), threading.Lock()

    def left(self) -> int:
        """How many more may come now, this one counted; below 0 it is one too many."""
        if self._most is None:
            return 1
        with self._lock:
            now = time.monotonic()
            self._times = [one for one in self._times if now - one < 1]
            if len(self._times) >= self._most:
                return -1
            self._times.append(now)
            return self._most - len(self._times)


class Shapes:
    """The three services; as a context manager they are started and stopped. `seen` counts the requests of each.

    `per_second` bounds the requests of each service, and `quota` those of a month to the search.
    """

    def __init__(
        self,
        rpc: str,
        artifacts: Mapping[str, Artifact] | None = None,
        docs: str | PathLike[str] | None = None,
        *,
        key: str = KEY,
        per_second: int | None = None,
        quota: int = 2000,
    ) -> None:
        self.key, self.seen = key, Counter[str]()
        ledger = Ledger(rpc)
        self.artifacts = dict(artifacts or {})
        self._etherscan, self._sourcify = FakeEtherscan(ledger, self.artifacts), FakeSourcify(ledger, self.artifacts)
        self._brave = FakeBraveSearch(docs, quota)
        self._paces = {name: RequestRate(per_second) for name in ("etherscan", "brave")}
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Where all three are."""
        assert self._server is not None, "use it with `with`"
        return f"http://{HOST}:{self._server.server_address[1]}"

    @property
    def chains(self) -> dict[str, Any]:
        """Settings of `Chains`."""
        return {"etherscan_url": self.url, "etherscan_key": self.key, "sourcify_url": self.url}

    @property
    def search(self) -> dict[str, Any]:
        """Settings of the toolkit `search`."""
        return {"key": self.key, "url": self.url}

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"shapes": self})
        self._server = ThreadingHTTPServer((HOST, 0), handler)
        self._server.daemon_threads = False  # so that the end waits for all of them
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._brave.close()

    def answer(self, path: str, headers: Mapping[str, str]) -> FakeResponse:
        """Answer one request."""
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if parts.path == "/v2/api":
            self.seen["etherscan"] += 1
            free = self._paces["etherscan"].left() >= 0
            return FakeResponse(200, self._etherscan.answer(query, self.key, free=free), {})
        if parts.path.startswith("/server/v2/contract/"):
            self.seen["sourcify"] += 1
            chain, _, where = parts.path.removeprefix("/server/v2/contract/").partition("/")
            return FakeResponse(*self._sourcify.answer(chain, where, query.get("fields", "")), {})
        if parts.path == "/res/v1/web/search":
            self.seen["brave"] += 1
            left = self._paces["brave"].left()
            return FakeResponse(*self._brave.answer(query, headers.get("x-subscription-token"), self.key, left))
        return FakeResponse(404, {"message": "There is nothing here"}, {})


class _Handler(BaseHTTPRequestHandler):
    """One request, after which the connection ends."""

    shapes: Shapes
    timeout = READ_S

    def do_GET(self) -> None:
        answer = self.shapes.answer(self.path, {name.lower(): value for name, value in self.headers.items()})
        body = json.dumps(answer.json).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json; charset=utf-8", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests have nothing to read there."""


def shapes(
    rpc: str,
    artifacts: Mapping[str, Artifact] | None = None,
    docs: str | PathLike[str] | None = None,
    **options: Any,
) -> Shapes:
    """The services over a node, contracts by address, and a folder of pages, to be used with `with`."""
    return Shapes(rpc, artifacts, docs, **options)
