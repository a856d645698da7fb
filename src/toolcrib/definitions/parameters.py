"""What a command says of its arguments, as one JSON Schema: a schema, names, or prose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from toolcrib.schema import SchemaError, check_schema
from toolcrib.yaml import freeze, thaw

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_DESCRIBING = ("description", "type", "required", "default")
_SHAPES = ("properties", "$ref", "allOf", "anyOf", "oneOf", "required", "additionalProperties")
_SOUND = frozenset(("description", "type"))
"""What is written here in a form that needs no check, which takes longer than all the rest."""

Property = tuple[str, dict[str, Any], bool]
"""A parameter: its name, its schema, and whether a call must have it."""


class BadParameters(Exception):
    """Why what stands at a key of a command is no description of arguments."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def input_schema(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of a command's arguments by the first of its keys that tells of them, None where none does.

    Raises:
        BadParameters: the key does not hold what it should.
    """
    for key in ("input_schema", "parameters"):
        schema = data.get(key)
        if schema is not None and (key == "input_schema" or schema_shaped(schema)):
            return _checked(key, schema)
    if data.get("required_args") is not None or data.get("optional_args") is not None:
        required = [(name, schema, True) for name, schema, _ in _properties("required_args", data.get("required_args"))]
        return _object("required_args", [*required, *_properties("optional_args", data.get("optional_args"))])
    prose = list(_properties("parameters", data.get("parameters")))
    return _object("parameters", prose) if prose else None


def schema_shaped(parameters: Any) -> bool:
    """True if parameters are one JSON Schema, and not a mapping of names to prose."""
    if not isinstance(parameters, Mapping):
        return False
    if not parameters or parameters.get("type") == "object":
        return True
    return any(isinstance(parameters.get(key), Mapping | tuple | bool) for key in _SHAPES) or "$ref" in parameters


def _checked(key: str, schema: Any) -> Mapping[str, Any]:
    if isinstance(schema, Mapping) and "type" not in schema and "$ref" not in schema:
        schema = {"type": "object", **schema}
    try:
        check_schema(thaw(schema))
    except SchemaError as error:
        raise BadParameters(key, f"'{key}' is no valid JSON Schema of arguments: {error}") from None
    frozen: Mapping[str, Any] = freeze(schema)
    return frozen


def _object(key: str, properties: list[Property]) -> Mapping[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    for name, inner, _ in properties:
        schema["properties"].setdefault(name, inner)
    required = list(dict.fromkeys(name for name, _, must in properties if must))
    if required:
        schema["required"] = required
    if all(inner.keys() <= _SOUND for _, inner, _ in properties):
        frozen: Mapping[str, Any] = freeze(schema)
        return frozen
    return _checked(key, schema)


def _properties(key: str, block: Any) -> Iterator[Property]:
    """The parameters of a list, or of a mapping of names; in a list a text is the name of one."""
    if block is None:
        return
    if isinstance(block, Mapping):
        block = (block,)
    if not isinstance(block, tuple):
        raise BadParameters(key, f"'{key}' must be a list or a JSON Schema")
    for entry in block:
        if isinstance(entry, str):
            yield entry, {}, False
        elif isinstance(entry, Mapping):
            yield from _entry(entry)
        else:
            raise BadParameters(key, f"'{key}' holds {entry!r}, which is no parameter")


def _entry(entry: Mapping[str, Any]) -> Iterator[Property]:
    """`{name, description, type, required, default}` is one parameter, in any other mapping each key is one."""
    name = entry.get("name")
    if isinstance(name, str) and name and any(key in entry for key in _DESCRIBING):
        yield name, _described(entry), entry.get("required") is True
        return
    for key, described in entry.items():
        if isinstance(described, Mapping):
            yield key, _described(described), described.get("required") is True
        else:
            yield key, {"description": str(described)} if described is not None else {}, False


def _described(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameter's own schema; an unknown type (`date`) is described, not checked."""
    schema = {key: thaw(value) for key, value in data.items() if key not in ("name", "required", "type", "description")}
    kind, description = data.get("type"), data.get("description")
    types = kind if isinstance(kind, tuple) else (kind,)
    if all(inner in TYPES for inner in types):
        schema["type"] = thaw(kind)
    elif kind is not None:
        description = f"{description} ({kind})" if description else str(kind)
    if isinstance(data.get("required"), tuple):
        schema["required"] = thaw(data["required"])
    return {"description": str(description), **schema} if description is not None else schema
