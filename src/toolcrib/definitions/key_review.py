"""Review of the keys of a file: those that look like a key that acts, and act not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.lint import ToolProblems, one_of
from toolcrib.definitions.values import mapping
from toolcrib.schema.slips import slips
from toolcrib.yaml import Path

TYPES = ("cli", "http", "local", "mcp", "meta")
OF_TOOL = (
    *("id", "type", "name", "description", "version", "schema_version", "effect", "requires", "expose", "timeout_ms"),
    *("expose_helpers", "executable_knowledge", "api_complexity", "anti_patterns", "examples", "commands", "tools"),
    *("command_groups", "health_check", "environment_variables", "dependencies", "tags", "category", "labels"),
    *(f"{type}_{what}" for type in TYPES for what in ("specific", "config")),
)
OF_COMMAND = (
    *("name", "id", "description", "input_schema", "parameters", "required_args", "optional_args", "effect"),
    *("timeout_ms", "filter", "processors", "validation", "output", "requires", "mcp_tool", "cli_args"),
    *("exec_template", "method", "path", "query", "headers", "body", "labels"),
)
OF_CODE = ("validators", "helpers", "processors")
OF_ENTRY = {
    "validators": ("id", "validates", "checks", "function", "language", "enforce", "timeout_ms", "memory_mb"),
    "helpers": ("id", "function", "language", "description", "timeout_ms", "memory_mb"),
    "processors": (
        *("id", "function", "language", "steps", "stage", "applies_to", "input_schema", "output_schema"),
        *("timeout_ms", "memory_mb"),
    ),
}
OF_TYPE = {
    "cli": ("executable", "install_check", "version_command", "install_guide"),
    "local": ("entry_point", "runtime", "executables"),
    "http": ("base_url", "headers", "auth"),
    "mcp": ("server_command", "server_args", "connection", "transport", "query_parameters"),
    "meta": ("aggregates", "orchestrates", "workflow", "orchestration"),
}
OF_ALL_TYPES = ("environment_variables", "health_check", "timeout_ms")
OF_HEALTH = (
    *("method", "args", "endpoint", "command", "function", "expected_response", "timeout_ms", "ttl_s", "enabled"),
    *("required", "fallback", "on_failure", "unix", "windows"),
)
OF_FAILURE = ("action", "fallback_tool", "message")
OF_AUTH = ("type", "env", "account", "name", "description")
OF_MATCH = ("command", "path", "code", "message")
OF_BOUNDS = ("min", "max")
OF_FILTER = ("type", "extract", "fields", "max_tokens", "max_rows")
OF_PROGRAMS = {
    "read_only": "Write 'effect: read'",
    "idempotent": "Write 'effect: idempotent'",
    "destructive": "Write 'annotations: {destructive: true}' for it under 'declare' of crib.yaml",
    "open_world": "Write 'annotations: {open_world: true}' for it under 'declare' of crib.yaml",
    "requires_confirmation": "Write a rule that asks about it into the policy",
}
"""What a tool of a program says of itself by these words, and a file by others."""
OF_RESULTS = "Describe the result in 'description'; what a processor returns is checked by its 'output_schema'"

KNOWLEDGE = ("example", "example_ref", "example_refs", "notes", "usage", "uses_helpers", "common_flags", "subcommands")
"""Keys that are close to one that acts, and are meant as they stand."""

ALIKE = 0.8


def review_keys(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Tell of each key that is almost one that acts; all others are what an author wants to be known.

    How a service runs, what an anti-pattern is about and the bounds of a value are no knowledge: there every key that
    does not act is told of.
    """
    for where, block, known in _places(definition):
        closed = where == ("http_specific",) or known in (OF_MATCH, OF_BOUNDS)
        for key in block:
            fix = _fix(str(key), known) or (one_of(key, known) if closed and key not in known else None)
            if fix is not None:
                message = f"The key '{key}' is unknown and does nothing"
                findings.warning("UNKNOWN_KEY", message, *where, str(key), fix=fix)


def review_schemas(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Tell of each word in a schema that is almost a keyword, and of required properties that there are none of.

    Arguments of a command that are required and that there are none of are told of elsewhere.
    """
    for where, schema in _schemas(definition.tool):
        for slip in slips(schema, where):
            if slip.path[:-1] != (*where, "required") or where[0] == "executable_knowledge":
                fix = f"Write '{slip.nearest}'" if slip.nearest is not None else "Describe it under 'properties'"
                findings.warning("BAD_KEYWORD", slip.message, *slip.path, fix=fix)


def _schemas(tool: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    for key in ("commands", "tools"):
        yield from (((key, number, "input_schema"), one.get("input_schema")) for number, one in _entries(tool.get(key)))
    where = ("executable_knowledge", "processors")
    for number, one in _entries(mapping(tool.get(where[0])).get(where[1])):
        yield from (((*where, number, key), one.get(key)) for key in ("input_schema", "output_schema"))


def _fix(key: str, known: Iterable[str]) -> str | None:
    """What to write in place of a key that does nothing and looks as if it did."""
    if key == "output_schema" and key not in known:
        return OF_RESULTS
    meant = _meant(key, known)
    if meant is not None:
        return f"Write '{meant}'"
    of_programs = _meant(key, OF_PROGRAMS) if key not in OF_PROGRAMS else key
    return None if of_programs is None or "name" not in known else OF_PROGRAMS[of_programs]


def _places(definition: ToolDefinition) -> Iterator[tuple[Path, Mapping[str, Any], Iterable[str]]]:
    tool = definition.tool
    yield (), tool, OF_TOOL
    for key in ("commands", "tools"):
        for number, one in _entries(tool.get(key)):
            yield (key, number), one, OF_COMMAND
            yield (key, number, "filter"), mapping(one.get("filter")), OF_FILTER
    for group, entries in mapping(tool.get("command_groups")).items():
        of_line = (*OF_COMMAND, "command")
        yield from ((("command_groups", group, number), one, of_line) for number, one in _entries(entries))
    code = mapping(tool.get("executable_knowledge"))
    yield ("executable_knowledge",), code, OF_CODE
    for key, known in OF_ENTRY.items():
        yield from ((("executable_knowledge", key, number), one, known) for number, one in _entries(code.get(key)))
    if definition.type is not None:
        for block in (f"{definition.type}_specific", f"{definition.type}_config"):
            fields = mapping(tool.get(block))
            yield (block,), fields, (*OF_TYPE[definition.type], *OF_ALL_TYPES)
            if definition.type == "http":
                yield (block, "auth"), mapping(fields.get("auth")), OF_AUTH
            yield from _health((block, "health_check"), mapping(fields.get("health_check")))
    yield from _health(("health_check",), mapping(tool.get("health_check")))
    yield from _closed(tool)


def _closed(tool: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any], Iterable[str]]]:
    """What has these keys and no other."""
    for number, one in _entries(tool.get("anti_patterns")):
        yield ("anti_patterns", number, "match"), mapping(one.get("match")), OF_MATCH
    for number, one in _entries(mapping(tool.get("executable_knowledge")).get("validators")):
        for check in ("range", "length"):
            for field, bounds in mapping(mapping(one.get("checks")).get(check)).items():
                where = ("executable_knowledge", "validators", number, "checks", check, field)
                yield where, mapping(bounds), OF_BOUNDS


def _health(where: Path, fields: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any], Iterable[str]]]:
    yield where, fields, OF_HEALTH
    yield (*where, "on_failure"), mapping(fields.get("on_failure")), OF_FAILURE


def _entries(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, entry in enumerate(value if isinstance(value, tuple) else ()):
        if isinstance(entry, Mapping):
            yield number, entry


def _meant(key: str, known: Iterable[str]) -> str | None:
    """The known key that another one is almost."""
    names = tuple(known)
    if key in names or key in KNOWLEDGE:
        return None
    ratios = [(SequenceMatcher(None, key[:64].lower(), name).ratio(), name) for name in names]
    ratio, name = max(ratios, default=(0.0, ""))
    return name if ratio >= ALIKE else None
