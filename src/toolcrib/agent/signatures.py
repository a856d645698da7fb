"""Tools as Python functions, for scripts: legal names, short signatures, and arguments by place or by name."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolcrib.schema import llm_schema
from toolcrib.schema.names import one_line
from toolcrib.tool import Tool

TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}
CHOICES = 8
DEEP = 3
_TAKEN = frozenset({*dir(builtins), *keyword.kwlist, "result"})


def functions(shown: Mapping[str, Tool]) -> dict[str, Tool]:
    """Tools by the names of their functions: those that a model knows them by, made legal and free."""
    made: dict[str, Tool] = {}
    for name, tool in shown.items():
        legal = re.sub(r"\W", "_", name)
        if legal in _TAKEN or legal[0].isdigit():
            legal = re.sub(r"\W", "_", f"{tool.namespace}_{legal}")
        while legal in made or legal in _TAKEN:
            legal += "_"
        made[legal] = tool
    return made


def signature(name: str, tool: Tool) -> str:
    """How a function is called, what it gives and what it does, in one line."""
    schema = llm_schema(tool.input_schema)
    required, known = frozenset(schema.get("required", ())), schema.get("properties", {})
    parameters = [_parameter(one, known[one], one in required) for one in places(tool)]
    if any(not one.isidentifier() for one in known):
        parameters.append("**others")
    gives = "" if tool.output_schema is None else f" -> {typed(llm_schema(tool.output_schema))}"
    return f"{name}({', '.join(parameters)}){gives}  # {one_line(tool.description)}"


def places(tool: Tool) -> list[str]:
    """The parameters in order: those that are required come first."""
    required = frozenset(tool.input_schema.get("required", ()))
    names = [name for name in tool.input_schema.get("properties", {}) if name.isidentifier()]
    return sorted(names, key=lambda name: name not in required)


def arguments(tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, by name.

    Raises:
        TypeError: there are too many, or one is given twice.
    """
    names = places(tool)
    if len(args) > len(names):
        raise TypeError(f"{tool.name}() takes {len(names)} positional arguments but {len(args)} were given")
    placed = dict(zip(names, args, strict=False))
    if twice := placed.keys() & kwargs.keys():
        raise TypeError(f"{tool.name}() got two values for {', '.join(sorted(twice))}")
    return {**placed, **kwargs}


def _parameter(name: str, schema: Any, required: bool) -> str:
    if required:
        return f"{name}: {typed(schema)}"
    default = schema.get("default") if isinstance(schema, dict) else None
    shown = repr(default) if isinstance(default, str | int | float | bool) else "None"
    return f"{name}: {typed(schema)} = {shown}"


def typed(schema: Any, deep: int = 0) -> str:
    """A JSON schema as a short Python type."""
    if not isinstance(schema, Mapping) or deep > DEEP:
        return "Any"
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if 0 < len(choices) <= CHOICES and all(isinstance(one, str | int | bool) for one in choices):
        return f"Literal[{', '.join(map(repr, choices))}]"
    for either in ("anyOf", "oneOf"):
        if either in schema:
            return _any_of(typed(one, deep + 1) for one in schema[either])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _any_of(typed({**schema, "type": one}, deep + 1) for one in kind)
    if kind == "array" and "items" in schema:
        return f"list[{typed(schema['items'], deep + 1)}]"
    if kind == "object" and schema.get("properties") and deep < DEEP:
        inner = [f"{name!r}: {typed(one, deep + 1)}" for name, one in schema["properties"].items()]
        return f"{{{', '.join(inner)}}}" if len(inner) <= CHOICES else "dict"
    return TYPES.get(str(kind), "Any")


def _any_of(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types)) or "Any"
