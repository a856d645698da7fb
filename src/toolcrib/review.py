"""Review of a crib: what in its policy, files, agents and settings does nothing, or not what it looks like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolcrib.findings import Finding, in_order
from toolcrib.policy import globs, rules_of
from toolcrib.policy.rule_policy import Layers
from toolcrib.policy.schema_paths import names
from toolcrib.schema import nearest
from toolcrib.tool import Tool

if TYPE_CHECKING:
    from toolcrib.crib import Crib

UNSURE = ("NO_TOOL", "NO_FACT", "NO_SOURCE", "NO_CAPABILITY", "NO_NAMESPACE", "NO_SELECTION", "NO_DECLARATION")
"""What may be right after all, once a source that has not answered yet brings its tools."""


async def review(crib: Crib) -> list[Finding]:
    """Return all findings of a crib that was started: errors first, then by file and line."""
    findings = [*policy_findings(crib), *setting_findings(crib), *tool_findings(crib), *agent_findings(crib)]
    findings += await source_findings(crib)
    return in_order(tempered(crib, findings))


def policy_findings(crib: Crib) -> list[Finding]:
    """Return what is wrong with the policy; nothing is known of one that is not made of rules."""
    policy = rules_of(crib.pipeline.policy)
    layers = policy.layers if isinstance(policy, Layers) else () if policy is None else (policy,)
    return [one for layer in layers for one in layer.check(all_tools(crib), _agent_names(crib))]


def all_tools(crib: Crib) -> list[Tool]:
    """Return the tools of all sources, and those that are built into agents."""
    own = [] if crib.agents is None else list(crib.agents.built_in().values())
    tools = crib.catalog.view(("*",)).tools
    known = {tool.id for tool in tools}
    return [*tools, *(tool for tool in own if tool.id not in known)]


def _agent_names(crib: Crib) -> Iterable[str]:
    """The names of the agents; a crib without agents has none."""
    return () if crib.agents is None else getattr(crib.agents, "registry", ())


def setting_findings(crib: Crib) -> Iterator[Finding]:
    """Yield settings that name tools, namespaces or sources that are not there."""
    ids = [tool.id for tool in crib.catalog.view(("*",)).tools]
    for pattern in crib.stock.unused():
        yield _setting(crib, "NO_DECLARATION", ("declare", pattern), f"declare: {pattern} fits no tool", pattern, ids)
    arguments = sorted({name for tool in crib.catalog.view(("*",)).tools for name in names(tool.input_schema)})
    for pattern, key, argument in crib.stock.idle():
        message = f"declare: {pattern}: no tool that it fits has the argument of {key}: {argument}"
        yield _setting(crib, "NO_ARGUMENT", ("declare", pattern), message, argument, arguments)
    namespaces = crib.catalog.namespaces()
    if crib.default_namespaces != ("default",):
        for number, name in enumerate(crib.default_namespaces):
            if not _is_namespace(crib, name):
                message = f"default_namespaces: no tool has the namespace '{name}'"
                yield _setting(crib, "NO_NAMESPACE", ("default_namespaces", number), message, name, namespaces)
    for alias, name in crib.catalog.aliases.items():
        if name not in namespaces:
            message = f"namespace_aliases: {alias} stands for '{name}', a namespace that no tool has"
            yield _setting(crib, "NO_NAMESPACE", ("namespace_aliases", alias), message, name, namespaces)
    sources = sorted({*crib.catalog.sources(), *(source.name for source in crib.stock.sources)})
    for number, name in enumerate(crib.catalog.precedence):
        if name not in sources:
            message = f"precedence: there is no source '{name}'"
            yield _setting(crib, "NO_SOURCE", ("precedence", number), message, name, sources)


def _is_namespace(crib: Crib, name: str) -> bool:
    return any(map(globs.text(crib.catalog.aliases.get(name, name)), crib.catalog.namespaces()))


def _setting(
    crib: Crib, code: str, place: tuple[str | int, ...], message: str, name: str, known: Iterable[str]
) -> Finding:
    close = nearest(name, known, 1)
    origin = crib.origin
    return Finding(
        code, "warning", message, "config", origin.file, origin.line_at(place), nearest=close[0] if close else None
    )


def tool_findings(crib: Crib) -> Iterator[Finding]:
    """Yield what tools say of themselves and does not hold; definition files are reviewed where they are read."""
    for tool in crib.catalog.view(("*",)).tools:
        yield from (Finding("TOOL_WARNING", "warning", warning, "config") for warning in tool.warnings)
        known = names(tool.input_schema)
        if tool.function is None or tool.input_schema.get("additionalProperties") is not False:
            continue
        for name in dict.fromkeys(name for example in tool.knowledge.examples for name in example.arguments):
            if name not in known:
                close = nearest(name, known, 1)
                message = f"{tool.id}: an example has '{name}', which is none of its arguments"
                yield Finding("BAD_EXAMPLE", "warning", message, "config", nearest=close[0] if close else None)


def agent_findings(crib: Crib) -> list[Finding]:
    """Return what is wrong with the agents, held against the tools that there are."""
    findings: Any = getattr(crib.agents, "findings", None)
    return [] if findings is None else list(findings(all_tools(crib)))


async def source_findings(crib: Crib) -> list[Finding]:
    """Return what sources say of the files that their tools come from."""
    findings: list[Finding] = []
    for source in crib.stock.sources:
        findings += await source.findings()
    return findings


def tempered(crib: Crib, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings; while sources are away, what is only missing is not yet a mistake."""
    away = sorted(source.name for source, health in crib.stock.unwell() if health.status == "unavailable")
    waits = crib.stock.pending or bool(away)
    which = f"{', '.join(away)} may bring it" if away else "a source that has not answered yet may bring it"
    for one in findings:
        missing = waits and one.code in UNSURE
        yield replace(one, severity="info", message=f"{one.message} ({which})") if missing else one
