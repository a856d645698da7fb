"""Data, shaped: arguments before a call, its result after it, the payload of a message, one field of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolcrib.definitions import validators
from toolcrib.definitions.argument_checks import ABSENT, at
from toolcrib.definitions.definition import Processor, ToolDefinition
from toolcrib.definitions.detection import detection
from toolcrib.definitions.validators import CodeSandboxes
from toolcrib.definitions.values import mapping, text, texts
from toolcrib.errors import ToolFailure
from toolcrib.schema import output_check

HELPERS = "helpers."
UNKNOWN = "unknown"


# Processors


@dataclass(frozen=True, slots=True)
class ShapedData:
    """The data of a result, and what went wrong while it was shaped."""

    data: Any
    warnings: tuple[str, ...] = ()


def processors(definition: ToolDefinition, command: str, stage: Literal["before", "after"]) -> list[Processor]:
    """The processors of a command: those that apply to it, in the order of the file, then those that it names."""
    known_command = definition.command(command)
    applied = [each for each in definition.processors if command in each.applies_to or "*" in each.applies_to]
    named = () if known_command is None else known_command.processors
    known = {each.id: each for each in definition.processors}
    chosen = {each.id: each for each in (*applied, *(known[id] for id in named if id in known))}
    return [each for each in chosen.values() if each.stage == stage]


async def before(
    definition: ToolDefinition, command: str, args: Mapping[str, Any], sandboxes: CodeSandboxes
) -> Mapping[str, Any]:
    """The arguments as the processors of a command make them.

    Raises:
        ToolFailure: a processor failed, and so does the call.
    """
    for processor in processors(definition, command, "before"):
        args = await _processed(definition, processor, args, sandboxes)
        if not isinstance(args, Mapping):
            raise ToolFailure("failed", f"Processor '{processor.id}' gave no arguments but another kind of value")
    return args


async def after(definition: ToolDefinition, command: str, data: Any, sandboxes: CodeSandboxes) -> ShapedData:
    """The data of a result as the processors of a command make it; as it was, with a warning, where one fails."""
    shaped = data
    for processor in processors(definition, command, "after"):
        try:
            shaped = await _processed(definition, processor, shaped, sandboxes)
        except ToolFailure as failure:
            return ShapedData(data, (f"The result is raw: {failure.message}",))
    return ShapedData(shaped)


async def _processed(definition: ToolDefinition, processor: Processor, data: Any, sandboxes: CodeSandboxes) -> Any:
    who = f"Processor '{processor.id}'"
    blamed = "invalid_arguments" if processor.stage == "before" else "failed"
    _check(blamed, f"{who}: its input", processor.input_schema, data)
    if processor.steps and (processor.code is None or processor.code.fault is None):
        for step in processor.steps:
            data = await validators.helper(definition, step, data, sandboxes)
    else:
        data = await validators.run(processor.code, data, sandboxes, who, processor.id)
    _check("failed", f"{who}: its output", processor.output_schema, data)
    return data


def _check(code: str, what: str, schema: Mapping[str, Any] | None, data: Any) -> None:
    problem = None if schema is None else output_check(schema)(data)
    if problem is not None:
        raise ToolFailure(code, f"{what} does not fit its schema: {problem}")


# Payloads


def payload(definition: ToolDefinition, data: Any) -> dict[str, Any]:
    """Which of the payloads that the file knows the data holds: `{type, payload}`, the type `unknown` for none."""
    for type, schema in _payload_schemas(mapping(definition.block("api_complexity")).get("payload_schemas")):
        detects = detection(schema)
        if detects is not None and detects(data):
            return {"type": type, "payload": _payload_at(data, schema.get("payload_path", schema.get("path")))}
    return {"type": UNKNOWN, "payload": None}


def _payload_schemas(block: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schemas with their types: `{type, ...}` in a list, or `{<type>: {...}}`."""
    for entry in (block,) if isinstance(block, Mapping) else block if isinstance(block, tuple) else ():
        if isinstance(mapping(entry).get("type"), str):
            yield entry["type"], entry
        else:
            yield from ((type, mapping(schema)) for type, schema in mapping(entry).items())


def _payload_at(data: Any, path: Any) -> Any:
    paths = [each.strip() for alternatives in texts(path) for each in alternatives.split("||")]
    candidates = (at(data, each) for each in paths)
    return next((value for value in candidates if value is not ABSENT and value is not None), None) if paths else data


# Fields


async def extract(definition: ToolDefinition, field: str, data: Any, sandboxes: CodeSandboxes) -> Any:
    """The value of a field, found by the helper that its mapping names.

    Raises:
        ToolFailure: no helper is named for the field, or it failed.
    """
    extractions = dict(_extractions(definition))
    if field not in extractions:
        known = f" Fields with one: {', '.join(extractions)}" if extractions else ""
        raise ToolFailure("not_found", f"Field '{field}' has no extraction.{known}")
    field_mapping = extractions[field]
    args = {
        "data": data,
        "response": data,
        "fieldName": field,
        "fieldType": field_mapping.get("type"),
        "mapping": field_mapping,
    }
    return await validators.helper(definition, field_mapping["extraction"].removeprefix(HELPERS), args, sandboxes)


def _extractions(definition: ToolDefinition) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The mappings that name a helper, those of custom fields first, so that a field of the tool itself counts."""
    api = mapping(definition.block("api_complexity"))
    fields = mapping(api.get("field_mappings"))
    for block in (api.get("custom_fields"), fields.get("custom_fields"), fields):
        for name, field_mapping in mapping(block).items():
            if text(mapping(field_mapping).get("extraction")).startswith(HELPERS):
                yield name, field_mapping
