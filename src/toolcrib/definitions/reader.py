"""From the bytes of a file to its definition. It is total: whatever the bytes are, a definition says so."""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from toolcrib.definitions.commands import read_commands
from toolcrib.definitions.definition import NOTHING, TYPES, Command, ToolDefinition, Type, Validator
from toolcrib.definitions.executable_code import DefinitionCode, read_executable
from toolcrib.definitions.lint import ToolProblems, kind, one_of
from toolcrib.definitions.review import review, without_unsound
from toolcrib.definitions.values import SEMVER, mapping, text, texts
from toolcrib.definitions.version import absent, detect, explicit
from toolcrib.yaml import YamlDocument, YamlProblem, decoded, parse

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


def read(
    data: bytes | str,
    *,
    path: pathlib.Path | None = None,
    root: pathlib.Path | None = None,
    trusted: bool = True,
    soft_checks: bool = False,
) -> ToolDefinition:
    """The definition that a file holds, with everything that is wrong with it.

    `soft_checks` is for files of others: checks beside a function warn there, unless they say `enforce: true`.
    """
    whole = data if isinstance(data, bytes) else data.encode(errors="surrogatepass")
    try:
        document = parse(decoded(data)[0])
    except UnicodeDecodeError as error:
        line = whole[: error.start].count(b"\n") + 1
        problem = YamlProblem("YAML_SYNTAX", "error", "The file is no text in UTF-8", "", line, 1, "Save it in UTF-8")
        document = YamlDocument(None, (problem,))
    sha256 = hashlib.sha256(whole).hexdigest()
    return replace(
        _definition(document, _FileFacts(path, root, soft_checks)), path=path, root=root, trusted=trusted, sha256=sha256
    )


class _FileFacts(NamedTuple):
    """What is known of a file besides its text."""

    path: pathlib.Path | None
    root: pathlib.Path | None
    soft_checks: bool


def _definition(document: YamlDocument, file: _FileFacts) -> ToolDefinition:
    content = document.value
    if isinstance(content, Mapping) and "tool" in content:
        findings = ToolProblems(document, ("tool",))
        extra = {key: value for key, value in content.items() if key != "tool"}
        return _tool(content["tool"], MappingProxyType(extra), findings, file)
    if isinstance(content, Mapping) and "id" in content and "type" in content:
        return _tool(content, NOTHING, ToolProblems(document), file)
    stem = "" if file.path is None else file.path.stem
    unread = document.root is None and document.problems
    problems = document.problems if unread else ()
    return ToolDefinition(
        stem, None, "", "", "", 1, "default", "invalid" if unread else "not_a_tool", problems=problems
    )


def _tool(value: Any, extra: Mapping[str, Any], findings: ToolProblems, file: _FileFacts) -> ToolDefinition:
    if not isinstance(value, Mapping):
        findings.refuse("INVALID_TYPE", f"'tool' must be a mapping, not {kind(value)}")
    tool, path = mapping(value), file.path
    id = _id(tool, findings)
    type = _type(tool, findings)
    for name in ("name", "description"):
        _text(tool, name, findings)
    _version(tool, findings)
    _schema_version(tool, findings)
    version, reason = detect(tool)
    code = read_executable(tool, findings, soft_checks=file.soft_checks) if version == 2 else DefinitionCode()
    examples = tool.get("examples") if version == 2 else None
    commands = read_commands(tool, type, code, examples, findings)
    definition = ToolDefinition(
        id=id or ("" if path is None else path.stem),
        type=type,
        name=text(tool.get("name")),
        description=text(tool.get("description")),
        version=text(tool.get("version")),
        schema_version=version,
        reason=reason,
        status="ok",
        tool=tool,
        extra=extra,
        commands=commands,
        validators=_attached(code.validators, commands),
        helpers=code.helpers,
        processors=code.processors,
        path=path,
        root=file.root,
    )
    review(definition, findings)
    definition = without_unsound(definition, findings)
    return replace(definition, status=findings.status, problems=tuple(findings.problems))


def _attached(validators: tuple[Validator, ...], commands: tuple[Command, ...]) -> tuple[Validator, ...]:
    """The validators, those included to which a command refers itself."""
    wanted: dict[str, list[str]] = {}
    for command in commands:
        for reference in texts(command.fields.get("validation")):
            wanted.setdefault(reference.removeprefix("validators."), []).append(command.name)
    return tuple(
        replace(validator, validates=tuple(dict.fromkeys((*validator.validates, *wanted.get(validator.id, ())))))
        for validator in validators
    )


# Core fields


def _id(tool: Mapping[str, Any], findings: ToolProblems) -> str:
    id = tool.get("id")
    if id in (None, ""):
        _missing("id", "Add 'id', named like the file", findings)
    elif not isinstance(id, str) or not ID.fullmatch(id):
        written = findings.written("id")
        shown = written[:64] or kind(id)
        legal = re.sub(r"[^A-Za-z0-9_-]+", "-", written).strip("-_")[:32] or "my-tool"
        fix = f"Write 'id: {legal}'" if isinstance(id, str) else f"Write 'id: \"{legal}\"'"
        message = f"Invalid tool id '{shown}'. Expected letters, digits, '-' and '_', at most 32"
        findings.refuse("INVALID_ID", message, "id", fix=fix)
    return text(id)


def _type(tool: Mapping[str, Any], findings: ToolProblems) -> Type | None:
    type = tool.get("type")
    if type == "api":
        return "http"
    if type in (None, ""):
        meant = _meant_type(tool)
        _missing("type", f"Add 'type: {meant}'" if meant else f"Add 'type' with one of: {', '.join(TYPES)}", findings)
        return None
    if type not in TYPES:
        shown = findings.written("type") or kind(type)
        message = f"Invalid tool type '{shown}'. Must be one of: {', '.join(TYPES)}"
        findings.refuse("INVALID_ENUM_VALUE", message, "type", fix=one_of(shown, TYPES))
        return None
    return cast(Type, type)


def _meant_type(tool: Mapping[str, Any]) -> str | None:
    """The type that the rest of a tool speaks of."""
    words = (text(tool.get(key)).lower() for key in ("category", "kind"))
    blocks = (name for name in TYPES if f"{name}_specific" in tool or f"{name}_config" in tool)
    return next((word for word in (*words, *blocks) if word in TYPES), None)


def _text(tool: Mapping[str, Any], name: str, findings: ToolProblems) -> None:
    value = tool.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        _missing(name, f"Add '{name}' with a text", findings)
    elif not isinstance(value, str):
        message = f"Tool field '{name}' must be text, not {kind(value)}"
        written = findings.written(name)
        findings.refuse("INVALID_TYPE", message, name, fix=f"Write '{name}: \"{written}\"'" if written else None)


def _version(tool: Mapping[str, Any], findings: ToolProblems) -> None:
    version = tool.get("version")
    if version in (None, ""):
        _missing("version", "Add 'version: 1.0.0'", findings)
    elif not isinstance(version, str) or not SEMVER.fullmatch(version):
        shown = findings.written("version") or kind(version)
        message = f"Invalid version format '{shown}'. Expected semantic versioning (e.g., 1.0.0)"
        numbers = re.fullmatch(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", shown, re.ASCII)
        legal = ".".join(str(int(number or 0)) for number in numbers.groups()) if numbers else "1.0.0"
        findings.refuse("INVALID_SEMVER", message, "version", fix=f"Write 'version: {legal}'")


def _schema_version(tool: Mapping[str, Any], findings: ToolProblems) -> None:
    value = tool.get("schema_version")
    if not absent(value) and explicit(value) is None:
        shown = findings.written("schema_version") or kind(value)
        message = f"Invalid schema_version '{shown}'. Must be '1.0' or '2.0'"
        meant = "1.0" if shown.startswith("1") else "2.0"
        findings.refuse("INVALID_ENUM_VALUE", message, "schema_version", fix=f"Write 'schema_version: {meant}'")


def _missing(name: str, fix: str, findings: ToolProblems) -> None:
    findings.refuse("MISSING_REQUIRED_FIELD", f"Tool missing required field: {name}", name, fix=fix)
