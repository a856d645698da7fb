"""Enums, literals and iterables that read JSON exactly.

pydantic takes true for the 1 of an `IntEnum` or a `Literal`, no JSON at all for `Literal[Color.RED]`, and checks the
items of an `Iterable` only when the body asks for them. Such parts of a core schema are replaced; all others stay.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from pydantic_core import CoreSchema, PydanticKnownError, core_schema

NAMED = ("fields", "choices", "definitions")  # hold schemas by name, or a list of them
ATOMS = ("metadata", "serialization", "config", "default", "expected", "members")


def exact(schema: CoreSchema) -> CoreSchema:
    """Replace the parts that read inexactly; gives back the same object where there are none."""
    return _node(schema)  # type: ignore[no-any-return]  # a core schema is rebuilt as plain dicts


def _node(node: Any) -> Any:
    if isinstance(node, list):
        return _unless_same(node, [_node(inner) for inner in node])
    if isinstance(node, tuple):
        return _unless_same(node, tuple(_node(inner) for inner in node))
    if not isinstance(node, dict):
        return node
    if node.get("type") == "literal":
        return _exact_choice(node, node["expected"])
    if node.get("type") == "enum":
        return _exact_choice(node, node["members"])
    if node.get("type") == "generator":
        return {**node, "type": "list", "items_schema": _node(node["items_schema"])}
    return _unless_same(node, {key: _value(key, value) for key, value in node.items()})


def _value(key: str, value: Any) -> Any:
    if key in ATOMS:
        return value
    if key in NAMED and isinstance(value, dict):
        return _unless_same(value, {name: _node(inner) for name, inner in value.items()})
    return _node(value)


def _unless_same(old: Any, new: Any) -> Any:
    pairs = zip(old.values(), new.values(), strict=True) if isinstance(old, dict) else zip(old, new, strict=True)
    return old if all(one is other for one, other in pairs) else new


def _json(option: Any) -> Any:
    return option.value if isinstance(option, Enum) else option


def _key(value: Any) -> tuple[bool, Any]:
    return isinstance(value, bool), value


def _exact_choice(node: dict[str, Any], options: list[Any]) -> Any:
    values = [_json(option) for option in options]
    members = [option for option in options if isinstance(option, Enum)]
    is_sound = all(type(value) is str for value in values) and (node["type"] == "enum" or not members)
    if is_sound or any(value.__hash__ is None for value in values):
        return node
    chosen = {_key(value): option for value, option in zip(values, options, strict=True)}
    replaced: Any = core_schema.no_info_plain_validator_function(_chooser(chosen, node.get("cls")))
    return replaced | ({"ref": node["ref"]} if "ref" in node else {})


def _chooser(options: dict[tuple[bool, Any], Any], kind: type[Enum] | None) -> Callable[[Any], Any]:
    expected = ", ".join(repr(value) for _, value in options)

    def choose(value: Any) -> Any:
        try:
            return options[_key(value)]
        except (KeyError, TypeError):
            member = None if kind is None or isinstance(value, bool) else _member(kind, value)
        if member is None:
            raise PydanticKnownError("literal_error", {"expected": expected})
        return member

    return choose


def _member(kind: type[Enum], value: Any) -> Enum | None:
    """Ask the enum itself, which may know what a missing value means."""
    try:
        return kind(value)
    except ValueError:
        return None
