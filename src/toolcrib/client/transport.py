"""The way to a server: requests that are sent again until they are answered, and streams that are read on.

Whatever is sent here may be sent again: a request that makes something carries a key by which the server knows it. So
a request whose reply was lost is sent again, here or, where several addresses are known, at the next.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

try:
    import httpx
except ImportError as missing:
    from toolcrib.errors import ToolcribError
    from toolcrib.extras import install

    raise ToolcribError(f"The client needs {missing.name}: {install('client')}") from None

import msgspec

from toolcrib.client.local import start_token
from toolcrib.errors import Refused
from toolcrib.telemetry import inject

CONNECT_S = 10.0
READ_S = 60.0
SILENT_S = 45.0
"""A server says every 15 s that a stream is still there; one that is silent for longer was lost."""

FIRST_S = 0.1
LONGEST_S = 3.0
AWAY = (502, 503, 504)
EVENTS = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-cache"}

Key = str | Callable[[], str | Awaitable[str]]
"""What says who one is; a function gives it anew for each request, where it does not last."""


class TransportReply(NamedTuple):
    """A good answer; `repeated` is True if the request was sent more than once, and an earlier answer may be lost."""

    status: int
    body: bytes
    repeated: bool = False

    def json(self) -> Any:
        """What it says."""
        return json.loads(self.body)


class NoResponse(Exception):
    """There was no answer, and to ask again may help.

    `after` is how long the server wants to be left alone, `moves` whether another address may do better. `silent` says
    that nothing was heard at all, where one that breaks off has at least been there.
    """

    def __init__(self, refused: Refused, after: float = 0.0, *, moves: bool = True, silent: bool = False) -> None:
        super().__init__(refused.message)
        self.refused = refused
        self.after = after
        self.moves = moves
        self.silent = silent


class Transport:
    """Speaks with a server at one of several addresses."""

    def __init__(self, urls: Sequence[str], key: Key | None, patience: float | None, verify: Any) -> None:
        self._urls = urls
        self._key = key
        self.patience = patience
        self._at = 0
        self.closed = False
        self._http = httpx.AsyncClient(
            verify=verify, limits=httpx.Limits(max_connections=None, max_keepalive_connections=100)
        )

    async def close(self) -> None:
        """Close all connections; whoever still follows something sees its end."""
        self.closed = True
        await self._http.aclose()

    @property
    def count(self) -> int:
        """How many addresses there are."""
        return len(self._urls)

    @property
    def url(self) -> str:
        """The address that is in use."""
        return self._urls[self._at]

    def leave(self, url: str) -> None:
        """Goes to the next address, unless somebody else has left that one already."""
        if self.url == url:
            self._at = (self._at + 1) % self.count

    async def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        key = self._key() if callable(self._key) else self._key
        if inspect.isawaitable(key):
            key = await key
        if self._key is None:
            key = start_token(self.url)
        headers = dict(more)
        inject(headers)
        if key is None:
            return headers
        key = key.strip()
        if not key or not key.isascii() or not key.isprintable():  # else the text of an error would show it
            raise Refused("invalid_arguments", "The key is none", "give it as it was shown when it was made")
        return {**headers, "Authorization": f"Bearer {key}"}

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        read_s: float | None = READ_S,
    ) -> TransportReply:
        """What the server answers; `body` is JSON, as bytes or to be written.

        Raises:
            Refused: as the server says it; `unavailable`, nobody answered.
        """
        trouble, repeated = Backoff(self), False
        while True:
            url = trouble.begin()
            try:
                answer = await self._once(method, url, path, body, query, read_s)
            except NoResponse as lost:
                await trouble.pause(lost, url)
                repeated = True
            else:
                return TransportReply(answer.status_code, answer.content, repeated)

    async def _once(
        self, method: str, url: str, path: str, body: Any, query: Any, read_s: float | None
    ) -> httpx.Response:
        headers = await self._headers({} if body is None else {"Content-Type": "application/json"})
        content = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        try:
            answer = await self._http.request(
                method,
                f"{url}/v1{path}",
                content=content,
                params=_query(query),
                headers=headers,
                timeout=_times(read_s),
            )
        except httpx.TransportError as error:
            raise _unreached(url, error) from None
        except RuntimeError:  # so httpx says that it was closed
            raise NoResponse(closed()) from None
        check(url, answer, _kind(path))
        return answer

    @asynccontextmanager
    async def stream(self, url: str, path: str, query: Mapping[str, Any]) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of a stream, as they come.

        Raises:
            NoResponse: it was not begun, or broke off.
            Refused: as the server says it.
        """
        try:
            async with self._http.stream(
                "GET",
                f"{url}/v1{path}",
                params=_query(query),
                headers=await self._headers(EVENTS),
                timeout=_times(SILENT_S),
            ) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                check(url, answer, "text/event-stream")
                yield answer.aiter_raw()
        except httpx.TransportError as error:
            raise _unreached(url, error) from None
        except (httpx.StreamError, RuntimeError) as error:
            if not self.closed:
                raise
            raise NoResponse(closed()) from error


class Backoff:
    """What went wrong in a row: how long to wait before the next try, and when to give up."""

    def __init__(self, link: Transport) -> None:
        self._link = link
        self._since: float | None = None
        self._began = 0.0
        self._tries = 0

    def begin(self) -> str:
        """Tries once more; where."""
        self._began = asyncio.get_running_loop().time()
        return self._link.url

    def over(self) -> None:
        """Something came through."""
        self._since, self._tries = None, 0

    async def pause(self, lost: NoResponse, url: str) -> None:
        """Waits a while, unless there is another address to try at once.

        Raises:
            Refused: it has gone on for too long.
        """
        now, link = asyncio.get_running_loop().time(), self._link
        if link.closed:
            raise closed()
        if not lost.silent and now - self._began > LONGEST_S:  # somebody was there for a while
            self.over()
        self._since = now if self._since is None else self._since
        self._tries += 1
        rounds = self._tries - link.count if lost.moves else self._tries - 1
        if lost.moves:
            link.leave(url)
        delay = 0.0 if rounds < 0 else min(LONGEST_S, FIRST_S * 2.0 ** min(rounds, 10)) * random.uniform(0.5, 1.0)
        delay = max(delay, lost.after)
        if link.patience is not None and now + delay - self._since > link.patience:
            raise lost.refused
        await asyncio.sleep(delay)


def _kind(path: str) -> str:
    """What an answer of a path is; a file may be anything."""
    if path.rpartition("/")[0].endswith("/files"):
        return ""
    return "application/x-ndjson" if path.endswith("/export") else "application/json"


def check(url: str, answer: httpx.Response, kind: str) -> None:
    """Return if the answer is good and of the wanted kind.

    Raises:
        Refused: as the server says it.
        NoResponse: the server is away, or asks to wait for a while.
    """
    status, good = answer.status_code, answer.status_code < 300
    if good and answer.headers.get("content-type", "").startswith(kind):
        return
    error = None if good else _error(answer)
    if error is None:
        message = f"{url} answered {status} {answer.reason_phrase}".rstrip() + (f", and no {kind}" if good else "")
        refused = Refused("unavailable", message, "is this the address of a Toolcrib server?")
        raise NoResponse(refused) if status in AWAY else refused
    refused = Refused(str(error.get("code", "internal")), str(error.get("message", "")), error.get("hint"))
    after = error.get("retry_after")
    if status in (429, 503) and isinstance(after, int | float):
        raise NoResponse(refused, after, moves=status == 503)
    raise refused


def _error(answer: httpx.Response) -> dict[str, Any] | None:
    """Return the error in the body of an answer, if it is one of ours."""
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return None
    return error if isinstance(error, dict) else None


def closed() -> Refused:
    """What a crib tells that was closed."""
    return Refused("unavailable", "The remote crib is closed", "use it within `async with`")


def _unreached(url: str, error: httpx.TransportError) -> NoResponse:
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            message = f"{url} cannot be reached"
        case httpx.TimeoutException():
            message = f"{url} does not answer"
        case _:
            message = f"The connection to {url} was lost"
    more = f": {error}" if str(error) else ""
    refused = Refused("unavailable", message + more, "is the server running, and the address right?")
    return NoResponse(refused, silent=isinstance(error, httpx.TimeoutException))


def _times(read_s: float | None) -> httpx.Timeout:
    return httpx.Timeout(read_s, connect=CONNECT_S, write=READ_S, pool=None)


def _query(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value is not None}
