"""Reading a set of rules as a person would before trusting it: what in it can never decide, or is about nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolcrib.policy.rules import Rule
from toolcrib.schema import nearest
from toolcrib.tool import Tool


def rules(found: Sequence[Rule], tools: Sequence[Tool]) -> list[str]:
    """Each problem in a line, in the order of the rules."""
    return [
        f"{_named(rule)} {problem}"
        for place, rule in enumerate(found)
        for problem in (
            *_about_nothing(rule, tools),
            *_about_no_argument(rule, tools),
            *_never(rule, place, found, tools),
        )
    ]


def _named(rule: Rule) -> str:
    where = "" if rule.line is None else f"line {rule.line}: "
    return f"{where}{rule.id} ({rule.effect} {rule.pattern.text})"


def _about_nothing(rule: Rule, tools: Sequence[Tool]) -> Iterator[str]:
    """An allow that covers no tool was meant for another one."""
    if not rule.loosens or any(rule.pattern.tool.covers(tool, strictly=True) for tool in tools):
        return
    strangers = [tool.id for tool in tools if rule.pattern.tool.covers(tool)]
    if strangers:
        yield f"reaches no tool: a bare name covers trusted sources alone (write {strangers[0]})"
        return
    names = [name for tool in tools for name in (tool.name, tool.id)]
    close = nearest(rule.pattern.tool.text, names, 1)
    yield "allows a tool that does not exist" + (f", did you mean '{close[0]}'?" if close else "")


def _about_no_argument(rule: Rule, tools: Sequence[Tool]) -> Iterator[str]:
    """A value in parentheses says nothing of a tool that has no primary argument."""
    if all(condition.path is not None for condition in rule.pattern.conditions):
        return
    meant = [tool for tool in tools if rule.covers(tool)]
    if meant and all(tool.primary is None for tool in meant):
        yield f"never matches: {meant[0].id} has no primary argument, so name the argument that is meant"


def _never(rule: Rule, place: int, found: Sequence[Rule], tools: Sequence[Tool]) -> Iterator[str]:
    """The first of the other rules that takes every call of this one."""
    for other_place, other in enumerate(found):
        if other is not rule and _includes(other, rule, tools) and _beats(other, other_place, rule, place):
            yield f"never decides: {_named(other)} comes before it"
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
