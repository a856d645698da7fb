"""Which pages and host names may reach the server. A page in a browser may be anybody's, and so may a name in DNS."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.serve.principal import Headers

LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Origins:
    """The host names that the server answers to, and the origins of pages that may call it.

    An origin is a host name, with a port or without, or `scheme://host`; `*` lets everything in. Requests without an
    `Origin` come from no page. Pages of the server's own hosts are always let in, with `own_port` only those of the
    very address that the request goes to; then what a browser says of other sites counts as well.
    """

    def __init__(self, hosts: Sequence[str] = LOCAL, origins: Sequence[str] = (), *, own_port: bool = False) -> None:
        self._own_port = own_port
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._known: dict[tuple[bytes | None, bytes | None], bool] = {}

    def admits(self, headers: Headers) -> bool:
        """True if a request may come in by where it comes from and where it thinks it goes."""
        pair = headers.get(b"host"), headers.get(b"origin")
        known = self._known.get(pair)
        if known is None:
            known = self._host(pair[0]) and self._origin(*pair)
            if len(self._known) < 1000:  # whoever asks chooses what stands there
                self._known[pair] = known
        if pair[1] is not None or not self._own_port or "*" in self._origins:
            return known
        return known and not _from_elsewhere(headers)

    def _host(self, header: bytes | None) -> bool:
        return "*" in self._hosts or (header is not None and _within(header.decode("latin-1").lower(), self._hosts))

    def _origin(self, host_header: bytes | None, header: bytes | None) -> bool:
        if header is None or "*" in self._origins:
            return True
        origin = header.decode("latin-1").lower()
        scheme, separator, host = origin.partition("://")
        if not separator:
            return False
        if origin in self._origins or _within(host, self._origins):
            return True
        own = (host_header or b"").lower() == host.encode("latin-1") if self._own_port else _within(host, self._hosts)
        return scheme in ("http", "https") and own


def _from_elsewhere(headers: Headers) -> bool:
    """True if a browser says that a page of another site caused a request, and not somebody who followed a link."""
    if headers.get(b"sec-fetch-site", b"none").lower() not in (b"same-site", b"cross-site"):
        return False
    return (headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")) != (b"navigate", b"document")


def _within(host: str, allowed: frozenset[str]) -> bool:
    """A name without a port stands for all its ports."""
    return host in allowed or _bare(host) in allowed


def _bare(host: str) -> str:
    """The name alone, if what follows it is a port: clients read `name:80@elsewhere` as another place."""
    name, _, port = host.rpartition(":")
    return name if port.isascii() and port.isdecimal() else host
