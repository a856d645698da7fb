"""Review of grants against what tools need: those that cover nothing, and those that cover more than they look like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.findings import Finding
from toolcrib.policy import capabilities, globs, hosts, paths, urls
from toolcrib.policy.errors import BadRule
from toolcrib.policy.grant_index import Grant
from toolcrib.policy.grants import EFFECTS, warnings
from toolcrib.schema import nearest
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.policy.rule_policy import RulePolicy

OF_COMMANDS = ("fs:read", "fs:write", "net:egress")
"""What a command line may need beside its programs: the files and hosts that its words name."""


def review(policy: RulePolicy, tools: Sequence[Tool]) -> Iterator[Finding]:
    """Yield what is wrong with the grants of a policy; those of its preset are nobody's mistake."""
    grants = policy.granted(policy.folders)
    if grants is None:
        return
    lines = _lines(policy)
    yield from (Finding("RISKY_GRANT", "warning", message, line=lines.get(message)) for message in grants.warnings)
    needed = _needed(tools)
    for effect in EFFECTS:
        for number, text in enumerate(getattr(policy.written, effect)):
            grant = Grant.read(text, effect, policy.folders)
            line = policy.origin.line_at(("grants", effect, number))
            for code, message, close in _grant(grant, needed, tools):
                yield Finding(code, "warning", f"grants.{effect}: {text} {message}", line=line, nearest=close)


def strangers(texts: Mapping[str, Any], tools: Iterable[Tool]) -> list[Finding]:
    """Return the grants of a session of a family that no tool needs; only a look at all tools can tell."""
    written = [(effect, text) for effect in EFFECTS for text in texts.get(effect, ())]
    grants = [(effect, text, Grant.read(text, effect, paths.NOWHERE)) for effect, text in written]
    strange = [one for one in grants if not one[2].everything and not _fits(one[2], capabilities.FAMILIES)]
    needed = [*capabilities.FAMILIES, *_needed(tools)] if strange else []
    return [
        Finding(
            "NO_CAPABILITY", "warning", f"grants.{effect}: {text} {_unneeded(grant)}", nearest=_close(grant, needed)
        )
        for effect, text, grant in strange
        if not _fits(grant, needed)
    ]


def _fits(grant: Grant, families: Iterable[str]) -> bool:
    return any(_means(grant, family) for family in families)


def _unneeded(grant: Grant) -> str:
    return f"matches nothing: no tool needs {':'.join(grant.named)}"


def _close(grant: Grant, families: Iterable[str]) -> str | None:
    close = nearest(":".join(grant.named), families, 1)
    return close[0] if close else None


def _lines(policy: RulePolicy) -> dict[str, int | None]:
    """Where the grants stand that are warned of."""
    return {
        message: policy.origin.line_at(("grants", effect, number))
        for effect in EFFECTS
        for number, text in enumerate(getattr(policy.written, effect))
        for message in warnings([Grant.read(text, effect, policy.folders)], policy.folders)
    }


def _needed(tools: Iterable[Tool]) -> dict[str, set[bool]]:
    """The families that tools need, and whether each is needed with a resource, without one, or both."""
    needed: dict[str, set[bool]] = {}
    for tool in tools:
        try:
            for template in tool.capabilities:
                (family,) = capabilities.families([template])
                needed.setdefault(family, set()).add(template.count(":") > 1)
        except BadRule:
            continue
        kinds = capabilities.kinds_of(tool.capabilities, tool.input_schema).values()
        if "command" in kinds or "argv" in kinds:
            for family in OF_COMMANDS:
                needed.setdefault(family, set()).add(True)
    return needed


def _grant(grant: Grant, needed: dict[str, set[bool]], tools: Sequence[Tool]) -> Iterator[tuple[str, str, str | None]]:
    if grant.everything or not tools:
        return
    fitting = [family for family in needed if _means(grant, family)]
    if not fitting:
        yield "NO_CAPABILITY", _unneeded(grant), _close(grant, needed)
        return
    if grant.resource is None and grant.effect != "deny" and all(needed[family] == {True} for family in fitting):
        yield "BARE_GRANT", f"covers nothing: what tools need names a resource (write {grant.text}:*)", None
    yield from _ports(grant, tools)


def _means(grant: Grant, family: str) -> bool:
    domain, _, action = family.partition(":")
    return grant.domain(domain) and (action == "*" or grant.action(action))


def _ports(grant: Grant, tools: Iterable[Tool]) -> Iterator[tuple[str, str, str | None]]:
    """A host without a port stands for the usual ports of the web alone, which is not where some tools go."""
    if not grant.names("net") or grant.resource is None:
        return
    meant = urls.grant(grant.resource)
    if meant.host is None or meant.below or meant.ports != 0:
        return
    reached = [target for tool in tools for target in _targets(tool) if target.host == meant.host]
    if reached and not any(map(meant.widely, reached)):
        close = f"{':'.join(grant.named)}:{meant.host}:{reached[0].port}"
        yield "USUAL_PORTS", f"is about the usual ports alone, and tools reach it at {reached[0].port}", close
    elif not reached and hosts.is_private(meant.host):
        message = f"is about the ports 80 and 443 alone (write {meant.host}:* or {meant.host}:PORT for others)"
        yield "USUAL_PORTS", message, None


def _targets(tool: Tool) -> Iterator[urls.UrlTarget]:
    """The addresses that a tool names itself, whatever its arguments are."""
    for template in tool.capabilities:
        domain, _, rest = template.partition(":")
        resource = rest.partition(":")[2]
        if domain == "net" and resource and "{" not in resource and not globs.is_pattern(resource):
            try:
                yield urls.requested(resource)
            except (BadRule, ValueError):
                continue
