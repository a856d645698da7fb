"""The schema that a model sees. Validation never uses it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from toolcrib.schema.nullability import nullable
from toolcrib.schema.positions import Schema, map_subschemas, resolve

TOPIC = {"type": "string", "description": "One-liner topic of this operation"}
HIDDEN = ("$schema", "$defs", "definitions", "discriminator")  # what refers to, or is only for, references
LARGEST = 5_000  # schemas in one view: references put in place can multiply without end

KEYWORDS_BY_TYPE = {
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems"),
    "object": (
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties"),
    ),
}


def llm_schema(schema: Mapping[str, Any], dialect: Literal["plain", "strict"] = "plain") -> dict[str, Any]:
    """Make the schema that a model sees; `strict` has every property required and the optional ones nullable."""
    root = copy.deepcopy(dict(schema))
    view = _SchemaRewriter(root).rewrite(root, ("#",))
    shown = view if isinstance(view, dict) else {"not": {}}
    return _strict(shown) if dialect == "strict" else shown


def with_topic(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add the label `topic`, required, and make each optional property required and nullable."""
    dressed = copy.deepcopy(dict(schema))
    required = set(dressed.get("required", ()))
    properties = {
        name: inner if name in required else nullable(inner, dressed)
        for name, inner in dressed.get("properties", {}).items()
    }
    properties.setdefault("topic", dict(TOPIC))
    names = [*properties, *(name for name in dressed.get("required", ()) if name not in properties)]
    return {**dressed, "properties": properties, "required": names}


class _SchemaRewriter:
    """One pass over a schema for the plain dialect."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.left = LARGEST

    def rewrite(self, schema: Schema, inside: tuple[str, ...]) -> Schema:
        """Rewrite a schema; `inside` are the references that are being put in place around it."""
        if isinstance(schema, bool):
            return schema
        self.left -= 1
        own = {key: value for key, value in schema.items() if key not in HIDDEN and not key.startswith("x-toolcrib-")}
        reference = own.pop("$ref", None)
        own = map_subschemas(own, lambda inner: self.rewrite(inner, inside))
        if reference is None:
            return _simplified(own)
        return _merged(self._target(reference, inside), _simplified(own) if own else {})

    def _target(self, reference: str, inside: tuple[str, ...]) -> Schema:
        target = resolve(self.root, reference)
        if target is None:
            return {}
        if reference in inside or self.left < 0:
            return {"type": "object", "properties": {}}
        return self.rewrite(target, (*inside, reference))


def _simplified(schema: dict[str, Any]) -> Schema:
    result: Schema = schema
    for step in (_one_constant, _one_type, _one_alternative):
        if isinstance(result, dict):
            result = step(result)
    if isinstance(result, dict):
        _complete(result)
    return result


def _complete(schema: dict[str, Any]) -> None:
    if schema.get("type") == "array":
        schema.setdefault("items", {})
    elif schema.get("type") == "object":
        schema.setdefault("properties", {})


def _one_constant(schema: dict[str, Any]) -> Schema:
    if "const" not in schema:
        return schema
    const = schema.pop("const")
    if not any(same(const, option) for option in schema.get("enum", [const])):
        return False
    return {**schema, "enum": [const]}


def _one_type(schema: dict[str, Any]) -> dict[str, Any]:
    types = schema.get("type")
    if not isinstance(types, list):
        return schema
    kept = [name for name in types if name != "null"]
    if len(kept) < len(types) and kept:
        schema = _without_null(schema)
    if len(kept) > 1:
        return _type_alternatives(schema, kept)
    return {**schema, "type": kept[0] if kept else "null"}


def _type_alternatives(schema: dict[str, Any], types: list[str]) -> dict[str, Any]:
    outer = {key: value for key, value in schema.items() if key != "type"}
    branches = []
    for name in types:
        branch: dict[str, Any] = {"type": name}
        branch |= {key: schema[key] for key in KEYWORDS_BY_TYPE.get(name, ()) if key in schema}
        _complete(branch)
        branches.append(branch)
    moved = {key for branch in branches for key in branch}
    outer = {key: value for key, value in outer.items() if key not in moved}
    return _with_rule(outer, "anyOf", branches)


def _one_alternative(schema: dict[str, Any]) -> Schema:
    result: Schema = schema
    for key in ("anyOf", "oneOf"):
        if isinstance(result, dict) and key in result:
            result = _without_null_branch(result, key)
    return result


def _without_null_branch(schema: dict[str, Any], key: str) -> Schema:
    branches = [branch for branch in schema[key] if not _is_null(branch)]
    if len(branches) == len(schema[key]) or not branches:
        return schema
    rest = _without_null({name: value for name, value in schema.items() if name != key})
    return _merged(branches[0], rest) if len(branches) == 1 else {**rest, key: branches}


def _is_null(schema: Schema) -> bool:
    return isinstance(schema, dict) and (schema.get("type") == "null" or schema.get("enum") == [None])


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Forget the null of an optional that became its type: as default, and among the values."""
    kept = dict(schema)
    if kept.get("default", ...) is None:
        del kept["default"]
    if "enum" in kept and kept["enum"] != [None]:
        kept["enum"] = [option for option in kept["enum"] if option is not None]
    return kept


def _merged(inner: Schema, outer: Schema) -> Schema:
    """Put two schemas that hold together into one; what the outer one says about itself wins."""
    if isinstance(inner, bool) or isinstance(outer, bool):
        both = [part for part in (inner, outer) if part is not True]
        return both[0] if both and False not in both else not both
    merged = dict(inner)
    for key, value in outer.items():
        if key == "properties":
            merged[key] = {**merged.get(key, {}), **value}
        elif key == "required":
            merged[key] = list(dict.fromkeys([*merged.get(key, ()), *value]))
        else:
            merged = _with_rule(merged, key, value)
    return merged


def _with_rule(schema: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Set a keyword; one that cannot stand twice goes on holding from inside `allOf`."""
    if key == "allOf":
        return {**schema, "allOf": [*schema.get("allOf", ()), *value]}
    if key in ("anyOf", "oneOf", "not", "if") and key in schema:
        return {**schema, "allOf": [*schema.get("allOf", ()), {key: value}]}
    return {**schema, key: value}


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    strict = map_subschemas(schema, lambda inner: _strict(inner) if isinstance(inner, dict) else inner)
    strict.pop("default", None)
    if strict.get("type") != "object" and "properties" not in strict:
        return strict
    required = strict.get("required", [])
    properties = {**strict.get("properties", {})}
    properties |= {name: {} for name in required if name not in properties}
    properties = {name: inner if name in required else nullable(inner, {}) for name, inner in properties.items()}
    return {**strict, "properties": properties, "required": list(properties), "additionalProperties": False}


def same(one: Any, other: Any) -> bool:
    """Compare as JSON does: true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)
