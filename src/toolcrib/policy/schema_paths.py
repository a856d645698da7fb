"""What a schema says of the argument at a path, and whether a condition can ever hold of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcrib.policy import expressions, globs
from toolcrib.policy.conditions import plain
from toolcrib.policy.patterns import Condition, Step
from toolcrib.schema.positions import resolve

ANYTHING: Mapping[str, Any] = {}
_SAME = ("allOf", "anyOf", "oneOf", "if", "then", "else")
_DEEPEST = 12
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_NUMERIC = frozenset("0123456789-+.eE")


def located(schema: Mapping[str, Any], steps: Sequence[Step]) -> list[Mapping[str, Any]]:
    """Return the schemas of the values that may stand at a path; `ANYTHING` for what the schema leaves open.

    An empty list says that the schema has no such argument. A schema that names its properties is taken at its word,
    also where it does not forbid others.
    """
    root = dict(schema)
    nodes: list[Mapping[str, Any]] = [root]
    for step in steps:
        nodes = [inner for node in nodes for inner in _inside(_alternatives(node, root), step)]
    return [one for node in nodes for one in _alternatives(node, root)]


def names(schema: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments at the top of a schema."""
    root = dict(schema)
    return [str(name) for node in _alternatives(root, root) for name in node.get("properties") or ()]


def _alternatives(node: Any, root: dict[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
    """The schema, and all that speak of the same place."""
    if not isinstance(node, Mapping):
        return [ANYTHING] if node is True else []
    schemas: list[Mapping[str, Any]] = [node]
    if depth < _DEEPEST:
        inner = [resolve(root, node["$ref"])] if isinstance(node.get("$ref"), str) else []
        for key in _SAME:
            value = node.get(key)
            inner += value if isinstance(value, list) else [] if value is None else [value]
        for one in inner:
            schemas += _alternatives(one, root, depth + 1)
    return schemas


def _inside(nodes: list[Mapping[str, Any]], step: Step) -> Iterator[Any]:
    if isinstance(step, str):
        yield from _members(nodes, step)
    else:
        yield from _elements(nodes, step)


def _members(nodes: list[Mapping[str, Any]], key: str) -> Iterator[Any]:
    fitting = [node for node in nodes if _may_be(node, "object")]
    named = False
    for node in fitting:
        properties = node.get("properties") or {}
        named = named or bool(properties) or node.get("additionalProperties") is False
        yield from properties.values() if key == "*" else [properties[key]] if key in properties else ()
        for pattern, inner in (node.get("patternProperties") or {}).items():
            if key == "*" or _found(pattern, key):
                yield inner
        others = node.get("additionalProperties")
        if others is True or isinstance(others, Mapping):
            yield others
    if not named and any(not _combines(node) for node in fitting):
        yield ANYTHING


def _elements(nodes: list[Mapping[str, Any]], step: int | None) -> Iterator[Any]:
    fitting = [node for node in nodes if _may_be(node, "array")]
    described = False
    for node in fitting:
        first, others = node.get("prefixItems") or [], node.get("items")
        described = described or bool(first) or others is not None
        yield from first if step is None else first[step : step + 1]
        if others is not None and (step is None or step >= len(first)):
            yield others
    if not described and any(not _combines(node) for node in fitting):
        yield ANYTHING


def _combines(node: Mapping[str, Any]) -> bool:
    """True if a schema only refers to others, which say what there is."""
    return "type" not in node and any(key in node for key in ("$ref", *_SAME))


def _may_be(node: Mapping[str, Any], kind: str) -> bool:
    declared = node.get("type")
    return declared is None or kind == declared or (isinstance(declared, list) and kind in declared)


def _found(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return True


def can_hold(condition: Condition, schemas: Sequence[Mapping[str, Any]]) -> bool:
    """True if some value that these schemas let in has the text that a condition compares with."""
    if condition.op == "from":
        return True  # whatever a value is, it comes from somewhere
    concrete = [node for node in schemas if not _combines(node)] or [ANYTHING]
    return any(_can_hold(condition, node) for node in concrete)


def _can_hold(condition: Condition, node: Mapping[str, Any]) -> bool:
    if "const" in node or isinstance(node.get("enum"), list):
        values = [node["const"]] if "const" in node else node["enum"]
        return any(_fits(condition, plain(value)) for value in values)
    declared = node.get("type")
    kinds = declared if isinstance(declared, list) else [declared]
    return any(_can_be(condition, kind, node) for kind in kinds)


def _can_be(condition: Condition, kind: Any, node: Mapping[str, Any]) -> bool:
    if kind == "boolean":
        return any(_fits(condition, text) for text in ("true", "false"))
    if kind == "null":
        return _fits(condition, "null")
    if kind in ("integer", "number"):
        return _can_be_number(condition, whole=kind == "integer")
    if kind == "array":
        inner = node.get("items")
        return not isinstance(inner, Mapping) or "$ref" in inner or _can_hold(condition, inner)
    return True


def _can_be_number(condition: Condition, *, whole: bool) -> bool:
    if condition.op == "=":
        number = _NUMBER.fullmatch(condition.value)
        return number is not None and (not whole or isinstance(json.loads(condition.value), int))
    if condition.op == "~":
        return all(token.kind != "char" or token.text in _NUMERIC for token in globs.parse(condition.value))
    return True


def _fits(condition: Condition, text: str) -> bool:
    if condition.op == "=":
        return text == condition.value
    return (globs.text if condition.op == "~" else expressions.whole)(condition.value)(text)
