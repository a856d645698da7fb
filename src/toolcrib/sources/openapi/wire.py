"""`Wire`: how requests leave. A request goes to the host that document or configuration name, and to no other.

The address that is checked is the address that is connected to, so that a name can not lead elsewhere in between.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from toolcrib.errors import StreamClosed, ToolFailure
from toolcrib.policy import hosts, urls
from toolcrib.policy.problems import Unfit
from toolcrib.sources.payload import ENCODINGS, read_body

if TYPE_CHECKING:
    import ssl

    import httpx

LARGEST = 32 * 1024 * 1024
CONNECT_S = 15.0
REDIRECTS = 5
MOVED = (301, 302, 303, 307, 308)
_LITERAL = "/%:@!$&'()*+,;=~?[]"


async def addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, as this system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@lru_cache(1)
def _tls() -> ssl.SSLContext:
    """Reading all certificates takes longer than a request."""
    import httpx

    return httpx.create_ssl_context()


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent. `path` is encoded and begins with a slash; `query` is encoded."""

    method: str
    target: urls.Target
    path: str
    query: str
    headers: Mapping[str, str]
    content: bytes | None = None

    def redirected(self, status: int, where: str) -> Request:
        """The request that a redirect on the same host asks for."""
        parts = urlsplit(where)
        moved = replace(self, path=quote(parts.path or "/", safe=_LITERAL), query=quote(parts.query, safe=_LITERAL))
        asks_anew = status == 303 and self.method != "HEAD"
        if not asks_anew and not (status in (301, 302) and self.method == "POST"):
            return moved
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-type"}
        return replace(moved, method="GET", content=None, headers=headers)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, read to its end."""

    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def media(self) -> str:
        """Its type, without parameters."""
        return str(self.headers.get("content-type", "")).partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body as text."""
        charset = str(self.headers.get("content-type", "")).lower().partition("charset=")[2].partition(";")[0]
        try:
            return self.body.decode(charset.strip(" \"'") or "utf-8", errors="replace")
        except LookupError:
            return self.body.decode(errors="replace")


class Wire:
    """Connections to the hosts of one document.

    `inside` are hosts that may lie inside: those that the configuration names. `resolve` finds addresses.
    """

    def __init__(self, resolve: Callable[[str, int], Awaitable[list[str]]] = addresses) -> None:
        self.inside: set[str] = set()
        self._resolve = resolve
        self._transport: httpx.AsyncHTTPTransport | None = None

    async def close(self) -> None:
        """Closes all connections; it can be used again, also in another loop."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def send(self, request: Request, limit: int = LARGEST) -> Answer:
        """The answer to a request, after redirects on the same host.

        Raises:
            ToolFailure: it could not be sent, or leads elsewhere; `StreamClosed` where it was sent and nobody answered.
        """
        for _ in range(REDIRECTS):
            answer = await self._answer(request, limit)
            location = answer.headers.get("location")
            if answer.status not in MOVED or location is None:
                return answer
            where = urljoin(f"{request.target.text}{request.path}", location)
            if not _same(where, request.target):
                raise ToolFailure("denied", f"{request.target.host} redirects to another place, which is refused")
            request = request.redirected(answer.status, where)
        raise ToolFailure("failed", f"{request.target.host} redirects more than {REDIRECTS} times")

    async def _answer(self, request: Request, limit: int) -> Answer:
        """Asks the first address that can be reached. Nothing is tried again once a request may have been sent."""
        try:
            import httpx
        except ImportError:
            raise ToolFailure("unavailable", "Requests need httpx: pip install 'toolcrib[openapi]'") from None
        if self._transport is None:
            self._transport = httpx.AsyncHTTPTransport(verify=_tls(), retries=0)
        problem = "has no address"
        for address in await self._addresses(request.target):
            sent = _Sent()
            try:
                response = await self._transport.handle_async_request(_made(request, address, sent))
                return await _read(response, limit)
            except httpx.TransportError as error:
                if sent.yet:
                    raise StreamClosed from None
                forged = "CERTIFICATE_VERIFY_FAILED" in str(error)
                problem = "shows no certificate that can be trusted" if forged else "can not be reached"
        raise ToolFailure("unavailable", f"{request.target.host} {problem}")

    async def _addresses(self, target: urls.Target) -> list[str]:
        try:
            found = await self._resolve(target.host.strip("[]"), target.port)
        except OSError:
            raise ToolFailure("unavailable", f"{target.host} is not known") from None
        if target.host not in self.inside:
            for address in found:
                if hosts.address_is_private(ipaddress.ip_address(address.partition("%")[0])):
                    raise ToolFailure(
                        "denied",
                        f"{target.host} leads to {address}, which lies inside",
                        hint="Whoever configures this source can allow it by naming that host in its base_url.",
                    )
        return found


def _same(where: str, target: urls.Target) -> bool:
    try:
        return urls.canonical(where) == target
    except Unfit:
        return False


def _made(request: Request, address: str, sent: _Sent) -> httpx.Request:
    import httpx

    target = request.target
    place = f"[{address}]" if ":" in address else address
    query = f"?{request.query}" if request.query else ""
    headers = httpx.Headers({"User-Agent": "toolcrib", "Accept-Encoding": ENCODINGS, **request.headers})
    headers["Host"] = target.host if target.port == urls.PORTS[target.scheme] else f"{target.host}:{target.port}"
    return httpx.Request(
        request.method,
        httpx.URL(f"{target.scheme}://{place}:{target.port}").copy_with(raw_path=f"{request.path}{query}".encode()),
        headers=headers,
        content=request.content,
        extensions={
            "sni_hostname": target.host.strip("[]"),
            "trace": sent.trace,
            "timeout": {"connect": CONNECT_S, "read": None, "write": None, "pool": None},
        },
    )


async def _read(response: httpx.Response, limit: int) -> Answer:
    return Answer(response.status_code, response.headers, await read_body(response, limit))


class _Sent:
    """Whether a request may have reached the other side."""

    def __init__(self) -> None:
        self.yet = False

    async def trace(self, event: str, info: Any) -> None:
        """Hears what becomes of a request."""
        if event.endswith("send_request_headers.started"):
            self.yet = True
