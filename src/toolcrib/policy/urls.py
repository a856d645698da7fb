"""URLs as they are matched, `<scheme>://<host>:<port>`, and the grants of `net:`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from toolcrib.policy import hosts
from toolcrib.policy.errors import BadRule, UnfitArgument

PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
WEB = frozenset({"http", "https", "ws", "wss"})

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(?:[/?#].*)?", re.DOTALL)
_PLACE = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}|\*))?")
_UNCLEAN = re.compile(r"[\s\x00-\x20\x7f-\x9f\\\ud800-\udfff\u2028\u2029\ufeff]")


class UrlTarget(NamedTuple):
    """Where a URL leads."""

    scheme: str
    host: str
    port: int
    private: bool

    @property
    def text(self) -> str:
        """Its form in a capability."""
        return f"{self.scheme}://{self.host}:{self.port}"


@lru_cache(4096)
def canonical(url: str) -> UrlTarget:
    """Where a URL leads, however it is written.

    Raises:
        Unfit: it holds blanks, control characters or backslashes, has no host, or another scheme.
    """
    if _UNCLEAN.search(url):
        raise UnfitArgument("a URL holds neither blanks nor control characters nor backslashes")
    match = _URL.fullmatch(url)
    if match is None:
        raise UnfitArgument(f"{_short(url)} is no URL with a scheme and a host")
    scheme = match[1].lower()
    if scheme not in PORTS:
        raise UnfitArgument(f"the scheme of a URL is one of {', '.join(PORTS)}, not {scheme!r}")
    user, _, place = match[2].rpartition("@")
    if any(mark in user for mark in "@[]"):
        raise UnfitArgument("a URL has '@', '[' or ']' in its user name")
    return _target(scheme, place)


def requested(resource: str) -> UrlTarget:
    """What a capability asks for: a URL, or a bare host, which means https.

    Raises:
        Unfit: it is neither.
    """
    if "://" in resource:
        return canonical(resource)
    if _UNCLEAN.search(resource):
        raise UnfitArgument(f"{_short(resource)} is no host")
    return _target("https", resource)


def _target(scheme: str, place: str) -> UrlTarget:
    name, port = _split(place)
    if port == "*":
        raise UnfitArgument(f"{_short(place)} is no host")
    number = int(port) if port else PORTS[scheme]
    if not 1 <= number <= 65535:
        raise UnfitArgument("the port of a URL is one of 1 to 65535")
    host = hosts.canonical(name)
    return UrlTarget(scheme, host, number, hosts.is_private(host))


def _split(place: str) -> tuple[str, str]:
    """Host and port, each as written."""
    match = _PLACE.fullmatch(place)
    if match is None:
        raise UnfitArgument(f"{_short(place)} is no host with a port")
    return match[1], match[2] or ""


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")


@dataclass(frozen=True, slots=True)
class NetGrant:
    """Which targets a grant covers.

    `host` is the exact host, the parent (`below`), or None for every host. Private targets are covered by their own
    name and by `private` alone; `widely` tells what is meant where nothing may slip through.
    """

    text: str = field(compare=False)
    schemes: frozenset[str]
    host: str | None
    below: bool = False
    ports: int | None = None  # 0: the scheme's own; None: any
    private: bool = False  # only what is private

    def __call__(self, target: UrlTarget) -> bool:
        """True if the target is covered."""
        return self.widely(target) and (not target.private or self.private or self._names(target.host))

    def widely(self, target: UrlTarget) -> bool:
        """True if the target is meant, also where a wildcard does not reach private ones."""
        if target.scheme not in self.schemes or (self.private and not target.private):
            return False
        if self.ports is not None and target.port != (self.ports or PORTS[target.scheme]):
            return False
        return self.host is None or self._names(target.host) or (self.below and target.host.endswith(f".{self.host}"))

    def covers(self, other: NetGrant) -> bool:
        """True if all that another may mean is covered: the same, or everything that is not private."""
        if self == other:
            return True
        return self.is_everything and not other.private and not (other.host and hosts.is_private(other.host))

    @property
    def is_everything(self) -> bool:
        """True if it is `*`."""
        return self.host is None and self.ports is None and not self.private and len(self.schemes) == len(PORTS)

    @property
    def never(self) -> bool:
        """True if it is a wildcard over names that are all private, which it does not reach."""
        return self.below and self.host is not None and hosts.is_private(self.host)

    def _names(self, host: str) -> bool:
        return host == self.host and not self.below


@lru_cache(16384)
def grant(pattern: str) -> NetGrant:
    """What a grant of `net:` covers.

    Raises:
        BadRule: it is none of host, host:port, host:*, scheme://host, *.host, * and private.
    """
    if pattern in ("*", "private"):
        return NetGrant(pattern, frozenset(PORTS), None, private=pattern == "private")
    scheme, place = _place(pattern)
    try:
        name, port = _split(place)
        below = name.startswith("*.")
        host = None if name == "*" else hosts.canonical(name[2:] if below else name)
    except UnfitArgument as problem:
        raise BadRule(pattern, str(problem)) from None
    if below and host is not None and re.fullmatch(r"\[.*|[\d.]+", host):
        raise BadRule(pattern, "nothing lies below an address")
    return NetGrant(pattern, _schemes(scheme, port), host, below, _ports(pattern, port))


def _place(pattern: str) -> tuple[str, str]:
    """Scheme and place of a pattern; a bare IPv6 address needs no brackets."""
    if _UNCLEAN.search(pattern):
        raise BadRule(pattern, "it holds neither blanks nor control characters nor backslashes")
    scheme, mark, place = pattern.rpartition("://")
    if mark and scheme.lower() not in PORTS:
        raise BadRule(pattern, f"the scheme is one of {', '.join(PORTS)}")
    place = place.removesuffix("/")
    if place.endswith(":") and not place.endswith("::"):
        raise BadRule(pattern, "the port is missing")
    if any(char in place for char in "/?#@"):
        raise BadRule(pattern, "it names a host, a scheme and a port, and nothing else of a URL")
    if place.count(":") > 1 and "[" not in place:
        place = f"[{place}]"
    return scheme.lower(), place


def _schemes(scheme: str, port: str) -> frozenset[str]:
    if scheme:
        return frozenset({scheme})
    return frozenset(PORTS) if port else WEB


def _ports(pattern: str, port: str) -> int | None:
    if port == "*":
        return None
    if port and not 1 <= int(port) <= 65535:
        raise BadRule(pattern, "the port is one of 1 to 65535")
    return int(port) if port else 0
