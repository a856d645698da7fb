"""Requests and responses as values."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urljoin, urlsplit

from toolcrib.errors import ToolFailure
from toolcrib.policy import urls
from toolcrib.policy.errors import UnfitArgument
from toolcrib.policy.urls import UrlTarget

SAFE = ("GET", "HEAD", "OPTIONS")
_MOVED = (301, 302, 303, 307, 308)
_LITERAL = "/%:@!$&'()*+,;=~?[]"
_KEPT = ("accept", "content-type")
"""The headers that follow a redirect to another origin."""

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What the name of a header may be."""

_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*@")
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)


def target_of(url: str) -> UrlTarget:
    """Return the origin of a web address.

    Raises:
        ToolFailure: `invalid_arguments`, it is no address of http or https; `denied`, it holds a user name.
    """
    try:
        target = urls.canonical(url)
    except UnfitArgument as problem:
        raise ToolFailure("invalid_arguments", str(problem)) from None
    if target.scheme not in ("http", "https"):
        raise ToolFailure("invalid_arguments", "A URL begins with http:// or https://")
    if has_user(url):
        raise ToolFailure("denied", "A URL may not hold a user name or a password")
    return target


def has_user(url: str) -> bool:
    """True if the address holds a user name or a password."""
    return _USER.match(url) is not None


@dataclass(frozen=True, slots=True)
class Request:
    """One request to `url`, which lies at the origin `target`."""

    url: str
    target: UrlTarget
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None

    @classmethod
    def to(
        cls, url: str, method: str = "GET", headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> Request:
        """Make a request of an address.

        Raises:
            ToolFailure: it is no address that can be requested: see `target_of`.
        """
        return cls(url, target_of(url), method, headers or {}, content)

    @property
    def raw_path(self) -> bytes:
        """Path and query as they are sent."""
        parts = urlsplit(self.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return quote(path, safe=_LITERAL).encode()

    def joined(self, location: str) -> str:
        """Return the address that a `Location` header of its response means."""
        return urljoin(self.url, location).partition("#")[0]

    def redirected(self, url: str, status: int) -> Request:
        """Return the request that a redirect asks for; to another origin it carries nothing that could be a secret."""
        target, headers = target_of(url), self.headers
        if target != self.target:
            headers = {name: value for name, value in headers.items() if name.lower() in _KEPT}
        moved = replace(self, url=url, target=target, headers=headers)
        becomes_get = self.method not in ("GET", "HEAD") if status == 303 else self.method == "POST"
        if status in (307, 308) or not becomes_get:
            return moved
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        return replace(moved, method="GET", headers=headers, content=None)


@dataclass(frozen=True, slots=True)
class Response:
    """A response, read to its end; `url` is where it came from."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def location(self) -> str | None:
        """Where it leads, if it is a redirect."""
        return self.headers.get("location") if self.status in _MOVED else None

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body as text, in the encoding that the headers name."""
        charset = _CHARSET.search(self.headers.get("content-type", ""))
        try:
            return self.body.decode(charset[1] if charset else "utf-8", errors="replace")
        except (LookupError, UnicodeError):
            return self.body.decode(errors="replace")

    @property
    def retry_after_s(self) -> float | None:
        """The seconds of its `Retry-After` header, which is a number or a date."""
        value = self.headers.get("retry-after", "").strip()
        if value.isdecimal():
            return float(value)
        try:
            return max(0.0, round(parsedate_to_datetime(value).timestamp() - time.time()))
        except ValueError:
            return None
