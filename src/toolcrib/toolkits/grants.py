"""What the grants of a session say of the places that a request leads to, while it is under way."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.context import Context
from toolcrib.policy import BadRule, UnfitArgument, urls
from toolcrib.policy.capabilities import Capability
from toolcrib.policy.urls import UrlTarget


class GrantGuard:
    """The guard of a call that has its address in the argument `url`.

    A person's yes to a question is about the name that was shown; what lies inside is opened by a grant that names it,
    or by `net:egress:private`, and by nothing else.
    """

    def __init__(self, ctx: Context) -> None:
        self._permissions = ctx.permissions

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
        judged = None if self._permissions is None else self._permissions.explain(url=target.text)
        if judged is None:
            return False
        place = target._replace(private=True)
        return all(need.effect == "allow" for need in judged.needs) and any(
            _names(need.grant, place) for need in judged.needs
        )

    def redirect(self, url: str) -> bool:
        """True if the same call with this address would run without asking."""
        if self._permissions is None:
            return False
        try:
            return self._permissions.decide(url=url).effect == "allow"
        except (UnfitArgument, BadRule):
            return False


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
        self._root = root.rstrip("/")
        self._grants = [] if ctx.permissions is None else ctx.permissions.grants()

    def __call__(self, path: str) -> bool:
        """True if a file may be shown; `path` starts at the root."""
        wanted = Capability("fs", "read", f"{self._root}/{path}")
        judged = (grants.judge(wanted) for grants in self._grants)
        return all(one.effect == "allow" or one.pattern is None for one in judged)
