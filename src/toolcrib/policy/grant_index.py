"""One grant, and an index of all grants that speak of one domain and action.

A capability is looked up by its exact resource and by the literal prefixes of patterns, so that a thousand grants cost
little more than one.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from toolcrib.policy import capabilities, globs, paths, shell, urls
from toolcrib.policy.capabilities import Capability
from toolcrib.policy.errors import BadRule

Effect = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class Grant:
    """A pattern that was read; `resource` has its folders filled in, and None means that it has none."""

    text: str
    effect: Effect
    domain: Callable[[str], bool]
    action: Callable[[str], bool]
    resource: str | None
    everything: bool
    named: tuple[str, str]  # domain and action as written
    specific: tuple[int, int]  # literal characters and wildcards
    bare: bool = True  # it also covers what has no resource
    rank: int = -1

    @classmethod
    def read(cls, text: Any, effect: Effect, folders: paths.Folders) -> Grant:
        """Read one pattern.

        Raises:
            BadRule: it does not load.
        """
        if not isinstance(text, str):
            raise BadRule(repr(text), "a grant is a text")
        if text == "*":
            return cls(text, effect, _any, _any, "*", True, ("*", "*"), (0, 1))
        domain, action, *more = text.split(":", 2) if ":" in text else ("", "")
        if not domain or not action or more == [""]:
            raise BadRule(text, "a grant is domain:action, domain:action:resource or '*'")
        try:
            resource = folders.substituted(more[0]) if more else _of_all(domain, action)
            whole = ":".join((domain, action, *([_full(domain, resource, folders)] if more and resource else [])))
        except BadRule as error:
            raise BadRule(text, error.problem) from None
        specific = globs.literal(whole), globs.wildcards(whole)
        named = domain, action
        return cls(text, effect, globs.text(domain), globs.text(action), resource, False, named, specific, not more)

    @property
    def order(self) -> tuple[int, int, bool]:
        """The most specific first, and ask before others that are equally specific."""
        literal, wildcards = self.specific
        return -literal, wildcards, self.effect != "ask"

    def ranked(self, rank: int) -> Grant:
        """The same with its place among all."""
        return replace(self, rank=rank)

    def means(self, domain: str, action: str) -> bool:
        """True if it speaks of a family."""
        return self.domain(domain) and self.action(action)

    def names(self, domain: str) -> bool:
        """True if it names this domain and no other."""
        return self.named[0] == domain

    @property
    def shown(self) -> str:
        """Its resource, for a message."""
        return self.text if self.resource is None else self.resource


def _of_all(domain: str, action: str) -> str | None:
    """The resource of a grant that names none: with every action of one domain come all its resources."""
    if action != "*" or globs.is_pattern(domain):
        return None
    return paths.EVERYTHING if domain == "fs" else "*"


def _any(value: str) -> bool:
    return True


def _full(domain: str, resource: str, folders: paths.Folders) -> str:
    """The resource in full, where the domain says what it is."""
    if domain == "fs":
        return paths.glob(resource, folders).full
    if domain == "net":
        urls.grant(resource)
    return resource


class _GrantEntry(NamedTuple):
    """A grant where a lookup finds it."""

    rank: int
    effect: Effect
    text: str
    test: Callable[[Any], object]


class _Part(NamedTuple):
    """What a grant covers in one family: single things by prefix, and sets by prefix or by the same pattern."""

    prefix: str
    exact: bool
    test: Callable[[Any], object]
    set_prefix: str | None = None  # None: it covers a set only if that is the same pattern
    set_test: Callable[[Any], object] = _any
    same: str | None = None


class _Index:
    """Entries by exact key and by prefix."""

    __slots__ = ("_exact", "_lengths", "_prefixed")

    def __init__(self) -> None:
        self._exact: dict[str, list[_GrantEntry]] = {}
        self._prefixed: dict[str, list[_GrantEntry]] = {}
        self._lengths: list[int] = []

    def add(self, key: str, exact: bool, entry: _GrantEntry) -> None:
        """Add an entry; those with a lower rank come before."""
        if exact:
            self._exact.setdefault(key, []).append(entry)
            return
        if len(key) not in self._lengths:
            insort(self._lengths, len(key))
        self._prefixed.setdefault(key, []).append(entry)

    def find(self, key: str, value: object, best: _GrantEntry | None, below: int) -> _GrantEntry | None:
        """The entry with the lowest rank that covers the value, if its rank is below."""
        limit = below if best is None else best.rank
        for entries in self._near(key):
            for entry in entries:
                if entry.rank >= limit:
                    break
                if entry.test(value):
                    best, limit = entry, entry.rank
                    break
        return best

    def _near(self, key: str) -> Iterator[list[_GrantEntry]]:
        entries = self._exact.get(key)
        if entries is not None:
            yield entries
        for length in self._lengths:
            if length > len(key):
                return
            entries = self._prefixed.get(key[:length])
            if entries is not None:
                yield entries


_NONE = 1 << 62


class GrantFinder:
    """Some grants of one family."""

    __slots__ = ("_bare", "_domain", "_points", "_same", "_sets", "_used")

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._points, self._sets = _Index(), _Index()
        self._same: dict[str, _GrantEntry] = {}
        self._bare: _GrantEntry | None = None
        self._used = False

    def add(self, grant: Grant, parts: Iterable[_Part], bare: bool) -> None:
        """Add a grant: what it covers, and whether also capabilities without a resource."""
        self._used = True
        made = _GrantEntry(grant.rank, grant.effect, grant.text, _any)
        if bare and self._bare is None:
            self._bare = made
        for part in parts:
            self._points.add(part.prefix, part.exact, made._replace(test=part.test))
            if part.set_prefix is not None:
                self._sets.add(part.set_prefix, False, made._replace(test=part.set_test))
            if part.same is not None:
                self._same.setdefault(part.same, made)

    def find(self, wanted: Capability, below: int = _NONE) -> _GrantEntry | None:
        """The most specific grant that covers a canonical capability."""
        if not self._used:
            return None
        resource = wanted.resource
        if resource is None:
            return self._bare if self._bare is not None and self._bare.rank < below else None
        if wanted.within is not None:
            same = self._same.get(resource)
            best = same if same is not None and same.rank < below else None
            return self._sets.find(*self._set(resource, wanted.within), best, below)
        return self._points.find(*self._point(resource), None, below)

    def _point(self, resource: str) -> tuple[str, object]:
        if self._domain == "fs":
            key = paths.key(resource)
            return key, key
        if self._domain == "net":
            target = urls.canonical(resource)
            return _host_key(target.host), target
        return resource, resource

    def _set(self, resource: str, within: str) -> tuple[str, object]:
        if self._domain == "fs":
            key = paths.key(within)
            return key, key
        return "", urls.grant(resource) if self._domain == "net" else resource


class GrantFamily:
    """The grants of one domain and action: what is denied, what is given, and asks that narrow what is given."""

    __slots__ = ("deny", "given", "narrowing")

    def __init__(self, domain: str, action: str, grants: Iterable[Grant], folders: paths.Folders) -> None:
        self.deny, self.given, self.narrowing = GrantFinder(domain), GrantFinder(domain), GrantFinder(domain)
        reader = _ResourceReader(domain, action, folders)
        for grant in grants:
            if grant.effect == "deny":
                self.deny.add(grant, reader.widely(grant), bare=True)
                continue
            self.given.add(grant, reader.narrowly(grant), bare=grant.bare)
            if grant.effect == "ask":
                self.narrowing.add(grant, reader.widely(grant), bare=True)


class _ResourceReader:
    """Reads the resources of grants as those of one family."""

    __slots__ = ("_action", "_domain", "_folders")

    def __init__(self, domain: str, action: str, folders: paths.Folders) -> None:
        self._domain, self._action, self._folders = domain, action, folders

    def narrowly(self, grant: Grant) -> Iterator[_Part]:
        """What a grant surely covers."""
        if grant.everything:
            yield _Part("", False, _any, "")
        elif grant.resource is not None:
            yield from self._read(grant.resource, wide=False)

    def widely(self, grant: Grant) -> Iterator[_Part]:
        """What a grant may mean."""
        if grant.everything or grant.resource is None:
            yield _Part("", False, _any, "")
        else:
            yield from self._read(grant.resource, wide=True)

    def _read(self, resource: str, wide: bool) -> Iterator[_Part]:
        try:
            if self._domain == "fs":
                yield from self._files(resource, wide)
            elif self._domain == "net":
                yield _net(urls.grant(resource), wide)
            elif capabilities.is_program(self._domain, self._action):
                yield from _programs(resource, wide)
            else:
                yield _text(resource)
        except BadRule:
            return  # a pattern for several domains need not mean something in each

    def _files(self, resource: str, wide: bool) -> Iterator[_Part]:
        glob = paths.glob(resource, self._folders)
        yield _path(glob)
        real = paths.behind_links(glob, self._folders) if wide else None
        if real is not None:
            yield _path(paths.glob(real, self._folders))


def _path(glob: paths.PathGlob) -> _Part:
    same = None if glob.exact or glob.name else glob.text
    below = glob.prefix if glob.subtree else None
    return _Part(glob.prefix, glob.exact, glob.matches, below, glob.matches, same)


def _net(grant: urls.NetGrant, wide: bool) -> _Part:
    prefix = "" if grant.host is None else _host_key(grant.host)
    sets = _any if wide and grant.is_everything else grant.covers
    return _Part(prefix, grant.host is not None and not grant.below, grant.widely if wide else grant, "", sets)


def _host_key(host: str) -> str:
    """A host with its labels turned round, so that what lies below a name begins with it."""
    return ".".join(reversed(host.split("."))) + "."


def _programs(resource: str, wide: bool) -> Iterator[_Part]:
    """A program in a trusted folder is known by its base name alone."""
    short = shell.program(resource)
    if short != resource and globs.is_pattern(resource):
        yield _text(resource)
        if not wide:
            return
    yield _text(short)


def _text(resource: str) -> _Part:
    glob = globs.compiled(resource)
    sets = "" if set(resource) == {"*"} else None
    return _Part(glob.prefix, glob.exact, glob.test, sets, _any, None if glob.exact else resource)
