"""Requests to nodes and explorers: no redirects, no environment, a bound on time, size and how many at once a host.

It speaks to httpx's transport, not to its client: that costs half as much, and the client logs every URL, which for a
node is a secret.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from toolcrib.errors import ToolFailure

if TYPE_CHECKING:
    import httpx

CONNECT_S, TOTAL_S = 5.0, 10.0
LARGEST = 10_000_000
IDLE_S = 30.0


class Away(Exception):
    """Nobody answered, or the connection broke; `slow` where time was up. It says nothing of where."""

    def __init__(self, *, slow: bool = False) -> None:
        super().__init__("timed out" if slow else "no connection")
        self.slow = slow


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Http:
    """One pool of connections for all hosts, and a number of requests at once for each."""

    def __init__(self, per_host: int = 8, total_s: float = TOTAL_S) -> None:
        self.per_host, self.total_s = per_host, total_s
        self._transport: httpx.AsyncHTTPTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seats: dict[str, asyncio.Semaphore] = {}

    async def send(self, method: str, url: str, headers: Mapping[str, str], content: bytes = b"") -> Reply:
        """One request.

        Raises:
            Away: nobody answered in time.
            ToolFailure: `too_large`, the reply has more than 10 MB.
        """
        transport = self._open()
        async with self._seats[urlsplit(url).netloc]:
            try:
                async with asyncio.timeout(self.total_s):
                    return await _exchange(transport, method, url, headers, content)
            except TimeoutError:
                raise Away(slow=True) from None

    def _open(self) -> httpx.AsyncHTTPTransport:
        """The pool of this event loop; one of a loop that is gone is of no use."""
        import httpx

        loop = asyncio.get_running_loop()
        if self._transport is None or self._loop is not loop:
            self._loop = loop
            self._seats = defaultdict(lambda: asyncio.Semaphore(self.per_host))
            limits = httpx.Limits(max_keepalive_connections=4 * self.per_host, keepalive_expiry=IDLE_S)
            self._transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)
        return self._transport

    async def close(self) -> None:
        """Closes its connections; a later request opens new ones."""
        transport, self._transport = self._transport, None
        if transport is not None and self._loop is asyncio.get_running_loop():
            await transport.aclose()


async def _exchange(
    transport: httpx.AsyncHTTPTransport, method: str, url: str, headers: Mapping[str, str], content: bytes
) -> Reply:
    import httpx

    # Without compression what is counted is what is kept.
    said = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "toolcrib", **headers}
    times = {"connect": CONNECT_S, "read": TOTAL_S, "write": TOTAL_S, "pool": TOTAL_S}
    try:
        request = httpx.Request(method, url, headers=said, content=content, extensions={"timeout": times})
        response = await transport.handle_async_request(request)
        try:
            return Reply(response.status_code, response.headers, await _body(response))
        finally:
            await response.aclose()
    except httpx.TimeoutException as error:
        raise Away(slow=not isinstance(error, httpx.ConnectTimeout)) from None
    except (httpx.TransportError, httpx.InvalidURL, OSError):
        raise Away from None


async def _body(response: httpx.Response) -> bytes:
    stream: Any = response.stream
    pieces, size = [], 0
    async for piece in stream:
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST:
            raise ToolFailure("too_large", f"The reply has more than {LARGEST // 1_000_000} MB", retryable=False)
    return b"".join(pieces)
