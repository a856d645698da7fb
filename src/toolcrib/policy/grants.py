"""Grants: patterns over capabilities that allow, ask or deny, compiled once and found by domain, action and prefix.

A deny always counts; else the most specific pattern decides. Where it is unclear whether a pattern means a capability
(a wildcard and a private host, a pattern without a resource) it does not give anything, but it does take away: a deny
counts, and an ask narrows what something wider allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from toolcrib.policy import globs, interpreters, paths, urls
from toolcrib.policy.capabilities import Capability, canonical
from toolcrib.policy.errors import BadRule, UnfitArgument
from toolcrib.policy.grant_index import Grant, GrantFamily
from toolcrib.policy.interpreters import is_interpreter

__all__ = ["Effect", "GrantDecision", "GrantTexts", "Grants", "Ungranted", "is_interpreter"]

Effect = Literal["allow", "ask", "deny"]
Ungranted = Literal["deny", "ask"]
EFFECTS: tuple[Effect, ...] = ("allow", "ask", "deny")
"""The folders of a session that has none: no grant of a workspace gives away anything that exists."""
_MOST_FAMILIES = 1024


class GrantDecision(NamedTuple):
    """What grants say of one capability, and the pattern that decided, as it was written."""

    effect: Effect
    pattern: str | None = None


class GrantTexts(NamedTuple):
    """Grants as they are written, before the folders of a session are known."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ungranted: Ungranted = "deny"

    def bound(self, folders: paths.Folders) -> Grants:
        """The same with the folders of a session filled in.

        Raises:
            BadRule: one of them does not load.
        """
        return Grants(*self, folders)


@dataclass(frozen=True, slots=True, eq=False)
class Grants:
    """What is granted in one session.

    Raises:
        BadRule: a pattern does not load.
    """

    allow: Iterable[str] = ()
    ask: Iterable[str] = ()
    deny: Iterable[str] = ()
    ungranted: Ungranted = "deny"
    folders: paths.Folders = paths.NOWHERE
    warnings: tuple[str, ...] = field(init=False, repr=False)
    _grants: tuple[Grant, ...] = field(init=False, repr=False)
    _families: dict[tuple[str, str], GrantFamily] = field(init=False, repr=False, default_factory=dict)
    _covered: dict[str, bool] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for effect in EFFECTS:
            object.__setattr__(self, effect, tuple(getattr(self, effect)))
        if self.ungranted not in ("deny", "ask"):
            raise BadRule(str(self.ungranted), "what is not granted is deny or ask")
        read = [Grant.read(text, effect, self.folders) for effect in EFFECTS for text in getattr(self, effect)]
        read.sort(key=lambda grant: grant.order)
        ranked = tuple(grant.ranked(rank) for rank, grant in enumerate(read))
        object.__setattr__(self, "_grants", ranked)
        object.__setattr__(self, "warnings", tuple(dict.fromkeys(warnings(ranked, self.folders))))

    def judge(self, capability: Capability) -> GrantDecision:
        """What happens to a capability; one that no grant could mean is denied."""
        try:
            wanted = self._fit(capability)
        except UnfitArgument:
            return GrantDecision("deny")
        family = self._family(wanted.domain, wanted.action)
        denied = family.deny.find(wanted)
        if denied is not None:
            return GrantDecision("deny", denied.text)
        grant = family.given.find(wanted)
        if grant is None:
            return GrantDecision(self.ungranted)
        if grant.effect == "allow":
            grant = family.narrowing.find(wanted, grant.rank) or grant
        if grant.effect == "allow" and wanted.resource == "*" and (hidden := self._deny_within(wanted)):
            return GrantDecision("ask", hidden)
        return GrantDecision(grant.effect, grant.text)

    def _deny_within(self, wanted: Capability) -> str | None:
        """The deny that a capability of anything, such as the unknown program of a command, may come under."""
        meant = (grant for grant in self._grants if grant.means(wanted.domain, wanted.action))
        return next((grant.text for grant in meant if grant.effect == "deny"), None)

    def covers_family(self, family: str) -> bool:
        """True if anything of a family may be allowed; one that ends with `*` stands for all actions of its domain."""
        covered = self._covered.get(family)
        if covered is None:
            if len(self._covered) >= _MOST_FAMILIES:
                self._covered.clear()
            domain, _, action = family.partition(":")
            covered = self._covered[family] = any(
                grant.effect != "deny" and grant.domain(domain) and (action == "*" or grant.action(action))
                for grant in self._grants
            )
        return covered

    def granted(self, domain: str, action: str) -> list[str]:
        """The resources of a family that are allowed, as patterns, for messages."""
        allowed = {grant.text: grant for grant in self._grants if grant.effect == "allow"}
        fitting = [allowed[text] for text in self.allow if allowed[text].means(domain, action)]
        return list(dict.fromkeys(grant.shown for grant in fitting))

    def joined(self, other: Grants | GrantTexts) -> Grants:
        """These and further ones; what is not granted is then as the further ones say."""
        allow, ask, deny = ((*getattr(self, effect), *getattr(other, effect)) for effect in EFFECTS)
        return Grants(allow, ask, deny, other.ungranted, self.folders)

    def _fit(self, capability: Capability) -> Capability:
        """Derived capabilities are canonical; any other is made so, or must not be matched at all."""
        if capability.domain == "fs" and capability.resource is not None:
            known = capability.resource if capability.within is None else capability.within
            if paths.is_canonical(known):
                return capability
        return canonical(capability, self.folders)

    def _family(self, domain: str, action: str) -> GrantFamily:
        family = self._families.get((domain, action))
        if family is None:
            if len(self._families) >= _MOST_FAMILIES:
                self._families.clear()
            meant = [grant for grant in self._grants if grant.means(domain, action)]
            family = self._families[domain, action] = GrantFamily(domain, action, meant, self.folders)
        return family


def warnings(grants: Iterable[Grant], folders: paths.Folders) -> Iterator[str]:
    """Yield what is surprising about grants: those that grant everything, and those that cover nothing."""
    for grant in grants:
        if grant.effect == "allow" and not grant.everything and grant.means("exec", "cmd"):
            programs = interpreters.granted(grant.resource or "")
            if programs:
                yield f"{grant.text} grants arbitrary code: {', '.join(programs)} runs whatever it is given"
        if grant.effect != "deny" and grant.names("net") and grant.resource and urls.grant(grant.resource).never:
            yield f"{grant.text} covers nothing: private hosts are granted by their own name or by 'private'"
        if grant.effect != "deny" and grant.names("fs") and grant.resource:
            real = paths.behind_links(paths.glob(grant.resource, folders), folders)
            if real is not None:
                yield f"{grant.text} goes through a link and covers nothing behind it: grant {globs.escaped(real)}"
