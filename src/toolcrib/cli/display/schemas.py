"""JSON Schema in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from toolcrib.cli.terminal import compact, short

_BOUNDS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "{} or more characters",
    "maxLength": "up to {} characters",
    "minItems": "{} or more",
    "maxItems": "up to {}",
    "pattern": "like {}",
    "format": "{}",
}


class Argument(NamedTuple):
    """One argument of a tool, for people."""

    name: str
    type: str
    required: bool
    default: str
    description: str


def arguments(schema: Mapping[str, Any]) -> Iterator[Argument]:
    """What a schema of an object asks for, those of inner objects under `outer.inner`."""
    from toolcrib.schema import llm_schema

    yield from _arguments(llm_schema(schema), "", 0)


def _arguments(schema: Mapping[str, Any], prefix: str, depth: int) -> Iterator[Argument]:
    required = set(schema.get("required", ()))
    for name, what in schema.get("properties", {}).items():
        data: Mapping[str, Any] = what if isinstance(what, Mapping) else {}
        default = compact(data["default"]) if "default" in data else ""
        yield Argument(f"{prefix}{name}", in_words(data), name in required, default, data.get("description", ""))
        inner = data.get("items", {}) if data.get("type") == "array" else data
        if depth < 3 and isinstance(inner, Mapping) and inner.get("properties"):
            mark = "[]" if data.get("type") == "array" else ""
            yield from _arguments(inner, f"{prefix}{name}{mark}.", depth + 1)


def in_words(schema: Any) -> str:
    """The type that a schema stands for."""
    if not isinstance(schema, Mapping):
        return "anything"
    if "const" in schema:
        return compact(schema["const"])
    if "enum" in schema:
        return " | ".join(compact(value) for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(in_words(one) for one in schema[several]))
    bounds = [text.format(schema[name]) for name, text in _BOUNDS.items() if name in schema]
    return f"{_kind(schema)} ({', '.join(bounds)})" if bounds else _kind(schema)


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {in_words(schema.get('items'))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {in_words(schema['additionalProperties'])}"
    return str(kind)


def outline(schema: Mapping[str, Any]) -> str:
    """A whole schema in one line."""
    from toolcrib.schema import llm_schema

    view = llm_schema(schema)
    fields = [f'"{name}": {in_words(what)}' for name, what in view.get("properties", {}).items()]
    return short(f"{{{', '.join(fields)}}}" if fields else in_words(view), 200)
