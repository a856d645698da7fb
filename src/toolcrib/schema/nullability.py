"""Which schemas take null, and how one is made to."""

from __future__ import annotations

from typing import Any

from toolcrib.schema.positions import Schema, resolve

NULL: dict[str, Any] = {"type": "null"}
NOTES = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")


def nullable(schema: Schema, root: dict[str, Any]) -> Schema:
    """Widen a schema so that it takes null; one that does already stays as it is."""
    if takes_null(schema, root):
        return schema
    if isinstance(schema, bool):
        return dict(NULL)
    wider = _widened(schema)
    return wider if takes_null(wider, root) else _beside_null(schema)


def _widened(schema: dict[str, Any]) -> dict[str, Any]:
    wider = dict(schema)
    types = wider.get("type", "null")
    if "null" not in (types if isinstance(types, list) else [types]):
        wider["type"] = [*(types if isinstance(types, list) else [types]), "null"]
    if "const" in wider:
        wider["enum"] = [wider.pop("const")]
    if "enum" in wider and None not in wider["enum"]:
        wider["enum"] = [*wider["enum"], None]
    for key in ("anyOf", "oneOf"):
        if key in wider and not any(branch == NULL for branch in wider[key]):
            wider[key] = [*wider[key], dict(NULL)]
    return wider


def _beside_null(schema: dict[str, Any]) -> dict[str, Any]:
    notes = {key: value for key, value in schema.items() if key in NOTES}
    rules = {key: value for key, value in schema.items() if key not in NOTES}
    return {"anyOf": [rules, dict(NULL)], **notes}


def takes_null(schema: Schema, root: dict[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Say whether null is valid under a schema."""
    if isinstance(schema, bool):
        return schema
    types = schema.get("type", "null")
    if "null" not in (types if isinstance(types, list) else [types]):
        return False
    if None not in schema.get("enum", [None]) or schema.get("const") is not None:
        return False
    return _parts_take_null(schema, root, seen)


def _parts_take_null(schema: dict[str, Any], root: dict[str, Any], seen: frozenset[str]) -> bool:
    reference = schema.get("$ref")
    if reference is not None:
        target = None if reference in seen else resolve(root, reference)
        if target is None or not takes_null(target, root, seen | {reference}):
            return False
    if "not" in schema and takes_null(schema["not"], root, seen):
        return False
    return all(
        how(takes_null(branch, root, seen) for branch in schema[key])
        for key, how in (("allOf", all), ("anyOf", any), ("oneOf", any))
        if key in schema
    )
