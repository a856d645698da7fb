"""Limits of requests: how large, how slow, how often and how many, so that nobody takes the server from others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from toolcrib.serve.api.errors import ApiError
from toolcrib.serve.principal import Principal
from toolcrib.types import pace

if TYPE_CHECKING:
    from toolcrib._call.shared_limits import SharedLimits

MOST_KNOWN = 100_000


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """What one principal, and all together, may ask of the server.

    `rate` is that of the requests of one principal, such as `600/min`; so many of theirs as `requests_each` are under
    way at once, beside streams. `streams` are open at once in all, `streams_each` of one principal. `idle_s` is how
    long a session stays in memory that nobody uses, `ping_s` how often a silent stream says that it is still there,
    `drain_s` how long a reader may take nothing before it is cut off.

    Raises:
        ValueError: the rate is none.
    """

    body_bytes: int = 4 * 1024 * 1024
    body_s: float = 30.0
    rate: str | None = None
    requests_each: int = 1_000
    streams: int = 10_000
    streams_each: int = 1_000
    idle_s: float = 300.0
    ping_s: float = 15.0
    drain_s: float = 30.0

    def __post_init__(self) -> None:
        if self.rate is not None:
            pace(self.rate)


class RequestLimiter:
    """Counts requests and streams. Its memory is bounded: who was not heard of for long is forgotten.

    Where it is `shared`, a principal opens one more stream only while they have fewer than can still be opened. The
    rate is that of all processes at one port `together`, where there are several.
    """

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self._pace = None if limits.rate is None else pace(limits.rate)
        self._ahead: dict[str, float] = {}
        self._streams: Counter[str] = Counter()
        self._under_way: dict[str, int] = {}
        self.open = 0
        self.shared = False
        self.together: SharedLimits | None = None

    def enter(self, principal: Principal) -> None:
        """Counts a request that begins.

        Raises:
            ApiError: 429, there were or are too many.
        """
        many = self._under_way.get(principal.name, 0)
        if many >= self._limits.requests_each:
            message = f"{many} requests are under way already"
            raise ApiError("too_many", message, "wait for some of them to end", retry_after=1)
        if self._pace is not None:
            self._count(principal, *self._pace)
        self._under_way[principal.name] = many + 1

    @property
    def under_way(self) -> int:
        """How many requests there are now, beside streams."""
        return sum(self._under_way.values())

    def leave(self, principal: Principal) -> None:
        """It is over."""
        many = self._under_way[principal.name] - 1
        if many:
            self._under_way[principal.name] = many
        else:
            del self._under_way[principal.name]

    def _count(self, principal: Principal, interval: float, burst: int) -> None:
        spend = self._spend if self.together is None else self.together.spend
        wait = spend(f"requests {principal.name}", interval, burst, monotonic())
        if wait > 0:
            raise ApiError(
                "rate_limited", f"More than {self._limits.rate} requests", "come back later", retry_after=round(wait, 3)
            )

    def _spend(self, name: str, interval: float, burst: int, now: float) -> float:
        """Takes one from a rate, and returns 0; where nothing is left, how long to wait, and nothing is taken."""
        ahead = max(self._ahead.get(name, now), now)
        wait = ahead - now - (burst - 1) * interval
        if wait > 0:
            return wait
        if len(self._ahead) >= MOST_KNOWN:
            self._ahead = {known: until for known, until in self._ahead.items() if until > now}
        self._ahead[name] = ahead + interval
        return 0.0

    def spare(self, principal: Principal) -> None:
        """Looks whether one more stream may be opened, for who has something to do before it is.

        Raises:
            ApiError: 429, there are too many of this principal; 503, in all.
        """
        limits, name = self._limits, principal.name
        if self._streams.get(name, 0) >= limits.streams_each:
            raise ApiError("too_many", f"{limits.streams_each} streams are open already", "close one", retry_after=5)
        if self.shared and self._streams.get(name, 0) >= limits.streams - self.open:
            message = f"{self._streams[name]} streams of yours are open, and others need the rest"
            raise ApiError("too_many", message, "close one", retry_after=5)
        if self.open >= limits.streams:
            raise ApiError("unavailable", "Too many streams are open here", "try again", retry_after=5)

    @contextmanager
    def stream(self, principal: Principal) -> Iterator[None]:
        """Counts a stream for as long as it is open; it does not count as a request meanwhile.

        Raises:
            ApiError: there are too many.
        """
        name = principal.name
        self.spare(principal)
        self._streams[name] += 1
        self.open += 1
        self.leave(principal)
        try:
            yield
        finally:
            self._under_way[name] = self._under_way.get(name, 0) + 1
            self.open -= 1
            self._streams[name] -= 1
            if not self._streams[name]:
                del self._streams[name]
