"""Review of what a file refers to: commands that validators check, arguments that templates name, things to run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toolcrib.definitions.blocks import HELPERS
from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.lint import ToolProblems, one_of
from toolcrib.definitions.runners import BadTemplate, protocol, runner
from toolcrib.definitions.values import mapping, text, texts
from toolcrib.policy import BadRule, capabilities
from toolcrib.schema import nearest
from toolcrib.yaml import Path

TEMPLATES = ("cli_args", "exec_template", "path", "query", "headers", "body")
_PLACE = re.compile(r"\{\{\s*([\w$-]+)[^{}]*\}\}")
_FUNCTION = re.compile(r"^(?:async[ \t]+)?function\b", re.MULTILINE)
_STATEMENT = re.compile(
    r"^(?!function\b|async[ \t]+function\b|const\b|let\b|var\b|class\b|//|/?\*|['\"]use )[^\s})\]].*$", re.MULTILINE
)


def review_references(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Tell of everything that a file names and does not have."""
    _review_validated(definition, findings)
    for command in definition.commands:
        if command.broken is None and command.listed:
            _review_places(definition, command, findings)
            _review_running(definition, command, findings)
        _review_helpers(definition, command, findings)
        _review_required(command.fields.get("requires"), (*command.where, "requires"), findings)
    _review_required(definition.tool.get("requires"), ("requires",), findings)
    _review_headers(definition, findings)
    _review_scripts(definition, findings)


def _review_validated(definition: ToolDefinition, findings: ToolProblems) -> None:
    """A validator or processor of a command that nobody lists never runs; of a server only it knows the commands."""
    listed = [command.name for command in definition.commands if command.listed]
    if not listed:
        return
    code = mapping(definition.tool.get("executable_knowledge"))
    for block, key, what in (
        ("validators", "validates", "is checked"),
        ("processors", "applies_to", "is changed by it"),
    ):
        entries = code.get(block)
        for number, entry in enumerate(entries if isinstance(entries, tuple) else ()):
            for name in texts(mapping(entry).get(key)):
                if name in listed or "*" in name:
                    continue
                close = nearest(name, listed, 1)
                if definition.type == "mcp" and not close:
                    continue
                message = f"'{key}' names the command '{name}', which is not listed: nothing that runs {what}"
                where = ("executable_knowledge", block, number, key)
                findings.warning("DANGLING_REFERENCE", message, *where, fix=one_of(name, close or listed))


def _review_places(definition: ToolDefinition, command: Command, findings: ToolProblems) -> None:
    """A place-holder that no argument can fill leaves its part out, or makes every call fail."""
    schema = command.input_schema
    if schema is None or definition.type not in ("cli", "http", "local") or schema.get("additionalProperties") is True:
        return
    known = [str(name) for name in mapping(schema.get("properties"))]
    if not known and schema.get("additionalProperties") is not False:
        return
    for key in TEMPLATES:
        for path, root in _places(command.fields.get(key), ()):
            if root not in known:
                message = f"Command '{command.name}': '{{{{{root}}}}}' is none of its arguments"
                where = (*command.where, key, *path)
                findings.error("UNKNOWN_PLACEHOLDER", message, *where, fix=_filling(root, known))


def _filling(root: str, known: Sequence[str]) -> str:
    """What to write instead of a place-holder that nothing fills."""
    if root == "env":
        return "Variables stand in no template: write 'auth: {type: header, name: ..., env: ...}' into 'http_specific'"
    return one_of(root, known) if known else f"Add '{root}' to the 'input_schema'"


def _review_headers(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Headers of all requests: a place-holder that no command has an argument for never has a value."""
    commands = [command for command in definition.commands if command.listed]
    if definition.type != "http" or not commands:
        return
    schemas = [command.input_schema for command in commands]
    known = {str(name): None for schema in schemas for name in mapping((schema or {}).get("properties"))}
    open = any(schema is None or schema.get("additionalProperties") is True for schema in schemas)
    for block in ("http_specific", "http_config"):
        for path, root in _places(mapping(definition.tool.get(block)).get("headers"), (block, "headers")):
            if root not in known and (root == "env" or not open):
                message = f"'{{{{{root}}}}}' is no argument of a command, so this header is never sent"
                findings.error("UNKNOWN_PLACEHOLDER", message, *path, fix=_filling(root, list(known)))


def _review_helpers(definition: ToolDefinition, command: Command, findings: ToolProblems) -> None:
    helpers = [helper.id for helper in definition.helpers]
    for name in texts(command.fields.get("uses_helpers")):
        if name.removeprefix(HELPERS) not in helpers:
            message = f"'uses_helpers' names the helper '{name}', which does not exist"
            findings.warning("DANGLING_REFERENCE", message, *command.where, "uses_helpers", fix=one_of(name, helpers))


def _review_required(value: Any, where: Path, findings: ToolProblems) -> None:
    """Tell of a capability that cannot be read, or is of a family that is almost a well-known one."""
    for capability in texts(value):
        try:
            (family,) = capabilities.families([capability])
        except BadRule as error:
            findings.error(
                "UNKNOWN_CAPABILITY", f"'requires' names '{capability}', which is no capability: {error}", *where
            )
            continue
        close = [] if family in capabilities.FAMILIES else nearest(family, capabilities.FAMILIES, 1)
        if close and not family.endswith("*"):
            message = f"'requires' names '{capability}', of a family that nothing grants"
            findings.warning("UNKNOWN_CAPABILITY", message, *where, fix=f"Write '{close[0]}'")


def _places(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        for root in _PLACE.findall(value):
            yield path, root
    elif isinstance(value, Mapping):
        when = value.get("when")
        if set(value) == {"flag", "when"} and isinstance(when, str):
            yield (*path, "when"), re.split(r"[.\[]", when.strip("{} "), maxsplit=1)[0]
            return
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, tuple):
        for number, inner in enumerate(value):
            yield from _places(inner, (*path, number))


def _review_running(definition: ToolDefinition, command: Command, findings: ToolProblems) -> None:
    """A command with nothing to run waits for a client that runs it."""
    if definition.type is None:
        return
    if definition.type == "mcp":
        specific = definition.specific
        runs = bool(text(specific.get("server_command")) or mapping(specific.get("connection")).get("url"))
    elif definition.type == "local" and definition.path is None:
        runs = True
    else:
        try:
            runs = runner(definition, command, protocol.RunnerSettings()) is not None
        except BadTemplate:
            runs = True  # reported elsewhere
    if not runs:
        message = f"The command '{command.name}' has nothing to run: its calls wait for a client that runs it"
        findings.warning("NOTHING_TO_RUN", message, *command.where, fix="Say what it runs, as its type does")


def _review_scripts(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Statements before a JavaScript function run with every call, and only the function counts."""
    code = mapping(definition.tool.get("executable_knowledge"))
    for key in ("validators", "helpers", "processors"):
        entries = code.get(key)
        for number, entry in enumerate(entries if isinstance(entries, tuple) else ()):
            source = mapping(entry).get("function")
            if not isinstance(source, str) or mapping(entry).get("language") not in (None, "javascript"):
                continue
            last = [match.start() for match in _FUNCTION.finditer(source)][-1:]
            statement = _STATEMENT.search(source, 0, last[0]) if last else None
            if statement is not None and not source[last[0] :].rstrip().rpartition("\n")[2].startswith((" ", "\t")):
                message = f"'{statement[0].strip()[:40]}' stands before the function and is no part of it"
                where = ("executable_knowledge", key, number, "function")
                findings.warning("STATEMENT_BEFORE_FUNCTION", message, *where, fix="Move it into the function")
