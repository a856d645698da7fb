"""A server at an address: Streamable HTTP, or the Server-Sent Events of 2024 where there is nothing else.

The SDK's transports do the protocol. Below them stands a client for HTTP that keeps two promises which they do not: a
body has a greatest size, and an error of the network ends the one request that met it, not all of the connection.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ErrorData, JSONRPCError

from toolcrib.sources.json_parts import PartCounter
from toolcrib.sources.mcp.results import BROKEN, FORGOTTEN, REFUSED, THROTTLED, TOO_LARGE, UNREACHABLE
from toolcrib.sources.mcp.settings import Credentials, McpClientSettings

TIMEOUT = httpx2.Timeout(30.0, read=None, pool=None)  # how long an answer may take is for the call to say
FAREWELL = httpx2.Timeout(3.0)
PLAIN = {"accept-encoding": "identity"}
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol, httpx2.ProxyError)
_STATUS = {401: REFUSED, 403: REFUSED, 429: THROTTLED, 502: BROKEN, 503: UNREACHABLE, 504: BROKEN}


def _is_news(record: logging.LogRecord) -> bool:
    """True if the SDK tells something else than that a stream, which we closed, is closed."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError)


logging.getLogger("mcp.client.streamable_http").addFilter(_is_news)


class HttpEndpoint:
    """A server that is reached over HTTP with the credentials of one owner."""

    log_text = ""

    def __init__(self, settings: McpClientSettings, credentials: Credentials, *, old: bool = False) -> None:
        self._settings = settings
        self._credentials = credentials
        self._old = old

    @contextlib.asynccontextmanager
    async def connect(self, broke: Callable[[], None]) -> AsyncIterator[tuple[Any, Any]]:
        """Gives the streams of its messages."""
        url, most = self._settings.url or "", self._settings.message_bytes
        if self._old:
            async with sse_client(url, httpx_client_factory=partial(self._client, broke)) as streams:
                yield streams
        else:
            http = self._client(None)
            async with http, streamable_http_client(url, http_client=http, max_sse_event_size=most) as streams:
                yield streams

    def _client(
        self, broke: Callable[[], None] | None, headers: Any = None, timeout: Any = None, auth: Any = None
    ) -> httpx2.AsyncClient:
        """What the SDK would set is set here."""
        headers, auth = self._credentials
        return _Careful(
            broke,
            transport=_Measured(httpx2.AsyncHTTPTransport(), self._settings),
            headers={**PLAIN, **headers},
            auth=auth,
            timeout=TIMEOUT,
        )


class _Careful(httpx2.AsyncClient):
    """An error of the network is told as the error of a message, which the SDK gives to whoever waits for it.

    The old transport has no answer to give it in: there the connection is said to be broken.
    """

    def __init__(self, broke: Callable[[], None] | None, **more: Any) -> None:
        super().__init__(**more)
        self._broke = broke

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        """One request and the head of its answer."""
        if request.method == "DELETE":  # a farewell; nobody waits long for the answer
            request.extensions["timeout"] = FAREWELL.as_dict()
        try:
            response = await super().send(request, **more)
        except (httpx2.TransportError, OAuthFlowError) as error:
            if request.method != "POST":
                raise
            return self._told(request, *_met(request, error))
        code = _code(request, response) if request.method == "POST" else None
        if code is not None:
            await response.aclose()
            return self._told(request, code, f"{request.url.host} answered HTTP {response.status_code}")
        if self._broke is not None and response.status_code >= 400:
            self._broke()
        return response

    def _told(self, request: httpx2.Request, code: int, message: str) -> httpx2.Response:
        if self._broke is not None:
            self._broke()
        error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))
        body = error.model_dump_json(by_alias=True)
        return httpx2.Response(500, headers={"content-type": "application/json"}, text=body, request=request)


def _met(request: httpx2.Request, error: Exception) -> tuple[int, str]:
    """What happened on the way."""
    reason = str(error) or type(error).__name__
    if isinstance(error, OAuthFlowError):
        return REFUSED, f"{request.url.host} gives no access: {reason}"
    code = UNREACHABLE if isinstance(error, _NEVER_SENT) else BROKEN
    return code, f"{request.url.host} cannot be reached: {reason}"


def _code(request: httpx2.Request, response: httpx2.Response) -> int | None:
    """What an answer says by its status alone."""
    if response.status_code == 404 and "mcp-session-id" in request.headers:
        return FORGOTTEN
    return _STATUS.get(response.status_code)


class _Measured(httpx2.AsyncBaseTransport):
    """Answers whose bodies have a greatest size."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, settings: McpClientSettings) -> None:
        self._inner = inner
        self._settings = settings

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request and the head of its answer."""
        response = await self._inner.handle_async_request(request)
        response.headers.pop("content-encoding", None)  # none was asked for, and unpacking one has no bound
        endless = response.headers.get("content-type", "").startswith("text/event-stream")
        most = None if endless else self._settings.message_bytes
        response.stream = _Bounded(response.stream, most, PartCounter(self._settings.message_parts))
        return response

    async def aclose(self) -> None:
        """Closes what it holds."""
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error which the SDK takes for that of the one answer."""

    def __init__(self, inner: Any, most: int | None, counter: PartCounter) -> None:
        self._inner = inner
        self._left = most
        self._counter = counter
        self._line_ends = b""  # of the chunk before: an empty line may come in two

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                if self._left is not None:
                    self._left -= len(chunk)
                    if self._left < 0:
                        raise httpx2.StreamError(f"[{TOO_LARGE}] more bytes than are taken")
                if self._exceeded_by(chunk):
                    raise httpx2.StreamError(f"[{TOO_LARGE}] more values than are taken")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"[{BROKEN}] {str(error) or type(error).__name__}") from error

    def _exceeded_by(self, chunk: bytes) -> bool:
        """Counts the values of a body, or of each event of a stream, which ends with an empty line."""
        if self._left is not None:
            return self._counter.exceeded_by(chunk)
        text = self._line_ends + chunk
        self._line_ends = text[len(text.rstrip(b"\r\n")) :][-3:]
        for number, event in enumerate(_EVENT_END.split(text)):
            if number:
                self._counter.restart()
            if self._counter.exceeded_by(event):
                return True
        return False

    async def aclose(self) -> None:
        """Closes the connection below."""
        await self._inner.aclose()
