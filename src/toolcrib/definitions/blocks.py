"""A second look at the blocks of version 2: what they must be, what they refer to, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolcrib.definitions.argument_checks import BadCheck
from toolcrib.definitions.definition import NOTHING, ToolDefinition
from toolcrib.definitions.detection import detector, prose
from toolcrib.definitions.lint import ToolProblems, kind, one_of
from toolcrib.definitions.values import mapping, text
from toolcrib.definitions.version import present
from toolcrib.schema import nearest
from toolcrib.yaml import Path

HELPERS = "helpers."
_API_LISTS = ("api_quirks", "known_limitations")
_ANTI_PATTERN = ("pattern", "description", "wrong", "correct")


def review_blocks(definition: ToolDefinition, findings: ToolProblems) -> None:
    """Everything that is wrong with the blocks of a tool of version 2, its code apart."""
    api = _block(definition, "api_complexity", Mapping, "a mapping", findings)
    _review_api(api or NOTHING, definition, findings)
    for index, entry in enumerate(_block(definition, "anti_patterns", tuple, "a list", findings) or ()):
        _review_anti_pattern(entry, ("anti_patterns", index), findings)
    examples = _block(definition, "examples", Mapping, "a mapping of commands to lists", findings)
    for command, entries in (examples or NOTHING).items():
        _review_examples(command, entries, definition, findings)


def _block(definition: ToolDefinition, name: str, wanted: type, what: str, findings: ToolProblems) -> Any:
    block = definition.tool.get(name)
    if not present(block) or isinstance(block, wanted):
        return block
    return findings.refuse("INVALID_TYPE", f"'{name}' must be {what}, not {kind(block)}", name)


# Complexity of the interface


def _review_api(api: Mapping[str, Any], definition: ToolDefinition, findings: ToolProblems) -> None:
    for name in _API_LISTS:
        if present(api.get(name)) and not isinstance(api[name], tuple):
            message = f"'{name}' must be a list, not {kind(api[name])}"
            findings.error("INVALID_TYPE", message, "api_complexity", name)
    if present(api.get("field_mappings")) and not isinstance(api["field_mappings"], Mapping):
        message = f"'field_mappings' must be a mapping, not {kind(api['field_mappings'])}"
        findings.error("INVALID_TYPE", message, "api_complexity", "field_mappings")
    known = [helper.id for helper in definition.helpers]
    for name in ("field_mappings", "custom_fields"):
        for where, extraction in _extractions(api.get(name), ("api_complexity", name)):
            refer_to_helper(extraction, where, known, findings)
    for where, entry in _payloads(api.get("payload_schemas"), findings):
        _review_detection(entry, where, findings)


def _extractions(block: Any, where: Path) -> Iterator[tuple[Path, str]]:
    for key, inner in mapping(block).items():
        if key == "extraction" and isinstance(inner, str):
            yield (*where, key), inner
        else:
            yield from _extractions(inner, (*where, key))


def refer_to_helper(reference: str, where: Path, known: Iterable[str], findings: ToolProblems) -> None:
    """Report a text that names a helper which does not exist; any other text is prose."""
    id = reference.removeprefix(HELPERS)
    if reference.startswith(HELPERS) and id not in known:
        message = f"'{reference}' names a helper that does not exist"
        findings.error("DANGLING_REFERENCE", message, *where, fix=one_of(id, known))


def _payloads(schemas: Any, findings: ToolProblems) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    where = ("api_complexity", "payload_schemas")
    if not present(schemas):
        return
    if not isinstance(schemas, Mapping | tuple):
        findings.error("INVALID_TYPE", f"'payload_schemas' must be a list, not {kind(schemas)}", *where)
        return
    for key, entry in schemas.items() if isinstance(schemas, Mapping) else enumerate(schemas):
        yield (*where, key), mapping(entry)


def _review_detection(entry: Mapping[str, Any], where: Path, findings: ToolProblems) -> None:
    detect, prosaic = entry.get("detect"), text(entry.get("detection"))
    try:
        if detect:
            detector(detect)
        elif prosaic and prose(prosaic) is None:
            message = f"The detection '{prosaic.strip()}' is prose and detects nothing"
            fix = "Add 'detect', as in 'detect: {exists: event}'"
            findings.info("PROSE_DETECTION", message, *where, "detection", fix=fix)
    except BadCheck as error:
        fix = "Write {exists: <path>}, {path: <path>, equals|matches|type: ...}, {all|any: [..]} or {not: ..}"
        findings.error("INVALID_TYPE", str(error), *where, "detect", fix=fix)


# Anti-patterns


def _review_anti_pattern(entry: Any, where: Path, findings: ToolProblems) -> None:
    if not isinstance(entry, Mapping):
        findings.error("INVALID_TYPE", f"An anti-pattern must be a mapping, not {kind(entry)}", *where)
        return
    for name in _ANTI_PATTERN:
        if entry.get(name) in (None, ""):
            message = f"Anti-pattern missing required field: {name}"
            findings.error("MISSING_REQUIRED_FIELD", message, *where, name, fix=f"Add '{name}'")


# Examples


def is_steps(entries: Iterable[Any]) -> bool:
    """True if examples are the steps of one course of action."""
    return any("step" in mapping(entry) for entry in entries)


def _review_examples(command: str, entries: Any, definition: ToolDefinition, findings: ToolProblems) -> None:
    where = ("examples", command)
    if not isinstance(entries, tuple):
        findings.error("INVALID_TYPE", f"The examples of '{command}' must be a list, not {kind(entries)}", *where)
        return
    commands = [one.name for one in definition.commands if one.listed]
    if command not in commands and (close := nearest(command, commands, 1)):
        message = f"There is no command '{command}' that these could be examples of"
        findings.warning("DANGLING_REFERENCE", message, *where, fix=f"Write '{close[0]}'")
    known = [validator.id for validator in definition.validators]
    fitting = [validator.id for validator in definition.validators if command in validator.validates]
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            findings.error("INVALID_TYPE", f"An example must be a mapping, not {kind(entry)}", *where, index)
        validator = mapping(mapping(entry).get("error")).get("validator")
        if isinstance(validator, str) and validator not in known:
            message = f"The example names the validator '{validator}', which does not exist"
            place = (*where, index, "error", "validator")
            findings.warning("DANGLING_REFERENCE", message, *place, fix=one_of(validator, fitting or known))
    if not is_steps(entries):
        _review_scenarios(command, entries, findings)


def _review_scenarios(command: str, entries: tuple[Any, ...], findings: ToolProblems) -> None:
    scenarios = [text(mapping(entry).get("scenario")) for entry in entries]
    success = "success" in scenarios
    failure = any(scenario.startswith("failure_") for scenario in scenarios)
    missing = [name for name, there in (("success", success), ("failure_*", failure)) if not there]
    if missing:
        message = f"The examples of '{command}' have no scenario {' and no scenario '.join(missing)}"
        fix = "Add an example with 'scenario: " + ("success'" if not success else "failure_invalid_param'")
        findings.warning("MISSING_SCENARIO", message, "examples", command, fix=fix)
