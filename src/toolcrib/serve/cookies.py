"""The cookie of a page in a browser. It holds the key that its user signed in with, sealed, so that it is checked anew
with every request: a key that was revoked opens nothing, in a cookie neither.

A page of somebody else can make a browser send the cookie. So `SameSite` keeps it at home, and who changes anything
with it has to send the header `X-Toolcrib`, which no foreign page can.
"""

from __future__ import annotations

import hashlib
import time
from base64 import urlsafe_b64encode
from typing import Any

from toolcrib.serve.principal import Headers

NAME = "toolcrib"
MARK = b"x-toolcrib"
LASTS_S = 12 * 3600
MOST_KNOWN = 10_000
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Cookies:
    """Seals keys into cookies, and finds them there."""

    def __init__(self, secret: bytes) -> None:
        self._secret = urlsafe_b64encode(hashlib.sha256(b"toolcrib cookie\0" + secret).digest())
        self._fernet: Any = None
        self._known: dict[bytes, tuple[bytes, float]] = {}

    def _cipher(self) -> Any:
        if self._fernet is None:
            from cryptography.fernet import Fernet

            self._fernet = Fernet(self._secret)
        return self._fernet

    def header(self, key: str, headers: Headers, *, secure: bool) -> tuple[bytes, bytes]:
        """The header that gives a browser its cookie, for the host of the request that brought the key."""
        return _header(_name(headers), self._cipher().encrypt(key.encode()).decode(), LASTS_S, secure=secure)

    def gone(self, headers: Headers, *, secure: bool) -> tuple[bytes, bytes]:
        """The header that takes it away."""
        return _header(_name(headers), "", 0, secure=secure)

    def key(self, headers: Headers) -> bytes | None:
        """The key in the cookie of a request that brings no other."""
        header = headers.get(b"cookie")
        if header is None or b"authorization" in headers:
            return None
        name = _name(headers).encode()
        value = next((v for n, _, v in (p.strip().partition(b"=") for p in header.split(b";")) if n == name), b"")
        return self._opened(value) if value else None

    def _opened(self, value: bytes) -> bytes | None:
        key, until = self._known.get(value, (b"", 0.0))
        if time.time() < until:
            return key
        from cryptography.fernet import InvalidToken

        try:
            key = self._cipher().decrypt(value, ttl=LASTS_S)
            until = self._cipher().extract_timestamp(value) + LASTS_S
        except InvalidToken:
            return None
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[value] = key, until
        return bytes(key)


def guarded(method: str, headers: Headers) -> bool:
    """True if a request with the cookie cannot have been made by a foreign page."""
    return method in _SAFE or MARK in headers


def _name(headers: Headers) -> str:
    """The name of the cookie. Browsers send cookies to all ports of a host, and each may have a server of its own."""
    port = headers.get(b"host", b"").rpartition(b":")[2]
    return f"{NAME}-{port.decode()}" if port.isdigit() else NAME


def _header(name: str, value: str, seconds: int, *, secure: bool) -> tuple[bytes, bytes]:
    parts = [f"{name}={value}", "Path=/", f"Max-Age={seconds}", "HttpOnly", "SameSite=Strict"]
    return b"set-cookie", "; ".join([*parts, *(["Secure"] if secure else [])]).encode()
