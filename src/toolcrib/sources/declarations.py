"""What the operator says of tools that say too little of themselves: it counts as if they had declared it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from typing import Any, get_args

from toolcrib.errors import BadTool
from toolcrib.origins.labels import problem_of
from toolcrib.origins.roles import KEY, ROLES
from toolcrib.policy.capabilities import kinds_of
from toolcrib.policy.errors import BadRule
from toolcrib.schema import nearest
from toolcrib.tool import Tool
from toolcrib.types import Annotations, Effect

KEYS = ("capabilities", "kinds", "annotations", "effect", "labels", "roles")
KINDS = ("path", "glob", "url", "command", "text", "secret")


def check(declared: Mapping[str, Any]) -> None:
    """Declarations by the ids of tools, or globs of them.

    Raises:
        BadTool: one of them says something that cannot be said of a tool.
    """
    for pattern, labels in declared.items():
        _known(pattern, "declare", labels, KEYS)
        _check_capabilities(pattern, labels.get("capabilities", ()))
        for argument, kind in _mapping(pattern, "kinds", labels.get("kinds", {})).items():
            if kind not in KINDS:
                raise BadTool(pattern, f"kinds.{argument}", f"{kind!r} is none of {', '.join(KINDS)}")
        for argument, role in _mapping(pattern, "roles", labels.get("roles", {})).items():
            if role not in ROLES:
                raise BadTool(pattern, f"roles.{argument}", f"{role!r} is none of {', '.join(ROLES)}")
        _check_labels(pattern, labels.get("labels", ()))
        annotations = labels.get("annotations", {})
        _known(pattern, "annotations", annotations, [field.name for field in fields(Annotations)])
        for name, value in annotations.items():
            if not isinstance(value, bool):
                raise BadTool(pattern, f"annotations.{name}", f"{value!r} is neither true nor false")
        if labels.get("effect", "once") not in get_args(Effect):
            raise BadTool(pattern, "effect", f"{labels['effect']!r} is none of {', '.join(get_args(Effect))}")


def _check_capabilities(pattern: str, value: Any) -> None:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise BadTool(pattern, "capabilities", "is no list such as ['fs:read:{path}']")
    try:
        kinds_of(value, {})
    except BadRule as error:
        raise BadTool(pattern, "capabilities", str(error)) from None


def _check_labels(pattern: str, value: Any) -> None:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise BadTool(pattern, "labels", "is no list such as ['untrusted', 'private']")
    if (problem := problem_of(value)) is not None:
        raise BadTool(pattern, "labels", problem)


def _mapping(pattern: str, field: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadTool(pattern, field, "is no mapping such as {name: value}")
    return value


def _known(pattern: str, field: str, value: Any, known: Iterable[str]) -> None:
    for key in _mapping(pattern, field, value):
        if key not in known:
            close = nearest(str(key), known, 1)
            raise BadTool(pattern, f"{field}.{key}", "unknown key" + (f", did you mean '{close[0]}'?" if close else ""))


def unused(tools: Iterable[Tool], declared: Mapping[str, Any]) -> list[str]:
    """The patterns that fit no tool."""
    ids = [tool.id for tool in tools]
    return [pattern for pattern in declared if not any(fnmatchcase(id, pattern) for id in ids)]


def idle(tools: Iterable[Tool], declared: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The arguments that a pattern names and none of its tools has: the pattern, the key and the argument."""
    known = list(tools)
    for pattern, labels in declared.items():
        fitting = [tool.input_schema for tool in known if fnmatchcase(tool.id, pattern)]
        if not fitting:
            continue
        for key in ("kinds", "roles"):
            for argument in labels.get(key, ()):
                if not any(argument in schema.get("properties", {}) for schema in fitting):
                    yield pattern, key, argument
        for template in labels.get("capabilities", ()):
            if not any(_possible(template, schema) for schema in fitting):
                yield pattern, "capabilities", template


def _possible(template: str, schema: Mapping[str, Any]) -> bool:
    try:
        kinds_of([template], schema)
    except BadRule:
        return False
    return True


def declare(tool: Tool, declared: Mapping[str, Any]) -> Tool:
    """The tool with what is declared of it; of several patterns that fit, the later add to the earlier.

    What a glob says of an argument counts for those tools that have it.

    Raises:
        BadTool: it does not hold of this tool.
    """
    for pattern, labels in declared.items():
        if fnmatchcase(tool.id, pattern):
            tool = _with(tool, labels, exact=pattern == tool.id)
    return tool


def _with(tool: Tool, data: Mapping[str, Any], *, exact: bool) -> Tool:
    changes: dict[str, Any] = {}
    if "capabilities" in data:
        more = [template for template in data["capabilities"] if _fits(tool, template, exact)]
        changes["capabilities"] = tuple(dict.fromkeys((*tool.capabilities, *more)))
    if "effect" in data:
        changes["effect"] = data["effect"]
    if "annotations" in data:
        changes["annotations"] = replace(tool.annotations or Annotations(), **data["annotations"])
        changes["vouched"] = True
    if "labels" in data:
        changes["labels"] = tuple(data["labels"])
    schema = tool.input_schema
    for field, key in (("kinds", "x-toolcrib-kind"), ("roles", KEY)):
        if field in data:
            schema = changes["input_schema"] = _marked(tool, schema, (field, key), data[field], exact)
    return replace(tool, **changes)


def _fits(tool: Tool, template: str, exact: bool) -> bool:
    try:
        kinds_of([template], tool.input_schema)
    except BadRule as error:
        if exact:
            raise BadTool(tool.id, "declare.capabilities", str(error), tool.source) from None
        return False
    return True


def _marked(
    tool: Tool, schema: Mapping[str, Any], mark: tuple[str, str], values: Mapping[str, str], exact: bool
) -> dict[str, Any]:
    field, key = mark
    properties = dict(schema.get("properties", {}))
    for argument, value in values.items():
        if argument in properties:
            properties[argument] = {**properties[argument], key: value}
        elif exact:
            close = nearest(argument, properties, 1)
            meant = f", did you mean '{close[0]}'?" if close else ""
            problem = f"there is no such argument{meant}"
            raise BadTool(tool.id, f"declare.{field}.{argument}", problem, tool.source)
    return {**schema, "properties": properties}
