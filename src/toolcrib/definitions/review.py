"""A second look at a whole tool: parts that do not fit together, and things that will surprise somebody."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.definitions.blocks import refer_to_helper, review_blocks
from toolcrib.definitions.check_review import review_checks
from toolcrib.definitions.commands import EFFECTS, split
from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.executable_code import count
from toolcrib.definitions.key_review import review_keys, review_schemas
from toolcrib.definitions.lint import ToolProblems, kind, one_of
from toolcrib.definitions.origin_labels import review_origins
from toolcrib.definitions.reference_review import review_references
from toolcrib.definitions.runners import BadTemplate, protocol, runner
from toolcrib.definitions.values import mapping, text, texts
from toolcrib.definitions.version import BLOCKS, present
from toolcrib.policy import UnfitArgument, urls
from toolcrib.yaml import Path, YamlNode

EXPOSE = ("all", "listed")
TRANSPORTS = ("stdio", "http", "sse", "websocket", "streamable-http", "streamable_http", "ws")
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
# All of them end: a file may be made to be slow.
_SECRET = re.compile(
    r"\b(?:sk-(?=[A-Za-z_-]{0,40}\d)[\w-]{20}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22}|xox[abprs]-[\w-]{10}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{35}|glpat-[\w-]{20}|npm_[A-Za-z0-9]{36}|pk_\d{1,20}_[A-Z0-9]{20}"
    r"|eyJ[\w-]{10,200}\.eyJ[\w-]{10})|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----",
    re.ASCII,
)
_SECRET_KEY = re.compile(r"(?:^|[_-])(?:api_?key|token|secret|password|passwd|authorization)$", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"(?:(?:Bearer|Basic|Token)\s+)?(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[^\s{}$<>]{16,}")


def review(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Everything that is wrong with a tool beyond its core fields, its code and its commands."""
    _review_identity(definition, findings)
    if definition.schema_version == 2:
        review_blocks(definition, findings)
    elif definition.reason == "explicit" and (there := _of_version_2(definition.tool)):
        message = f"The file says schema_version 1.0 and has blocks of version 2, which do not act: {', '.join(there)}"
        findings.warning("VERSION_CONFLICT", message, "schema_version", fix="Write 'schema_version: 2.0'")
    _review_own_keys(definition, findings)
    _review_running(definition, findings)
    if definition.type == "mcp":
        _review_server(definition, findings)
    if definition.type == "meta":
        _review_orchestration(definition, findings)
    review_keys(definition, findings)
    review_schemas(definition, findings)
    review_references(definition, findings)
    review_checks(definition, findings)
    review_origins(definition, findings)
    _review_secrets(findings)


def _of_version_2(tool: Mapping[str, Any]) -> list[str]:
    """The blocks that only version 2 has; examples of success alone are for people in either version."""
    there = [name for name in BLOCKS if present(tool.get(name))]
    return [*there, "examples"] if _tells_failures(tool.get("examples")) else there


def _tells_failures(value: Any) -> bool:
    if isinstance(value, Mapping):
        scenario = value.get("scenario")
        return (isinstance(scenario, str) and scenario != "success") or any(map(_tells_failures, value.values()))
    return isinstance(value, tuple) and any(map(_tells_failures, value))


def _review_identity(definition: ToolDefinition, findings: ToolProblems) -> None:
    whole = findings.at()
    for key in definition.extra:
        message = f"The key '{key}' stands beside 'tool' and is knowledge only"
        whole.warning("EXTRA_ROOT_KEY", message, key, fix=f"Move '{key}' under 'tool' if it is to act")
    id, path = text(definition.tool.get("id")), definition.path
    if id and not _KEBAB.fullmatch(id):
        better = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", id).lower()).strip("-")
        message = f"The id '{id}' is not in kebab-case"
        findings.warning("NAMING_CONVENTION", message, "id", fix=f"Write 'id: {better or 'my-tool'}'")
    if id and path is not None and path.stem != id:
        message = f"The file is called '{path.name}', its tool '{id}'"
        findings.warning("ID_MISMATCH", message, "id", fix=f"Rename the file to '{id}{path.suffix}'")


def _review_running(definition: ToolDefinition, findings: ToolProblems) -> None:
    """The blocks that say how the tool's type runs."""
    for block in (f"{definition.type}_specific", f"{definition.type}_config"):
        settings = definition.tool.get(block)
        if present(settings) and not isinstance(settings, Mapping):
            findings.error("INVALID_TYPE", f"'{block}' must be a mapping, not {kind(settings)}", block)
        executable = mapping(settings).get("executable")
        if definition.type == "cli" and present(executable):
            _review_executable(executable, (block, "executable"), findings)


def _review_executable(value: Any, where: Path, findings: ToolProblems) -> None:
    from toolcrib.definitions.runners import cli

    try:
        cli.program(value)
    except BadTemplate as error:
        fix = f"Write '{value.split()[0]}'" if isinstance(value, str) and value.split() else None
        findings.error("INVALID_TEMPLATE", str(error), *where, fix=fix)


def without_unsound(definition: ToolDefinition, findings: ToolProblems) -> ToolDefinition:
    """Return the definition with every command marked as broken whose template is invalid."""
    reported = {(problem.message, problem.path) for problem in findings.problems}
    commands = []
    for command in definition.commands:
        error = _unsound(command, definition)
        if error is None:
            commands.append(command)
            continue
        commands.append(replace(command, broken=str(error)))
        where = _place_of(error.path, command, definition)
        problem_key = str(error), findings.place(*where)[0]
        if problem_key not in reported:  # what all commands share is reported once
            reported.add(problem_key)
            findings.error("INVALID_TEMPLATE", str(error), *where)
    return replace(definition, commands=tuple(commands))


def _unsound(command: Command, definition: ToolDefinition) -> BadTemplate | None:
    if command.broken is not None or (definition.type == "local" and definition.path is None):
        return None
    try:
        runner(definition, command, protocol.RunnerSettings())
    except BadTemplate as error:
        return error
    return None


def _place_of(part: str, command: Command, definition: ToolDefinition) -> Path:
    """Return the place of an invalid part: in a block of the type, else in its command."""
    key = re.split(r"[.\[]", part, maxsplit=1)[0]
    for block in (f"{definition.type}_specific", f"{definition.type}_config"):
        if key in mapping(definition.tool.get(block)):
            return (block, key)
    return (*command.where, key) if key in command.fields else command.where


def _review_own_keys(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Keys of ours at the top of a tool."""
    tool = definition.tool
    for key, known in (("expose", EXPOSE), ("effect", EFFECTS)):
        value = tool.get(key)
        if value is not None and value not in known:
            message = f"Invalid {key} '{findings.written(key)}'. Must be one of: {', '.join(known)}"
            findings.error("INVALID_ENUM_VALUE", message, key, fix=one_of(value, known))
    count(tool, "timeout_ms", (), findings)
    helpers = [helper.id for helper in definition.helpers]
    for id in texts(tool.get("expose_helpers")):
        if id not in helpers and definition.schema_version == 2:
            message = f"'expose_helpers' names the helper '{id}', which does not exist"
            findings.error("DANGLING_REFERENCE", message, "expose_helpers", fix=one_of(id, helpers))


# Servers


def _review_server(definition: ToolDefinition, findings: ToolProblems) -> None:
    specific = definition.specific
    command = text(specific.get("server_command")).strip()
    block = next(
        (name for name in ("mcp_specific", "mcp_config") if "server_command" in mapping(definition.tool.get(name))), ""
    )
    transports = {*TRANSPORTS, text(specific.get("transport")).lower()}
    if command and command.lower() in transports:
        message = f"The server_command '{command}' only repeats a transport and starts nothing"
        if _ADDRESS.match(text(mapping(specific.get("connection")).get("url"))):
            findings.warning(
                "PLACEHOLDER_COMMAND", message, block, "server_command", fix="Remove it: the address is enough"
            )
        else:
            fix = "Write the program that starts the server, or its address at 'connection.url'"
            findings.error("PLACEHOLDER_COMMAND", message, block, "server_command", fix=fix)
    _review_address(definition, command, findings)
    package = _package(command, texts(specific.get("server_args")))
    if package is not None and not _pinned(package):
        name = package if package.rfind("@") < 1 else package[: package.rfind("@")]
        message = f"The package '{package}' has no version: npx runs whatever is the newest"
        findings.warning("UNPINNED_PACKAGE", message, block, "server_command", fix=f"Write '{name}@<version>'")


def _review_address(definition: ToolDefinition, command: str, findings: ToolProblems) -> None:
    for block in ("mcp_specific", "mcp_config"):
        settings = mapping(definition.tool.get(block))
        where: Path = (block, "connection", "url")
        url = text(mapping(settings.get("connection")).get("url"))
        if not url and _ADDRESS.match(command):
            url, where = text(settings.get("server_command")), (block, "server_command")
        try:
            urls.canonical(url.strip() or "https://localhost")
        except UnfitArgument as problem:
            findings.error("INVALID_TEMPLATE", f"'{url}' is no address of a server: {problem}", *where)


def _pinned(package: str) -> bool:
    """True if a package is always the same one: it has a version, or is no name in a registry."""
    name, _, version = package.rpartition("@")
    if name:
        return any(map(str.isdecimal, version))
    return package.startswith((".", "/")) or ":" in package


def _package(command: str, more: tuple[str, ...]) -> str | None:
    """The package that npx would fetch."""
    words = [*split(command), *more]
    if not words or re.split(r"[/\\]", words[0])[-1].lower() not in ("npx", "npx.cmd"):
        return None
    taken = iter(words[1:])
    for word in taken:
        if word in ("-p", "--package"):
            return next(taken, None)
        if word.startswith("--package="):
            return word.removeprefix("--package=")
        if not word.startswith("-"):
            return word
    return None


# Tools of tools


def _review_orchestration(definition: ToolDefinition, findings: ToolProblems) -> None:
    helpers = [helper.id for helper in definition.helpers]
    for block in ("meta_specific", "meta_config"):
        settings = mapping(definition.tool.get(block))
        orchestration = settings.get("orchestration")
        if isinstance(orchestration, str):
            refer_to_helper(orchestration, (block, "orchestration"), helpers, findings)
        members = (*texts(settings.get("aggregates")), *texts(settings.get("orchestrates")))
        steps = settings.get("workflow")
        for index, step in enumerate(steps if isinstance(steps, tuple) else ()):
            tool = text(mapping(step).get("tool"))
            if members and tool and tool not in members:
                message = f"The step calls '{tool}', which is not among the tools that this one aggregates"
                where = (block, "workflow", index, "tool")
                findings.error("DANGLING_REFERENCE", message, *where, fix=one_of(tool, members))


# Secrets


def _review_secrets(findings: ToolProblems) -> None:
    whole = findings.at()
    if findings.document.root is not None:
        for path in _secrets(findings.document.root, ()):
            message = "This looks like a secret; everybody who has the file has it too"
            whole.warning("SECRET_IN_FILE", message, *path, fix="Name a variable of the environment instead")


def _secrets(node: YamlNode, path: Path) -> Iterator[Path]:
    if isinstance(node.value, str):
        key = path[-1] if path else ""
        named = isinstance(key, str) and _SECRET_KEY.search(key) and _SECRET_VALUE.fullmatch(node.value)
        if named or _SECRET.search(node.value):
            yield path
    for step, inner in node.children.items():
        yield from _secrets(inner, (*path, step))
