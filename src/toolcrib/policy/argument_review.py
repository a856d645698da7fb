"""Review of the conditions of a pattern against the schemas of its tools: no such argument, no such value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from toolcrib.findings import Finding
from toolcrib.policy import expressions, globs
from toolcrib.policy.capabilities import kinds_of
from toolcrib.policy.errors import BadRule
from toolcrib.policy.patterns import Condition, Pattern
from toolcrib.policy.schema_paths import can_hold, located, names
from toolcrib.schema import nearest
from toolcrib.tool import Tool

_JUDGED = ("path", "glob", "url", "command", "argv")
_LIKE_CONDITION = re.compile(
    r"([\w-]+)[\w.\[\]*-]*(?:\s*([<>]=?)|\s+(from|in|is|not|like|contains|matches|under|between)\b)\s*\S"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def conditions(pattern: Pattern, tools: Sequence[Tool]) -> Iterator[Finding]:
    """Yield what is wrong with the conditions of a pattern that covers these tools."""
    if not tools:
        return
    for condition in pattern.conditions:
        yield from _primary(condition, tools) if condition.path is None else _argument(condition, tools)


def _primary(condition: Condition, tools: Sequence[Tool]) -> Iterator[Finding]:
    """A value in parentheses says nothing of a tool that has no primary argument."""
    having = [tool for tool in tools if tool.primary is not None]
    if not having:
        message = f"never matches: {tools[0].id} has no primary argument, so name the argument that is meant"
        yield Finding("NO_ARGUMENT", "warning", message)
        return
    like = _LIKE_CONDITION.match(condition.value)
    if like is not None and any(like[1] in names(tool.input_schema) for tool in having):
        message = (
            f"compares {having[0].primary} with the text '{condition.value}': there is no operator "
            f"'{like[2] or like[3]}' of that form (= ~ =~ take a value in quotes, `from` an origin)"
        )
        yield Finding("NO_OPERATOR", "warning", message)
    fitting = {tool: located(tool.input_schema, (tool.primary,)) for tool in having}
    if not any(not schemas or can_hold(condition, schemas) for schemas in fitting.values()):
        yield _never(condition, str(having[0].primary), having)


def _argument(condition: Condition, tools: Sequence[Tool]) -> Iterator[Finding]:
    fitting = {tool: located(tool.input_schema, condition.steps) for tool in tools}
    having = {tool: schemas for tool, schemas in fitting.items() if schemas}
    if not having:
        known = list(dict.fromkeys(name for tool in tools for name in names(tool.input_schema)))
        close = nearest(str(condition.steps[0]), known, 1)
        message = f"never matches: {_tools(tools)} no argument '{condition.path}'"
        yield Finding("NO_ARGUMENT", "warning", message, nearest=close[0] if close else None)
        return
    if not any(can_hold(condition, schemas) for schemas in having.values()):
        yield _never(condition, str(condition.path), list(having))
        return
    kinds = {_kind(tool, str(condition.path)) for tool in having}
    yield from _literal(condition, kinds)


def _tools(tools: Sequence[Tool]) -> str:
    return f"{tools[0].id} has" if len(tools) == 1 else f"{tools[0].id} and {len(tools) - 1} more have"


def _kind(tool: Tool, path: str) -> str:
    try:
        kinds = kinds_of(tool.capabilities, tool.input_schema)
    except BadRule:
        return "text"
    return kinds.get(path) or "text"


def _never(condition: Condition, path: str, tools: Sequence[Tool]) -> Finding:
    schemas = located(tools[0].input_schema, condition.steps or (path,))
    listed = [str(value) for node in schemas for value in node.get("enum") or ()]
    types = sorted({str(node["type"]) for node in schemas if "type" in node})
    known = f"it is one of {', '.join(listed)}" if listed else f"its type is {' or '.join(types)}"
    always = "always holds" if condition.negated else "never holds"
    close = nearest(condition.value, listed, 1)
    message = f"{path} {_operator(condition)} '{condition.value}' {always}: of {tools[0].id} {known}"
    return Finding("NO_VALUE", "warning", message, nearest=close[0] if close else None)


def _operator(condition: Condition) -> str:
    return f"{'!' if condition.negated else ''}{condition.op}"


def _literal(condition: Condition, kinds: set[str]) -> Iterator[Finding]:
    """Operators that compare with something else than they look like."""
    if condition.op == "=" and kinds & {*_JUDGED} and globs.is_pattern(condition.value):
        message = f"{condition.path} = '{condition.value}' compares with these very characters; a glob is compared by ~"
        yield Finding("LITERAL_GLOB", "warning", message)
    elif condition.op == "=" and kinds == {"url"} and not _SCHEME.match(condition.value):
        message = (
            f"{condition.path} = '{condition.value}' never holds: a URL begins with its scheme; a host is compared by ~"
        )
        yield Finding("NO_VALUE", "warning", message)
    elif condition.op == "=~" and expressions.literal(condition.value) == len(condition.value):
        value = condition.value
        message = f"{condition.path} =~ '{value}' holds of this very text alone; write .*{value}.* to find it anywhere"
        yield Finding("LITERAL_EXPRESSION", "warning", message)
