"""What a file says of where values come from: labels of results, roles of arguments, and which must be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.lint import ToolProblems, one_of
from toolcrib.definitions.values import mapping, texts
from toolcrib.origins.labels import LABELS, problem_of
from toolcrib.origins.roles import KEY, ROLES
from toolcrib.yaml import Path

SCHEMAS = ("input_schema", "parameters")
DEEPEST = 12


def labels_of(definition: ToolDefinition, command: Command) -> tuple[str, ...]:
    """What the results of a command are worth; of a file that nobody vouches for only what makes them count for less.

    Labels that do not hold count as `untrusted`.
    """
    written = command.fields.get("labels", definition.tool.get("labels"))
    if written is None:
        return ()
    labels = texts(written)
    if not labels or problem_of(labels) is not None:
        return ("untrusted",)
    return labels if definition.trusted else tuple(one for one in labels if one in ("untrusted", "private"))


def review_origins(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Tell of labels and roles that there are none of, and of arguments that a call must have and cannot."""
    _review_labels(definition.tool.get("labels"), ("labels",), findings)
    for command in definition.commands:
        if not command.where:
            continue
        _review_labels(command.fields.get("labels"), (*command.where, "labels"), findings)
        for key in SCHEMAS:
            schema = command.fields.get(key)
            for path, role in _roles(schema, (), DEEPEST):
                message = f"Invalid role '{role}' of '{command.name}'. Must be one of: {', '.join(ROLES)}"
                where = (*command.where, key, *path)
                findings.error("INVALID_ENUM_VALUE", message, *where, fix=one_of(role, ROLES))
            _review_required(command, key, mapping(schema), findings)


def _review_labels(written: Any, where: Path, findings: ToolProblems) -> None:
    if written is None:
        return
    problem = problem_of(texts(written)) if texts(written) else "a list such as [untrusted, private] is expected"
    if problem is not None:
        unknown = next((one for one in texts(written) if one not in LABELS), None)
        fix = one_of(unknown, LABELS) if unknown is not None else f"Write some of: {', '.join(LABELS)}"
        findings.error("INVALID_ENUM_VALUE", f"Invalid labels: {problem}", *where, fix=fix)


def _review_required(command: Command, key: str, schema: Mapping[str, Any], findings: ToolProblems) -> None:
    """A call must have an argument that its schema does not describe: a name that was misspelt in one of the two."""
    known = [str(name) for name in mapping(schema.get("properties"))]
    for number, name in enumerate(texts(schema.get("required")) if known else ()):
        if name not in known:
            message = f"Command '{command.name}': '{name}' is required and is none of its arguments"
            where = (*command.where, key, "required", number)
            findings.warning("UNKNOWN_ARGUMENT", message, *where, fix=one_of(name, known))


def _roles(schema: Any, path: Path, depth: int) -> Iterator[tuple[Path, Any]]:
    """The roles in a schema that there are none of."""
    if isinstance(schema, Mapping) and depth:
        if KEY in schema and schema[KEY] not in ROLES:
            yield (*path, KEY), schema[KEY]
        for name, inner in schema.items():
            yield from _roles(inner, (*path, str(name)), depth - 1)
    elif isinstance(schema, tuple) and depth:
        for number, inner in enumerate(schema):
            yield from _roles(inner, (*path, number), depth - 1)
