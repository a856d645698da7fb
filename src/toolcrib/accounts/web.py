"""Requests to authorization servers: bounded, without redirects, and to inner hosts only if the operator wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from toolcrib.errors import ToolFailure
from toolcrib.http import Client, Egress, Request, Response, Unanswered
from toolcrib.policy.urls import UrlTarget

LARGEST = 256 * 1024
TOTAL_S = 30.0
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


class AuthorizationError(Exception):
    """A server of authorization did not do what it was asked; `code` is its own word for that, where it has one."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.code = message, code


class AuthorizationWeb(Egress):
    """Sends requests for one account. `hosts` are those that the operator wrote, which may be inner ones."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts
        self._client = Client(largest=LARGEST, redirects=0)

    def check_target(self, target: UrlTarget) -> None:
        """Send secrets over https alone, but for servers on this machine."""
        if target.scheme != "https" and target.host not in _LOOPBACK and target.host not in self._hosts:
            raise ToolFailure("denied", f"{target.host} is reached by http, which everybody can read")

    def check_addresses(self, target: UrlTarget, inner: Sequence[str]) -> None:
        """Allow inner addresses of hosts that the operator wrote, and of this machine where one of those is on it."""
        local = target.host in _LOOPBACK and any(host in _LOOPBACK for host in self._hosts)
        if target.host not in self._hosts and not local:
            raise ToolFailure("denied", f"{target.host} lies inside, and the settings of the account do not name it")

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Response:
        """Return what is at an address.

        Raises:
            AuthorizationError: it cannot be reached.
        """
        return await self._send(url, "GET", {"Accept": "application/json", **(headers or {})}, None)

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Response:
        """Send a form.

        Raises:
            AuthorizationError: it cannot be reached.
        """
        more = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        return await self._send(url, "POST", more, urlencode(form).encode())

    async def post_json(self, url: str, data: Any) -> Response:
        """Send JSON.

        Raises:
            AuthorizationError: it cannot be reached.
        """
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        return await self._send(url, "POST", headers, msgspec.json.encode(data))

    async def _send(self, url: str, method: str, headers: Mapping[str, str], content: bytes | None) -> Response:
        try:
            return await self._client.send(Request.to(url, method, headers, content), self, total_s=TOTAL_S)
        except Unanswered as error:
            raise AuthorizationError(error.message) from None
        except ToolFailure as error:
            raise AuthorizationError(error.message) from None


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def error_of(response: Response, what: str) -> AuthorizationError:
    """Return what an error response says, in the words of OAuth; a description may hold anything, so it is left out."""
    try:
        code = msgspec.json.decode(response.body, type=dict[str, Any]).get("error")
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        code = None
    code = code if isinstance(code, str) and code.isascii() and len(code) <= 64 else None
    host = urlsplit(response.url).hostname
    return AuthorizationError(f"{host} refused {what} (HTTP {response.status}{f', {code}' if code else ''})", code)
