"""Requests to addresses that a model chose: each name is looked up here, every address is checked, and the checked
number is the one that is dialled, for the first connection and for that of every redirect.

Nothing is taken from the environment: no proxy, no certificates, no cookies. Time and size are bounded, the size also
of what a compressed answer grows to.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urljoin, urlsplit

from toolcrib.errors import ToolFailure
from toolcrib.policy import hosts, urls
from toolcrib.policy.problems import BadRule, Unfit
from toolcrib.policy.urls import Target
from toolcrib.sources.files.running.environment import masks
from toolcrib.sources.payload import ENCODINGS, read_body

if TYPE_CHECKING:
    import ssl

    import httpx

MOVED = (301, 302, 303, 307, 308)
SAFE = ("GET", "HEAD", "OPTIONS")
_LITERAL = "/%:@!$&'()*+,;=~?[]"
_KEPT = ("accept", "content-type")
"""The headers that follow a redirect to another host."""

_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*@")

Resolve = Callable[[str, int], Awaitable[list[str]]]


class Guard(Protocol):
    """What a session says of the places that a request leads to."""

    def private(self, target: Target, addresses: Sequence[str]) -> bool:
        """Whether a place may lie inside, at these addresses."""

    def redirect(self, url: str) -> bool:
        """Whether a request may go on there."""


class Anywhere:
    """The guard of addresses that the operator wrote."""

    def private(self, target: Target, addresses: Sequence[str]) -> bool:
        """An operator may mean what lies inside."""
        return True

    def redirect(self, url: str) -> bool:
        """Such a service answers where it is."""
        return False


@dataclass(frozen=True, slots=True)
class Request:
    """One request; its headers are those of the caller."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read to its end; `url` is where it came from."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """The type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body as text, in the encoding that the answer names."""
        found = re.search(r"charset=[\"']?([\w.:-]+)", self.headers.get("content-type", ""), re.IGNORECASE)
        try:
            return self.body.decode(found[1] if found else "utf-8", errors="replace")
        except (LookupError, UnicodeError):
            return self.body.decode(errors="replace")


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as this system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, slots=True)
class Client:
    """Makes requests within bounds.

    `allow_hosts` and `deny_hosts` are names or `*.example.com`; without the first every public host may be asked.
    `headers` are added for the places that they are for, by `host` (https), `https://host:port` or `http://host:port`;
    they never go anywhere else, and no answer or failure shows them.
    """

    ports: frozenset[int] = frozenset({80, 443})
    allow_hosts: tuple[str, ...] | None = None
    deny_hosts: tuple[str, ...] = ()
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    redirects: int = 3
    most: int = 2 * 1024 * 1024
    connect_s: float = 10.0
    total_s: float = 30.0
    resolve: Resolve = resolve

    @property
    def masks(self) -> tuple[str, ...]:
        """The texts that nobody may see."""
        values = [value for some in self.headers.values() for value in some.values()]
        return masks({}, *values, *(word for value in values for word in value.split()[1:]))

    async def send(self, request: Request, guard: Guard) -> Answer:
        """The answer, after redirects.

        Raises:
            ToolFailure: `denied`, it may not go there; `invalid_arguments`, there is no such place; `too_large`;
                `timeout`; `unavailable`; `unknown`, it may have happened.
        """
        sent = _Sent(request.method)
        try:
            async with asyncio.timeout(self.total_s):
                return await self._follow(request, guard, sent)
        except TimeoutError:
            raise sent.failure("timeout", f"There was no whole answer within {self.total_s:g} s") from None

    async def _follow(self, request: Request, guard: Guard, sent: _Sent) -> Answer:
        for left in range(self.redirects, -1, -1):
            target = self._target(request.url)
            answer = await self._answer(request, target, guard, sent)
            where = answer.headers.get("location") if answer.status in MOVED else None
            if where is None:
                return answer
            sent.yet = False
            if left:
                request = self._moved(request, answer.status, where, target)
                if not guard.redirect(request.url):
                    raise ToolFailure(
                        "denied", "The answer leads to another place, which is not allowed", hint=_ask_there(request)
                    )
        raise ToolFailure("failed", f"There are more than {self.redirects} redirects")

    def _target(self, url: str) -> Target:
        """Where a URL leads, if that is a place that may be asked."""
        try:
            target = urls.canonical(url)
        except Unfit as problem:
            raise ToolFailure("invalid_arguments", str(problem)) from None
        if target.scheme not in ("http", "https"):
            raise ToolFailure("invalid_arguments", "A URL begins with http:// or https://")
        if _USER.match(url):
            raise ToolFailure("denied", "A URL may not hold a user name or a password")
        if target.port not in self.ports:
            listed = ", ".join(map(str, sorted(self.ports)))
            raise ToolFailure("denied", f"Port {target.port} is not allowed", hint=f"Allowed: {listed}")
        if _among(target.host, self.deny_hosts) or not (
            self.allow_hosts is None or _among(target.host, self.allow_hosts)
        ):
            raise ToolFailure("denied", f"Host {target.host} is not allowed")
        return target

    def _moved(self, request: Request, status: int, where: str, target: Target) -> Request:
        """The request that a redirect asks for; to another place it takes nothing along that could be a secret."""
        url = urljoin(request.url, where).partition("#")[0]
        headers = request.headers
        if self._target(url) != target:
            headers = {name: value for name, value in headers.items() if name.lower() in _KEPT}
        moved = replace(request, url=url, headers=headers)
        if status in (307, 308) or request.method in SAFE or (status != 303 and request.method != "POST"):
            return moved
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        return replace(moved, method="GET", headers=headers, content=None)

    async def _answer(self, request: Request, target: Target, guard: Guard, sent: _Sent) -> Answer:
        """Asks the first address that can be reached. Nothing is tried again once a request may have been sent."""
        import httpx

        problem = "has no address"
        for address in await self._addresses(target, guard):
            try:
                async with httpx.AsyncHTTPTransport(verify=_tls(), retries=0, trust_env=False) as transport:
                    response = await transport.handle_async_request(self._request(request, target, address, sent))
                    body = await read_body(response, self.most)
                    return Answer(request.url, response.status_code, response.headers, body)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                forged = "CERTIFICATE_VERIFY_FAILED" in str(error)
                problem = "shows no certificate that can be trusted" if forged else "can not be reached"
            except (httpx.TransportError, httpx.InvalidURL) as error:
                raise sent.failure(
                    "unavailable", f"{target.host} ended the connection ({type(error).__name__})"
                ) from None
        raise ToolFailure("unavailable", f"{target.host} {problem}")

    async def _addresses(self, target: Target, guard: Guard) -> list[str]:
        """The addresses of a host, all of which may be dialled."""
        try:
            found = await self.resolve(target.host.strip("[]"), target.port)
        except (OSError, UnicodeError):
            raise ToolFailure("unavailable", f"{target.host} is not known") from None
        inside = [address for address in found if _lies_inside(address)]
        if (inside or target.private) and not guard.private(target, inside):
            raise ToolFailure("denied", "Address not allowed")
        return found

    def _request(self, request: Request, target: Target, address: str, sent: _Sent) -> httpx.Request:
        import httpx

        parts = urlsplit(request.url)
        path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_LITERAL)
        headers = httpx.Headers({"User-Agent": "toolcrib", "Accept": "*/*"})
        headers.update({**request.headers, **self._own(target)})
        headers["Host"] = target.host if target.port == urls.PORTS[target.scheme] else f"{target.host}:{target.port}"
        headers["Accept-Encoding"] = ENCODINGS
        place = f"[{address}]" if ":" in address else address
        waits = {"connect": self.connect_s, "read": self.total_s, "write": self.total_s, "pool": self.connect_s}
        return httpx.Request(
            request.method,
            httpx.URL(f"{target.scheme}://{place}:{target.port}").copy_with(raw_path=path.encode()),
            headers=headers,
            content=request.content,
            extensions={"sni_hostname": target.host.strip("[]"), "trace": sent.trace, "timeout": waits},
        )

    def _own(self, target: Target) -> dict[str, str]:
        """The headers that are for one place."""
        found: dict[str, str] = {}
        for place, some in self.headers.items():
            if (target.scheme == "https" or place.startswith("http://")) and urls.grant(place)(target):
                found |= some
        return found


def client(
    *,
    ports: Iterable[int] = (),
    allow_hosts: Iterable[str] | None = None,
    deny_hosts: Iterable[str] = (),
    headers: Mapping[str, Mapping[str, str]] | None = None,
    resolve: Resolve = resolve,
    **bounds: Any,
) -> Client:
    """A client with these settings.

    Raises:
        ValueError: one of them does not hold.
    """
    for place in headers or {}:
        try:
            if urls.grant(place).host is None or urls.grant(place).below:
                raise BadRule(place, "it names one host")
        except BadRule as error:
            raise ValueError(f"headers: {error}") from None
    return Client(
        ports=frozenset({80, 443, *ports}),
        allow_hosts=None if allow_hosts is None else tuple(_names(allow_hosts)),
        deny_hosts=tuple(_names(deny_hosts)),
        headers=headers or {},
        resolve=resolve,
        **bounds,
    )


def _names(given: Iterable[str]) -> Iterable[str]:
    for name in given:
        try:
            below = name.startswith("*.")
            yield ("*." if below else "") + hosts.canonical(name[2:] if below else name)
        except Unfit:
            raise ValueError(f"{name!r} is no host, nor *.example.com") from None


def _among(host: str, names: Iterable[str]) -> bool:
    return any(host == name or (name.startswith("*.") and host.endswith(name[1:])) for name in names)


def _lies_inside(address: str) -> bool:
    try:
        return "%" in address or hosts.address_is_private(ipaddress.ip_address(address))
    except ValueError:
        return True


def _ask_there(request: Request) -> str | None:
    return None if _USER.match(request.url) else f"It leads to {request.url[:300]}: ask for that, if it is meant."


@lru_cache(1)
def _tls() -> ssl.SSLContext:
    """Reading all certificates takes longer than a request."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


class _Sent:
    """Whether a request that changes something may have reached the other side."""

    def __init__(self, method: str) -> None:
        self._changes = method not in SAFE
        self.yet = False

    async def trace(self, event: str, info: Any) -> None:
        """Hears what becomes of a request."""
        if event.endswith("send_request_headers.started"):
            self.yet = True

    def failure(self, code: str, message: str) -> ToolFailure:
        """A failure without an answer."""
        if not (self.yet and self._changes):
            return ToolFailure(code, message)
        return ToolFailure(
            "unknown",
            f"{message}; the request was sent and may have been carried out",
            hint="Find out whether it happened before asking again.",
            retryable=False,
        )
