"""What the grants of a session say of the places that a request leads to, while it is under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcrib._call.admission import asker
from toolcrib.context import Context
from toolcrib.policy import BadRule, UnfitArgument, rules_of, urls
from toolcrib.policy.capabilities import Capability
from toolcrib.policy.urls import UrlTarget


class GrantGuard:
    """The guard of a call that has its address in the argument `url`.

    A person's yes to a question is about the name that was shown; what lies inside is opened by a grant that names it,
    or by `net:egress:private`, and by nothing else.
    """

    def __init__(self, ctx: Context) -> None:
        self._call = ctx.host

    def private(self, target: UrlTarget, addresses: Sequence[str]) -> bool:
        """True if grants mean the name, or else each number that it stands for."""
        try:
            return self._means(target) or (
                bool(addresses) and all(self._means(_at(target, address)) for address in addresses)
            )
        except UnfitArgument:  # an address of one interface, such as fe80::1%eth0
            return False

    def _means(self, target: UrlTarget) -> bool:
        """True if every layer of grants lets a place be reached, and one of them names it, or all that is private."""
        rules = _rules(self._call)
        if rules is None:
            return False
        needs = rules.explain(asker(self._call.request), self._call.tool, lambda: self._arguments(target.text)).needs
        place = target._replace(private=True)
        return all(need.effect == "allow" for need in needs) and any(_names(need.grant, place) for need in needs)

    def redirect(self, url: str) -> bool:
        """True if the same call with this address would run without asking."""
        if not hasattr(self._call, "policy"):
            return False
        try:
            policy, arguments = self._call.policy, self._arguments(url)
            return bool(policy.decide(asker(self._call.request), self._call.tool, lambda: arguments).effect == "allow")
        except (UnfitArgument, BadRule):
            return False

    def _arguments(self, url: str) -> dict[str, Any]:
        return {**self._call.normalised(), "url": url}


def _rules(call: Any) -> Any:
    """The rules that judge a call; none where a tool is tried by itself, without a crib."""
    return rules_of(call.policy) if hasattr(call, "policy") else None


def _at(target: UrlTarget, address: str) -> UrlTarget:
    place = f"[{address}]" if ":" in address else address
    return urls.canonical(f"{target.scheme}://{place}:{target.port}")


def _names(grant: str | None, target: UrlTarget) -> bool:
    """True if a grant names a private place, or all of them; `*` does not."""
    if grant is None or grant.count(":") < 2:
        return False
    try:
        return urls.grant(grant.split(":", 2)[2])(target)
    except BadRule:
        return False


class FileGrants:
    """Tells of single files of a set that was granted as a whole whether a grant speaks against them."""

    def __init__(self, ctx: Context, root: str) -> None:
        rules = _rules(ctx.host)
        layers: Any = () if rules is None else getattr(rules, "layers", (rules,))
        self._root = root.rstrip("/")
        self._grants = [found for layer in layers if (found := layer.granted(ctx.host.session.folders)) is not None]

    def __call__(self, path: str) -> bool:
        """True if a file may be shown; `path` starts at the root."""
        wanted = Capability("fs", "read", f"{self._root}/{path}")
        judged = (grants.judge(wanted) for grants in self._grants)
        return all(one.effect == "allow" or one.pattern is None for one in judged)
