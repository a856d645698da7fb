"""Where schemas stand inside a schema, so that property names and values are never taken for keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
ONES = (
    *("items", "additionalItems", "contains", "unevaluatedItems", "propertyNames", "additionalProperties"),
    *("unevaluatedProperties", "not", "if", "then", "else", "contentSchema"),
)

Schema = dict[str, Any] | bool


def map_subschemas(schema: dict[str, Any], change: Callable[[Schema], Schema]) -> dict[str, Any]:
    """Copy a schema with each schema directly inside it changed."""
    changed = dict(schema)
    for key, value in schema.items():
        if key in MAPS and isinstance(value, dict):
            changed[key] = {name: change(inner) if is_schema(inner) else inner for name, inner in value.items()}
        elif key in LISTS and isinstance(value, list):
            changed[key] = [change(inner) for inner in value]
        elif key in ONES and is_schema(value):
            changed[key] = change(value)
    return changed


def is_schema(value: Any) -> bool:
    """Say whether a value has the form of a schema."""
    return isinstance(value, dict | bool)


def subschemas(schema: dict[str, Any]) -> list[Schema]:
    """List the schemas directly inside a schema."""
    inside: list[Schema] = []

    def note(inner: Schema) -> Schema:
        inside.append(inner)
        return inner

    map_subschemas(schema, note)
    return inside


def steps_of(reference: str) -> tuple[str, ...] | None:
    """Split a local reference (`#`, `#/$defs/x`) into its steps; None for any other."""
    if reference == "#":
        return ()
    if not reference.startswith("#/"):
        return None
    return tuple(unquote(step).replace("~1", "/").replace("~0", "~") for step in reference[2:].split("/"))


def reference_to(steps: tuple[str, ...]) -> str:
    """Write steps as a local reference."""
    return "#" + "".join("/" + quote(step.replace("~", "~0").replace("/", "~1"), safe="~$") for step in steps)


def look_up(root: Any, steps: tuple[str, ...]) -> Any:
    """Find what stands at the end of the steps; None where they lead nowhere."""
    for step in steps:
        if isinstance(root, dict):
            root = root.get(step)
        elif isinstance(root, list) and step.isdecimal() and int(step) < len(root):
            root = root[int(step)]
        else:
            return None
    return root


def resolve(root: dict[str, Any], reference: str) -> Schema | None:
    """Find the schema that a local reference names, also by its `$anchor`; None where there is none."""
    steps = steps_of(reference)
    target = _anchored(root, reference[1:]) if steps is None else look_up(root, steps)
    return target if is_schema(target) else None


def _anchored(schema: Schema, name: str) -> Schema | None:
    waiting = [schema]
    while name and waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("$anchor") == name:
                return node
            waiting += subschemas(node)
    return None
