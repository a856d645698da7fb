"""Where requests go whose addresses a model chose: the settings of a toolkit, and the grants of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from toolcrib.definitions.runners.environment import masks
from toolcrib.errors import ToolFailure
from toolcrib.http import Egress, target_of
from toolcrib.http.message import has_user
from toolcrib.policy import hosts, urls
from toolcrib.policy.errors import BadRule, UnfitArgument
from toolcrib.policy.urls import UrlTarget
from toolcrib.toolkits.grants import GrantGuard


@dataclass(frozen=True, slots=True)
class WebSettings:
    """What the operator allows.

    `allow_hosts` and `deny_hosts` are names or `*.example.com`; without the first every public host may be asked.
    `headers` are added for the places that they are for, by `host` (https), `https://host:port` or `http://host:port`;
    they never go anywhere else, and no answer or failure shows them.

    Raises:
        ValueError: a host or a place is none.
    """

    ports: Iterable[int] = ()
    allow_hosts: Iterable[str] | None = None
    deny_hosts: Iterable[str] = ()
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for place in self.headers:
            try:
                if urls.grant(place).host is None or urls.grant(place).below:
                    raise BadRule(place, "it names one host")
            except BadRule as error:
                raise ValueError(f"headers: {error}") from None
        object.__setattr__(self, "ports", frozenset({80, 443, *self.ports}))
        object.__setattr__(self, "deny_hosts", _canonical(self.deny_hosts))
        if self.allow_hosts is not None:
            object.__setattr__(self, "allow_hosts", _canonical(self.allow_hosts))

    @property
    def masks(self) -> tuple[str, ...]:
        """The texts that nobody may see."""
        return masks_of(self.headers.values())

    def check(self, target: UrlTarget) -> None:
        """Check that an origin may be asked.

        Raises:
            ToolFailure: `denied`, its port or its host is not allowed.
        """
        if target.port not in self.ports:
            listed = ", ".join(map(str, sorted(self.ports)))
            raise ToolFailure("denied", f"Port {target.port} is not allowed", hint=f"Allowed: {listed}")
        denied = _among(target.host, self.deny_hosts)
        if denied or not (self.allow_hosts is None or _among(target.host, self.allow_hosts)):
            raise ToolFailure("denied", f"Host {target.host} is not allowed")


class WebEgress(Egress):
    """The rules for the requests of one call."""

    def __init__(self, settings: WebSettings, granted: GrantGuard) -> None:
        self._settings, self._granted = settings, granted

    def check_target(self, target: UrlTarget) -> None:
        """Check ports and hosts."""
        self._settings.check(target)

    def check_addresses(self, target: UrlTarget, inner: Sequence[str]) -> None:
        """Allow inner addresses that a grant names."""
        if not self._granted.private(target, inner):
            raise ToolFailure("denied", "Address not allowed")

    def check_redirect(self, target: UrlTarget, url: str, status: int) -> None:
        """Follow where the same call with that address would run without a question."""
        self._settings.check(target_of(url))
        if not self._granted.redirect(url):
            hint = None if has_user(url) else f"It leads to {url[:300]}: ask for that, if it is meant."
            raise ToolFailure("denied", "The answer leads to another place, which is not allowed", hint=hint)

    def headers(self, target: UrlTarget) -> Mapping[str, str]:
        """Return the configured headers of one place."""
        merged: dict[str, str] = {}
        for place, headers in self._settings.headers.items():
            if (target.scheme == "https" or place.startswith("http://")) and urls.grant(place)(target):
                merged |= headers
        return merged


def masks_of(headers: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the values of headers, and their words after the first, as texts to mask."""
    values = [value for one in headers for value in one.values()]
    return masks({}, *values, *(word for value in values for word in value.split()[1:]))


def _canonical(names: Iterable[str]) -> tuple[str, ...]:
    def canonical(name: str) -> str:
        below = name.startswith("*.")
        try:
            return ("*." if below else "") + hosts.canonical(name[2:] if below else name)
        except UnfitArgument:
            raise ValueError(f"{name!r} is no host, nor *.example.com") from None

    return tuple(map(canonical, names))


def _among(host: str, names: Iterable[str]) -> bool:
    return any(host == name or (name.startswith("*.") and host.endswith(name[1:])) for name in names)
