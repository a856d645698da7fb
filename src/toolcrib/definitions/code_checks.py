"""What a file alone cannot tell: whether its code can be read, is fast, and whether tools that it names are there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Literal

import msgspec

from toolcrib.definitions.definition import Code, Helper, Language, Processor, ToolDefinition, Validator
from toolcrib.definitions.examples import examples_of
from toolcrib.definitions.executable_code import LocatedCode
from toolcrib.definitions.health import HealthCheck
from toolcrib.definitions.lint import ToolProblems, one_of
from toolcrib.definitions.validators import SLOW_MS, CodeSandboxes, covers, written
from toolcrib.definitions.values import mapping
from toolcrib.sandbox import Sandbox, SandboxError
from toolcrib.sources import SourceReference
from toolcrib.yaml import Path, YamlDocument, YamlProblem, decoded, parse, thaw

TRIES = 3
"""A validator is slow that is slow each time: a busy machine makes any of them slow once."""

MOST_INPUTS, MOST_SLOW = 3, 5
"""How many examples time a validator, and how many slow ones are reported: the check must not take long itself."""

FIX = "Mend the function; until then it does not run, and a validator rejects every call"


async def check_code(definition: ToolDefinition, sandboxes: Mapping[Language, Sandbox]) -> ToolDefinition:
    """Return the definition with every function that does not parse marked as faulty, if there is a sandbox for it."""
    codes = dict.fromkeys(code for code in _codes(definition) if code.fault is None and code.language in sandboxes)
    faults = await asyncio.gather(*(sandboxes[code.language].check(code.text) for code in codes))
    wrong = {code: fault for code, fault in zip(codes, faults, strict=True) if fault is not None}
    if not wrong:
        return definition
    problems = tuple(_problem(code, fault) for code, fault in wrong.items())
    return replace(
        definition,
        validators=tuple(replace(one, code=_marked(one.code, wrong)) for one in definition.validators),
        helpers=tuple(replace(one, code=_marked(one.code, wrong)) for one in definition.helpers),
        processors=tuple(replace(one, code=_marked(one.code, wrong)) for one in definition.processors),
        problems=(*definition.problems, *problems),
        status="invalid" if definition.status == "invalid" else "degraded",
    )


def _codes(definition: ToolDefinition) -> Iterable[Code]:
    parts: tuple[Validator | Helper | Processor, ...]
    parts = (*definition.validators, *definition.helpers, *definition.processors)
    return (part.code for part in parts if part.code is not None)


def _marked(code: Code | None, wrong: Mapping[Code, str]) -> Code | None:
    fault = None if code is None else wrong.get(code)
    return code if code is None or fault is None else replace(code, fault=fault)


def _problem(code: Code, fault: str) -> YamlProblem:
    path, line, column = (code.path, code.line, code.column) if isinstance(code, LocatedCode) else ("", 0, 0)
    return YamlProblem(
        "INVALID_FUNCTION_SYNTAX", "error", f"The function cannot be read: {fault}", path, line, column, FIX
    )


async def check_verdicts(definition: ToolDefinition, sandboxes: CodeSandboxes) -> ToolDefinition:
    """The definition with a warning for each validator whose `valid` is neither true nor false."""
    problems: list[YamlProblem] = []
    for validator in definition.validators:
        code = validator.code
        if not isinstance(code, LocatedCode) or code.fault is not None:
            continue
        for input in _inputs(validator, definition):
            valid = await _valid(code, input, validator.id, sandboxes)
            if not isinstance(valid, bool | None):
                message = f"Validator '{validator.id}' returned {valid!r} as 'valid', which is neither true nor false"
                place = code.path, code.line, code.column
                problems.append(YamlProblem("INVALID_VERDICT", "warning", message, *place, "Return true or false"))
                break
    return replace(definition, problems=(*definition.problems, *problems)) if problems else definition


async def _valid(code: Code, data: bytes, name: str, sandboxes: CodeSandboxes) -> object:
    """What a validator says of `valid`; None where it says nothing."""
    try:
        value = msgspec.json.decode((await sandboxes.run(code, data, name=name, role="validator")).value)
    except (SandboxError, ValueError, RecursionError):
        return None
    return value.get("valid") if isinstance(value, dict) else None


def _inputs(validator: Validator, definition: ToolDefinition) -> list[bytes]:
    """The arguments of the first examples of its commands; without examples none."""
    inputs = [written(thaw(one.input)) for one in examples_of(definition) if covers(validator, one.command)]
    return inputs[:MOST_INPUTS] or [b"{}"]


async def check_speed(definition: ToolDefinition, sandboxes: CodeSandboxes) -> ToolDefinition:
    """Return the definition with a warning for each validator that is slow on the inputs of its examples."""
    problems: list[YamlProblem] = []
    for validator in definition.validators:
        took = 0.0 if len(problems) == MOST_SLOW else await _took(validator, definition, sandboxes)
        if took > SLOW_MS and isinstance(validator.code, LocatedCode):
            message = f"Validator '{validator.id}' took {took:.0f}ms (target: <{SLOW_MS}ms)"
            place = validator.code.path, validator.code.line, validator.code.column
            problems.append(
                YamlProblem("SLOW_VALIDATOR", "warning", message, *place, "Make it do less: every call waits for it")
            )
    return replace(definition, problems=(*definition.problems, *problems)) if problems else definition


async def _took(validator: Validator, definition: ToolDefinition, sandboxes: CodeSandboxes) -> float:
    """The milliseconds that a validator takes, of its first input that is slow."""
    code = validator.code
    if code is None or code.fault is not None:
        return 0.0
    least = 0.0
    for input in _inputs(validator, definition):
        least, left = inf, TRIES
        while least > SLOW_MS and left:
            least, left = (
                min(least, await _timed(replace(code, timeout_ms=None), input, validator.id, sandboxes)),
                left - 1,
            )
        if least > SLOW_MS:
            break
    return least


async def _timed(code: Code, data: bytes, name: str, sandboxes: CodeSandboxes) -> float:
    try:
        return (await sandboxes.run(code, data, name=name, role="validator")).duration_ms
    except SandboxError as fault:
        return fault.duration_ms


def check_members(definition: ToolDefinition, known: Collection[str]) -> ToolDefinition:
    """The definition of a tool of tools with an error for each member that is not among the ids that are known.

    Its file is read again, for the places of the problems.
    """
    ids = {id.lower() for id in known}
    absent = [(path, name) for path, name in _members(definition) if name.partition(".")[0].lower() not in ids]
    if not absent:
        return definition
    findings = _located(definition)
    for path, name in absent:
        message = f"The tool '{name}' is aggregated and does not exist"
        findings.error("DANGLING_REFERENCE", message, *path, fix=one_of(name, sorted(known)))
    return replace(
        definition,
        problems=(*definition.problems, *findings.problems),
        status="invalid" if definition.status == "invalid" else "degraded",
    )


def _members(definition: ToolDefinition) -> Iterator[tuple[Path, str]]:
    if definition.type == "meta":
        for block in ("meta_specific", "meta_config"):
            for key in ("aggregates", "orchestrates"):
                members = mapping(definition.tool.get(block)).get(key)
                for index, name in enumerate(members if isinstance(members, tuple) else ()):
                    if isinstance(name, str):
                        yield (block, key, index), name


def references(definition: ToolDefinition) -> Iterator[SourceReference]:
    """The tool that a file falls back to, and the account that its requests are made with, each with its place."""
    block = HealthCheck(definition)
    places: list[tuple[Literal["tool", "account"], str, Path]] = []
    if block.action == "fallback" and block.fallback:
        health = (
            ("health_check",) if "health_check" in definition.tool else (f"{definition.type}_specific", "health_check")
        )
        places.append(("tool", block.fallback, (*health, "on_failure", "fallback_tool")))
    account = mapping(definition.specific.get("auth")).get("account") if definition.type == "http" else None
    if isinstance(account, str):
        places.append(("account", account, ("http_specific", "auth", "account")))
    if places:
        findings = _located(definition)
        yield from (SourceReference(kind, name, line=findings.place(*path)[1] or None) for kind, name, path in places)


def _located(definition: ToolDefinition) -> ToolProblems:
    """The places of a file, which is read again for that."""
    document = _document(definition)
    base = ("tool",) if isinstance(document.value, Mapping) and "tool" in document.value else ()
    return ToolProblems(YamlDocument(document.root), base)


def _document(definition: ToolDefinition) -> YamlDocument:
    try:
        return YamlDocument(None) if definition.path is None else parse(decoded(definition.path.read_bytes())[0])
    except (OSError, UnicodeDecodeError):
        return YamlDocument(None)
