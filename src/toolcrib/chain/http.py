"""Requests to nodes and explorers, whose addresses the operator wrote: no redirects, and so many at once a host."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from urllib.parse import urlsplit

from toolcrib.errors import ToolFailure
from toolcrib.http import Anywhere, Client, Request, Response, Unanswered
from toolcrib.http.client import no_resolve

CONNECT_S, TOTAL_S = 5.0, 10.0
LARGEST = 10_000_000


class RequestFailed(Exception):
    """Nobody answered, or the connection broke; `slow` where time was up. It says nothing of where."""

    def __init__(self, *, slow: bool = False) -> None:
        super().__init__("timed out" if slow else "no connection")
        self.slow = slow


class Http:
    """One client for all hosts, and a number of requests at once for each."""

    def __init__(self, per_host: int = 8, total_s: float = TOTAL_S) -> None:
        self.per_host, self.total_s = per_host, total_s
        self._client = Client(resolve=no_resolve, largest=LARGEST, connect_s=CONNECT_S, redirects=0, keep=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: dict[str, asyncio.Semaphore] = {}

    async def send(self, method: str, url: str, headers: Mapping[str, str], content: bytes = b"") -> Response:
        """Return the response to one request.

        Raises:
            Away: nobody answered in time.
            ToolFailure: `too_large`, the reply has more than 10 MB.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._slots = loop, defaultdict(lambda: asyncio.Semaphore(self.per_host))
        async with self._slots[urlsplit(url).netloc]:
            try:
                request = Request.to(url, method, {"accept": "application/json", **headers}, content)
                return await self._client.send(request, Anywhere(), total_s=self.total_s)
            except Unanswered as error:
                raise RequestFailed(slow=error.code == "timeout") from None
            except ToolFailure as error:
                if error.code == "too_large":
                    message = f"The reply has more than {LARGEST // 1_000_000} MB"
                    raise ToolFailure("too_large", message, retryable=False) from None
                raise RequestFailed from None

    async def close(self) -> None:
        """Close its connections; a later request opens new ones."""
        await self._client.close()
