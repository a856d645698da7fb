"""`Client`: sends requests, follows redirects, and connects only to addresses that were checked."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.errors import ToolFailure
from toolcrib.http.body import ENCODINGS, read_body
from toolcrib.http.egress import Egress, is_inner
from toolcrib.http.message import Request, Response
from toolcrib.policy import urls
from toolcrib.policy.urls import UrlTarget
from toolcrib.telemetry import inject

if TYPE_CHECKING:
    import httpx

Resolve = Callable[[str, int], Awaitable[list[str]]]


class Unanswered(Exception):
    """No whole response came. `sent` is True if the request may have reached the other side."""

    def __init__(self, code: Literal["timeout", "unavailable"], message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.code, self.message, self.sent = code, message, sent


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host as this system knows them."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in addresses))


async def no_resolve(host: str, port: int) -> list[str]:
    """Leave the name to the connection: for hosts that the operator wrote, where no address is judged."""
    return [host]


class Client:
    """Sends requests within bounds.

    `largest` bounds a body, `connect_s` the time to connect to one address, `redirects` how many are followed; with
    0 a redirect is a response like others. With `keep` connections stay open until `close`, apart for each origin.
    """

    def __init__(
        self,
        *,
        resolve: Resolve = resolve,
        largest: int = 32 * 1024 * 1024,
        connect_s: float = 15.0,
        redirects: int = 4,
        keep: bool = False,
    ) -> None:
        self._resolve = resolve
        self._largest, self._connect_s, self._redirects = largest, connect_s, redirects
        self._keep = keep
        self._kept: dict[UrlTarget, httpx.AsyncHTTPTransport] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(
        self, request: Request, egress: Egress, *, largest: int | None = None, total_s: float | None = None
    ) -> Response:
        """Return the response, after redirects.

        Raises:
            ToolFailure: `denied`, `invalid_arguments`, `unavailable`, `too_large` or `failed`: nothing was sent, or it
                was answered.
            Unanswered: the connection ended, or `total_s` passed.
        """
        exchange = _Exchange(request, egress, self._largest if largest is None else largest)
        try:
            async with asyncio.timeout(total_s):
                return await self._follow(exchange)
        except TimeoutError:
            message = f"{exchange.request.target.host} did not answer within {total_s:g} s"
            raise Unanswered("timeout", message, sent=exchange.sent) from None

    async def close(self) -> None:
        """Close the connections; a later request opens new ones, also in another event loop."""
        kept, self._kept = self._kept, {}
        if self._loop is asyncio.get_running_loop():
            for transport in kept.values():
                await transport.aclose()

    async def _follow(self, exchange: _Exchange) -> Response:
        for left in range(self._redirects, -1, -1):
            request = exchange.request
            response = await self._respond(exchange)
            if response.location is None or not self._redirects:
                return response
            exchange.sent = False
            if left:
                url = request.joined(response.location)
                exchange.egress.check_redirect(request.target, url, response.status)
                exchange.request = request.redirected(url, response.status)
        raise ToolFailure("failed", f"There are more than {self._redirects} redirects")

    async def _respond(self, exchange: _Exchange) -> Response:
        """Ask the first address that can be reached. Nothing is tried again once a request may have been sent."""
        try:
            import httpx
        except ImportError:
            raise ToolFailure(
                "unavailable", "Requests need httpx, of the extra 'toolcrib[http]', which is not installed"
            ) from None
        target, problem = exchange.request.target, "has no address"
        for address in await self._addresses(exchange):
            try:
                async with self._transport(target) as transport:
                    response = await transport.handle_async_request(exchange.message(address, self._connect_s))
                    body = await read_body(response, exchange.largest, http_status=response.status_code)
                    return Response(exchange.request.url, response.status_code, response.headers, body)
            except (httpx.TransportError, httpx.InvalidURL) as error:
                if exchange.sent:
                    message = f"{target.host} ended the connection ({type(error).__name__})"
                    raise Unanswered("unavailable", message, sent=True) from None
                forged = "CERTIFICATE_VERIFY_FAILED" in str(error)
                problem = "shows no certificate that can be trusted" if forged else "cannot be reached"
        raise ToolFailure("unavailable", f"{target.host} {problem}")

    async def _addresses(self, exchange: _Exchange) -> list[str]:
        """Return the addresses of a host, all of which may be connected to."""
        target = exchange.request.target
        exchange.egress.check_target(target)
        try:
            addresses = await self._resolve(target.host.strip("[]"), target.port)
        except (OSError, UnicodeError):
            raise ToolFailure("unavailable", f"{target.host} is not known") from None
        inner = [address for address in addresses if is_inner(address)]
        if inner or target.private:
            exchange.egress.check_addresses(target, inner)
        return addresses

    @asynccontextmanager
    async def _transport(self, target: UrlTarget) -> AsyncIterator[httpx.AsyncHTTPTransport]:
        """Connections to one origin: one that was opened for a name is never used for another at the same address."""
        import httpx

        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # connections of a loop that is gone are of no use
            self._loop, self._kept = loop, {}
        transport = self._kept.get(target)
        if transport is None:
            # The proxies of the environment are for httpx's client; its transport has none.
            transport = httpx.AsyncHTTPTransport(verify=_tls_of(target), retries=0, trust_env=False)
        if self._keep:
            self._kept[target] = transport
            yield transport
        else:
            async with transport:
                yield transport


def _tls_of(target: UrlTarget) -> ssl.SSLContext:
    if target.scheme == "http":
        return _no_tls()
    try:
        return _tls(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    except OSError:
        message = "The certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read"
        raise ToolFailure("unavailable", message, retryable=False) from None


@lru_cache(1)
def _no_tls() -> ssl.SSLContext:
    """Return a context that trusts nobody, for connections without TLS."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@lru_cache(4)
def _tls(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return the context for these variables; reading all certificates takes longer than a request."""
    import httpx

    return httpx.create_ssl_context()


class _Exchange:
    """A request under way; `sent` tells whether the last one may have reached the other side."""

    def __init__(self, request: Request, egress: Egress, largest: int) -> None:
        self.request, self.egress, self.largest = request, egress, largest
        self.sent = False

    async def trace(self, event: str, info: Any) -> None:
        """Take note of what the transport does."""
        if event.endswith("send_request_headers.started"):
            self.sent = True

    def message(self, address: str, connect_s: float) -> httpx.Request:
        """Make the request as it is sent to one address."""
        import httpx

        request, target = self.request, self.request.target
        place = f"[{address}]" if ":" in address else address
        headers = httpx.Headers({"User-Agent": "toolcrib", "Accept": "*/*"})
        headers.update({**request.headers, **self.egress.headers(target)})
        inject(headers)
        headers["Accept-Encoding"] = ENCODINGS
        headers["Host"] = target.host if target.port == urls.PORTS[target.scheme] else f"{target.host}:{target.port}"
        return httpx.Request(
            request.method,
            httpx.URL(f"{target.scheme}://{place}:{target.port}").copy_with(raw_path=request.raw_path),
            headers=headers,
            content=request.content,
            extensions={
                "sni_hostname": target.host.strip("[]"),
                "trace": self.trace,
                "timeout": {"connect": connect_s, "read": None, "write": None, "pool": None},
            },
        )
