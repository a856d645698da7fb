"""Errors of jsonschema-rs as problems with texts of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from toolcrib.schema.names import nearest
from toolcrib.schema.positions import look_up
from toolcrib.schema.problems import MOST, LocatedProblem, Path, show, show_list

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

TEXTS: dict[str, Callable[[Any], str]] = {
    "Enum": lambda kind: f"must be one of {show_list(kind.options)}",
    "Constant": lambda kind: f"must be {show(kind.expected_value)}",
    "Minimum": lambda kind: f"must be at least {show(kind.limit)}",
    "Maximum": lambda kind: f"must be at most {show(kind.limit)}",
    "ExclusiveMinimum": lambda kind: f"must be more than {show(kind.limit)}",
    "ExclusiveMaximum": lambda kind: f"must be less than {show(kind.limit)}",
    "MultipleOf": lambda kind: f"must be a multiple of {show(kind.multiple_of)}",
    "MinLength": lambda kind: f"must have at least {_count(kind.limit, 'character')}",
    "MaxLength": lambda kind: f"must have at most {_count(kind.limit, 'character')}",
    "MinItems": lambda kind: f"must have at least {_count(kind.limit, 'item')}",
    "MaxItems": lambda kind: f"must have at most {_count(kind.limit, 'item')}",
    "AdditionalItems": lambda kind: f"must have at most {_count(kind.limit, 'item')}",
    "MinProperties": lambda kind: f"must have at least {_count(kind.limit, 'field')}",
    "MaxProperties": lambda kind: f"must have at most {_count(kind.limit, 'field')}",
    "UniqueItems": lambda kind: "must not have the same item twice",
    "Pattern": lambda kind: f"must match the pattern {kind.pattern}",
    "BacktrackLimitExceeded": lambda kind: "takes too long to be matched with its pattern",
    "Format": lambda kind: f"must be a valid {kind.format}",
    "Contains": lambda kind: "has no item of the kind that it must contain",
    "UnevaluatedItems": lambda kind: "has items that are not allowed",
    "Not": lambda kind: f"is not allowed, since it fits {show(kind.schema)}",
    "FalseSchema": lambda kind: "is not allowed",
    "OneOfMultipleValid": lambda kind: "fits more than one of the alternatives",
}
CHOICES = ("Enum", "Constant")
ALTERNATIVES = ("AnyOf", "OneOfNotValid")


def findings(error: ValidationError, schema: dict[str, Any]) -> Iterator[LocatedProblem]:
    """Say one error of jsonschema-rs as findings."""
    name, path = _kind(error), tuple(error.instance_path)
    kind: Any = error.kind
    if name == "Required":
        yield LocatedProblem((*path, kind.property), "missing", "missing")
    elif name == "Type":
        yield _mistyped(path, kind.types, error.instance)
    elif name in ("AdditionalProperties", "UnevaluatedProperties"):
        yield from _unknown(error, schema)
    elif name == "PropertyNames":
        yield from (_about_name(inner, path, kind.error.instance) for inner in findings(kind.error, schema))
    elif name in ALTERNATIVES:
        yield from _none_fits(error, schema)
    else:
        say = TEXTS.get(name, lambda kind: f"does not fit the schema ({kind.name})")
        yield LocatedProblem(path, "value", say(kind))


def _kind(error: ValidationError) -> str:
    return type(error.kind).__name__


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _mistyped(path: Path, types: list[str], value: Any) -> LocatedProblem:
    wanted = sorted(dict.fromkeys(types), key=lambda name: name == "null")
    return LocatedProblem(path, "type", f"expected {' or '.join(wanted)}, got {show(value)}")


def _about_name(finding: LocatedProblem, path: Path, name: Any) -> LocatedProblem:
    return LocatedProblem((*path, str(name)), "value", f"its name {finding.text}")


def _unknown(error: ValidationError, schema: dict[str, Any]) -> Iterator[LocatedProblem]:
    kind: Any = error.kind
    holder = look_up(schema, tuple(str(step) for step in error.schema_path[:-1]))
    known = holder.get("properties", {}) if isinstance(holder, dict) else {}
    instance = error.instance if isinstance(error.instance, dict) else {}
    free = [name for name in known if name not in instance]
    # No more than are reported: comparing names is slow, and an object may have any number of them.
    for name in kind.unexpected[:MOST]:
        close = nearest(name, free, 1) or nearest(name, known, 1)
        text = f"unknown, did you mean '{close[0]}'?" if close else "unknown"
        yield LocatedProblem((*error.instance_path, name), "unknown", text)


def _none_fits(error: ValidationError, schema: dict[str, Any]) -> Iterator[LocatedProblem]:
    """Say why no branch fits: by their types, by the choice that tells them apart, or by the nearest branch."""
    path, kind = tuple(error.instance_path), error.kind
    branches: list[list[ValidationError]] = kind.context  # type: ignore[attr-defined]  # of AnyOf and OneOfNotValid
    wanted = [_wanted_types(branch, path) for branch in branches]
    fitting = [branch for branch, types in zip(branches, wanted, strict=True) if not types]
    if not fitting:
        yield _mistyped(path, [name for types in wanted for name in types], error.instance)
        return
    chosen = _same_choice(fitting)
    if chosen is not None:
        yield chosen
        return
    for inner in min(fitting, key=lambda branch: _distance(branch, path)):
        yield from findings(inner, schema)


def _wanted_types(branch: list[ValidationError], path: Path) -> list[str]:
    """List the types that a branch asks for, where the value is of none of them."""
    for error in branch:
        kind: Any = error.kind
        if tuple(error.instance_path) != path:
            continue
        if _kind(error) == "Type":
            return list(kind.types)
        if _kind(error) in ALTERNATIVES:
            inner = [_wanted_types(each, path) for each in kind.context]
            if all(inner):
                return [name for types in inner for name in types]
    return []


def _same_choice(branches: list[list[ValidationError]]) -> LocatedProblem | None:
    """Join branches that each allow other values at one place, such as the tag of a tagged union."""
    options: list[Any] = []
    places = set()
    for branch in branches:
        chosen = next((error for error in branch if _kind(error) in CHOICES), None)
        if chosen is None:
            return None
        kind: Any = chosen.kind
        options += kind.options if _kind(chosen) == "Enum" else [kind.expected_value]
        places.add(tuple(chosen.instance_path))
    if len(places) != 1 or len(branches) < 2:
        return None
    return LocatedProblem(places.pop(), "value", f"must be one of {show_list(options)}")


def _distance(branch: list[ValidationError], path: Path) -> tuple[int, int]:
    """Tell how far a branch is from fitting; one with another tag is farther than any with the same."""
    tags = [error for error in branch if _kind(error) in CHOICES and len(error.instance_path) == len(path) + 1]
    return len(tags), len(branch)
