"""Review of checks, filters and blocks of a file that name arguments, commands or words that there are none of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.key_review import TYPES
from toolcrib.definitions.lint import ToolProblems, one_of
from toolcrib.definitions.values import mapping, text, texts
from toolcrib.schema import nearest
from toolcrib.yaml import Path

FILTERS = {"content": ("extract", "max_tokens"), "schema": ("fields", "max_tokens"), "field": ("fields", "max_rows")}
"""The types of filters, each with the settings that it has."""
OUTPUTS = ("auto", "json", "text")
METHODS = ("tool_call", "command", "http", "function")
ACTIONS = ("warn", "fail", "fail_fast", "skip_tool", "fallback")
OF_CHECKS = {
    "range": ("number", "integer"),
    "length": ("string", "array", "object"),
    "pattern": ("string", "number", "integer"),
}
"""The types of values that a check can pass."""
_OF_SEVERAL = ("required_fields", "any_of", "one_of", "all_or_none")


def review_checks(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Tell of each argument, command and word that a file names and does not have."""
    entries = mapping(definition.tool.get("executable_knowledge")).get("validators")
    for number, entry in enumerate(entries if isinstance(entries, tuple) else ()):
        known = _arguments(definition, mapping(entry).get("validates"))
        where = ("executable_knowledge", "validators", number, "checks")
        for path, field in _fields(mapping(entry).get("checks"), where) if known else ():
            root = re.split(r"[.\[]", field, maxsplit=1)[0]
            if root not in known:
                message = f"The check names '{field}', which is no argument of a command that it checks"
                findings.warning("UNKNOWN_ARGUMENT", message, *path, fix=one_of(root, known))
            elif field == root:
                _review_type(str(path[-2]), field, known[root], path, findings)
    for command in definition.commands:
        filter = mapping(command.fields.get("filter"))
        if filter:
            _review_filter(filter, (*command.where, "filter"), findings)
        _review_near(command.fields.get("output"), OUTPUTS, (*command.where, "output"), findings)
    _review_anti_patterns(definition, findings)
    _review_health(definition, findings)
    for other in TYPES if definition.type is not None else ():
        block = f"{other}_specific"
        if other != definition.type and mapping(definition.tool.get(block)):
            message = f"The block '{block}' does nothing in a tool of the type '{definition.type}'"
            findings.warning("UNUSED_BLOCK", message, block, fix=f"Write '{definition.type}_specific', or remove it")


def _arguments(definition: ToolDefinition, validates: Any) -> dict[str, list[Any]]:
    """The arguments, with their schemas, of the commands that a validator checks; none if one may have others."""
    wanted = texts(validates)
    known: dict[str, list[Any]] = {}
    for command in definition.commands:
        if command.listed and ("*" in wanted or command.name in wanted):
            schema = command.input_schema
            properties = {} if schema is None else mapping(schema.get("properties"))
            if schema is None or not properties or schema.get("additionalProperties") is True:
                return {}
            for name, inner in properties.items():
                known.setdefault(str(name), []).append(inner)
    return known


def _review_type(check: str, field: str, schemas: Iterable[Any], where: Path, findings: ToolProblems) -> None:
    """A check that no value of the argument's type can pass."""
    types = {mapping(schema).get("type") for schema in schemas}
    wanted = OF_CHECKS.get(check)
    if wanted is not None and all(isinstance(type, str) and type not in wanted for type in types):
        message = (
            f"The check '{check}' of '{field}' fails for every value of the type {', '.join(sorted(map(str, types)))}"
        )
        findings.warning("UNFIT_CHECK", message, *where, fix=f"Check an argument of the type {' or '.join(wanted)}")


def _review_filter(filter: Mapping[str, Any], where: Path, findings: ToolProblems) -> None:
    type = filter.get("type")
    _review_word(type, FILTERS, (*where, "type"), findings)
    others = {key for keys in FILTERS.values() for key in keys} - set(FILTERS.get(str(type), filter))
    for key in filter:
        if key in others:
            message = f"'{key}' does nothing in a filter of the type '{type}'"
            findings.warning("UNUSED_KEY", message, *where, key, fix=one_of(key, FILTERS[str(type)]))


def _fields(checks: Any, where: Path) -> Iterator[tuple[Path, str]]:
    """The fields that checks name, each with its place."""
    if isinstance(checks, tuple):
        for number, inner in enumerate(checks):
            yield from _fields(inner, (*where, number))
    for name, setting in mapping(checks).items():
        place = (*where, name)
        if name in _OF_SEVERAL:
            yield from ((place, field) for field in _flat(setting))
        elif isinstance(setting, Mapping):
            yield from (((*place, field), str(field)) for field in setting)
            if name == "requires":
                yield from (((*place, key), field) for key, inner in setting.items() for field in _flat(inner))


def _flat(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value if isinstance(value, tuple) else ():
        yield from _flat(inner)


def _review_word(value: Any, known: Iterable[str], where: Path, findings: ToolProblems) -> None:
    names = tuple(known)
    if value is not None and value not in names:
        message = f"'{value}' is none of {', '.join(names)}, and does nothing"
        findings.warning("INVALID_ENUM_VALUE", message, *where, fix=one_of(value, names))


def _review_near(value: Any, known: tuple[str, ...], where: Path, findings: ToolProblems) -> None:
    """Of words that a file may also use for people only those are told that are almost one that acts."""
    if isinstance(value, str) and value not in known and nearest(value, known, 1):
        _review_word(value, known, where, findings)


def _review_anti_patterns(definition: ToolDefinition, findings: ToolProblems) -> None:
    listed = [command.name for command in definition.commands if command.listed]
    patterns = definition.tool.get("anti_patterns")
    for number, entry in enumerate(patterns if isinstance(patterns, tuple) else ()):
        name = text(mapping(mapping(entry).get("match")).get("command"))
        if listed and name and name not in listed and "*" not in name:
            message = f"The anti-pattern is about the command '{name}', which is not listed"
            where = ("anti_patterns", number, "match", "command")
            findings.warning("DANGLING_REFERENCE", message, *where, fix=one_of(name, listed))


def _review_health(definition: ToolDefinition, findings: ToolProblems) -> None:
    listed = tuple(command.name for command in definition.commands if command.listed)
    for where in (("health_check",), (f"{definition.type}_specific", "health_check")):
        fields = definition.tool
        for key in where:
            fields = mapping(fields.get(key))
        _review_near(fields.get("method"), METHODS, (*where, "method"), findings)
        if fields.get("method") == "tool_call" and definition.type != "mcp":
            _review_near(fields.get("command"), listed, (*where, "command"), findings)
        action = mapping(fields.get("on_failure")).get("action")
        _review_near(action, ACTIONS, (*where, "on_failure", "action"), findings)
