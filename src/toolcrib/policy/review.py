"""Review of a policy as a person would read it before trusting it: what in it never decides, or is about nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from toolcrib.findings import Finding
from toolcrib.policy import argument_review, globs, grant_review
from toolcrib.policy.patterns import Pattern
from toolcrib.policy.rules import OF_SESSION, FactMatch, Rule, facts_of
from toolcrib.policy.shell import TRUSTED
from toolcrib.schema import nearest
from toolcrib.tool import Tool
from toolcrib.types import Effect

if TYPE_CHECKING:
    from toolcrib.policy.rule_policy import RulePolicy


class Surroundings(NamedTuple):
    """What rules can be about: the tools, and the names of the agents where they are known."""

    tools: tuple[Tool, ...]
    agents: tuple[str, ...] | None = None


def review(policy: RulePolicy, around: Surroundings) -> list[Finding]:
    """Return everything about a policy that does nothing, or not what it looks like."""
    findings = [
        _of_rule(rule, one)
        for place, rule in enumerate(policy.rules)
        if not rule.approved
        for one in _rule(rule, place, policy.rules, around)
    ]
    demands = [(rule.line, rule.demand) for rule in policy.rules if rule.demand is not None]
    findings += policy.people.findings(demands, policy.origin.line_at)
    findings += grant_review.review(policy, around.tools)
    findings += _trust(policy, around.tools)
    return [one if one.file else replace(one, file=policy.origin.file) for one in findings]


def _of_rule(rule: Rule, finding: Finding) -> Finding:
    return replace(finding, message=f"{_named(rule)} {finding.message}", line=rule.line)


def _named(rule: Rule) -> str:
    return f"{rule.id} ({rule.effect} {rule.pattern.text})"


def _rule(rule: Rule, place: int, rules: Sequence[Rule], around: Surroundings) -> Iterator[Finding]:
    nothing = list(_about_nothing(rule, around.tools))
    yield from nothing
    yield from _facts(rule, around)
    if not nothing:
        tools = [tool for tool in around.tools if rule.pattern.tool.covers(tool, strictly=rule.loosens)]
        yield from argument_review.conditions(rule.pattern, tools)
        yield from _exceptions(rule, tools)
        yield from _never(rule, place, rules, around.tools)


def _about_nothing(rule: Rule, tools: Sequence[Tool]) -> Iterator[Finding]:
    """A rule that covers no tool was meant for another one."""
    if not tools or any(rule.pattern.tool.covers(tool, strictly=rule.loosens) for tool in tools):
        return
    strangers = [tool.id for tool in tools if rule.pattern.tool.covers(tool)]
    if strangers:
        message = f"reaches no tool: a bare name covers trusted sources alone (write {strangers[0]})"
        yield Finding("BARE_NAME", "warning", message)
        return
    verb = {"allow": "allows", "ask": "asks about", "deny": "denies"}[rule.effect]
    yield Finding(
        "NO_TOOL", "warning", f"{verb} a tool that does not exist", nearest=_nearest_tool(rule.pattern, tools)
    )


def _nearest_tool(pattern: Pattern, tools: Iterable[Tool]) -> str | None:
    names = [name for tool in tools for name in (tool.id, tool.name)]
    if "." not in pattern.tool.text:
        names.reverse()
    close = nearest(pattern.tool.text, names, 1)
    return close[0] if close else None


def _facts(rule: Rule, around: Surroundings) -> Iterator[Finding]:
    for demand in rule.when:
        known = _known_values(demand, around)
        if known is not None and not demand.any_of(known):
            texts = ", ".join(demand.globs)
            close = nearest(demand.globs[0], known, 1)
            message = f"never holds: no {_OWNERS[demand.fact]} {demand.fact} '{texts}'"
            yield Finding("NO_FACT", "warning", message, nearest=close[0] if close else None)
    if around.tools and len([one for one in rule.when if one.fact not in OF_SESSION]) > 1:
        covered = [tool for tool in around.tools if rule.pattern.tool.covers(tool, strictly=rule.loosens)]
        if covered and not any(rule.covers(tool) for tool in covered):
            yield Finding("NO_FACT", "warning", "never holds: no tool fits all that `when` demands")


_OWNERS = {
    "agent": "agent here has the name of",
    "source": "tool has the",
    "namespace": "tool has the",
    "category": "tool has the",
    "tag": "tool has the",
    "effect": "tool has the",
}


def _known_values(demand: FactMatch, around: Surroundings) -> list[str] | None:
    """The values that a fact can have; None where nobody knows them."""
    if demand.fact == "agent":
        return None if around.agents is None else list(around.agents)
    if demand.fact in OF_SESSION or not around.tools:
        return None
    known = {value for tool in around.tools for value in facts_of(tool, demand.fact) if value is not None}
    if demand.fact == "effect" and demand.any_of(get_args(Effect)):
        return None
    return sorted(known)


def _exceptions(rule: Rule, tools: Sequence[Tool]) -> Iterator[Finding]:
    for pattern in rule.excepts:
        fitting = [tool for tool in tools if pattern.tool.covers(tool, strictly=not rule.loosens)]
        if fitting and len(fitting) == len(tools) and not pattern.conditions:
            yield Finding("NEVER_DECIDES", "warning", f"never decides: except {pattern.text} takes out all its tools")
        elif fitting:
            for finding in argument_review.conditions(pattern, fitting):
                yield replace(finding, message=f"except {pattern.text}: {finding.message}")
        elif tools:
            message = f"except {pattern.text} fits none of its tools"
            yield Finding("NO_TOOL", "warning", message, nearest=_nearest_tool(pattern, tools))


def _never(rule: Rule, place: int, rules: Sequence[Rule], tools: Sequence[Tool]) -> Iterator[Finding]:
    """The first of the other rules that takes every call of this one."""
    for other_place, other in enumerate(rules):
        if other is not rule and _includes(other, rule, tools) and _beats(other, other_place, rule, place):
            where = "" if other.line is None else f" of line {other.line}"
            yield Finding("NEVER_DECIDES", "warning", f"never decides: {_named(other)}{where} comes before it")
            return


def _includes(wide: Rule, narrow: Rule, tools: Sequence[Tool]) -> bool:
    """True if every call that the narrow one speaks of is one of the wide one."""
    if wide.excepts and wide.excepts != narrow.excepts:
        return False
    if not set(wide.when) <= set(narrow.when):
        return False
    if wide.loosens and wide.pattern.conditions and not narrow.loosens:
        return False  # it stops at commands whose meaning is open
    if not set(wide.pattern.conditions) <= set(narrow.pattern.conditions):
        return False
    return _tool_includes(wide, narrow, tools)


def _tool_includes(wide: Rule, narrow: Rule, tools: Sequence[Tool]) -> bool:
    if wide.pattern.tool == narrow.pattern.tool:
        return not wide.loosens or narrow.loosens
    if wide.pattern.tool.text == "*" and not wide.loosens:
        return True
    meant = [tool for tool in tools if narrow.pattern.tool.covers(tool, strictly=narrow.loosens)]
    return bool(meant) and all(wide.pattern.tool.covers(tool, strictly=wide.loosens) for tool in meant)


def _beats(other: Rule, other_place: int, rule: Rule, place: int) -> bool:
    """True if the other one decides wherever both match."""
    if "deny" in (other.effect, rule.effect):
        return other.effect == "deny" and (rule.effect != "deny" or other_place < place)
    ours, theirs = _weight(rule, place), _weight(other, other_place)
    return theirs > ours


def _weight(rule: Rule, place: int) -> tuple[int, ...]:
    return (*rule.pattern.specificity, rule.pattern.literal, rule.effect == "ask", -place)


def _trust(policy: RulePolicy, tools: Sequence[Tool]) -> Iterator[Finding]:
    """Sources whose word is to count, and that are not there."""
    known = sorted({name for tool in tools for name in (tool.source, tool.namespace)})
    for number, glob in enumerate(policy.believed):
        if tools and not any(map(globs.text(glob), known)):
            close = nearest(glob, known, 1)
            message = f"trust_annotations: '{glob}' is no source or namespace of a tool"
            line = policy.origin.line_at(("trust_annotations", number))
            yield Finding("NO_SOURCE", "warning", message, line=line, nearest=close[0] if close else None)
    for folder in sorted(policy.trusted_folders - TRUSTED):
        if not Path(folder).is_dir():
            line = policy.origin.line_at(("trusted_folders",))
            yield Finding("NO_FOLDER", "warning", f"trusted_folders: there is no folder {folder}", line=line)
