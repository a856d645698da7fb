"""What the validators of a command say of its arguments, as one verdict; and what a helper gives.

Every validator of the command runs; findings are in the order of the file. One that cannot judge rejects:
its fault is an error like any other, but where faults are all there is the arguments are not to blame, and the failure
says so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from toolcrib.definitions import knowledge
from toolcrib.definitions.argument_checks import ArgumentFinding, Weight, failed
from toolcrib.definitions.definition import Code, Language, ToolDefinition, Validator
from toolcrib.definitions.values import text
from toolcrib.errors import ToolFailure
from toolcrib.extras import install
from toolcrib.sandbox import FaultCode, Role, Sandbox, SandboxError, SandboxResult
from toolcrib.schema import BadArguments
from toolcrib.yaml import thaw

trace = logging.getLogger("toolcrib.trace")

UNCHECKED = "No validator configured - passed by default"
TIMEOUT_MS: dict[Role, int] = {"validator": 500, "helper": 1000}
MEMORY_MB = 8
SLOW_MS = 50
LINES = 10
NOES = ("false", "no", "invalid", "off", "0", "null", "none")
"""Texts that JavaScript takes for true and nobody else does."""

_NAME = re.compile(r"[^\W\d][\w$-]*(?:\.[\w$-]+|\[\d+\])*")
_TELLING = re.compile(r" is required| must | missing ")
_REQUIRED = re.compile(r"is required|missing required|is missing", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CODES = {"missing": "required", "value": "invalid"}
_REASONS: dict[FaultCode, str] = {
    "bad_return": "its value cannot be written as JSON",
    "too_large": "too much data goes in or comes out",
    "crashed": "the sandbox died",
    "denied": "it is not allowed to run",
    "busy": "no sandbox was free in time",
}


@dataclass(frozen=True, slots=True)
class ValidationVerdict:
    """All findings of one call; `notes` are for people: what was slow, or that nothing was checked."""

    findings: tuple[ArgumentFinding, ...] = ()
    notes: tuple[str, ...] = ()
    duration_ms: float = 0.0

    @property
    def errors(self) -> tuple[ArgumentFinding, ...]:
        """The findings for which the call is rejected."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def valid(self) -> bool:
        """True if the call may go on."""
        return not self.errors


@dataclass(frozen=True, slots=True)
class CodeSandboxes:
    """Where the code of files runs, by its language, and the most that a file may ask for."""

    languages: Mapping[Language, Sandbox]
    timeout_ms: int = 5000
    memory_mb: int = 64

    def limits(self, code: Code, role: Role) -> tuple[int, int]:
        """The milliseconds and megabytes that the code gets."""
        timeout_ms, memory_mb = code.timeout_ms or TIMEOUT_MS[role], code.memory_mb or MEMORY_MB
        return min(timeout_ms, self.timeout_ms), min(memory_mb, self.memory_mb)

    async def run(self, code: Code, args: bytes, *, name: str, role: Role) -> SandboxResult:
        """Runs code on arguments in JSON; what it prints goes to the trace.

        Raises:
            Fault: it gave no value.
        """
        sandbox = self.languages.get(code.language)
        if code.fault is not None:
            raise SandboxError("syntax", code.fault)
        if sandbox is None:
            raise SandboxError("denied", f"there is no sandbox for {code.language}: {install('sandbox')}")
        timeout_ms, memory_mb = self.limits(code, role)
        printed = ""
        try:
            ran = await sandbox.run(
                code.text,
                args,
                name=name,
                role=role,
                timeout_s=timeout_ms / 1000,
                memory_bytes=memory_mb * 1024 * 1024,
            )
            printed = ran.printed
        except SandboxError as fault:
            printed = fault.printed
            raise
        finally:
            if printed:
                trace.info("%s '%s' printed: %s", role, name, printed)
        return ran


# Validators


async def validate(
    definition: ToolDefinition, command: str, args: Mapping[str, Any] | None, sandboxes: CodeSandboxes
) -> ValidationVerdict:
    """Validate the arguments with all validators of a command."""
    validators = [validator for validator in definition.validators if covers(validator, command)]
    if not validators:
        return ValidationVerdict(notes=(UNCHECKED,))
    arguments = args or {}
    encoded = written(arguments)
    verdicts = await asyncio.gather(*(_judge(each, command, arguments, encoded, sandboxes) for each in validators))
    return ValidationVerdict(
        _each_once(finding for verdict in verdicts for finding in verdict.findings),
        tuple(note for verdict in verdicts for note in verdict.notes),
        sum(verdict.duration_ms for verdict in verdicts),
    )


async def validate_many(
    calls: Iterable[tuple[ToolDefinition, str, Mapping[str, Any] | None]], sandboxes: CodeSandboxes
) -> list[ValidationVerdict]:
    """The verdicts of many calls, judged at the same time, in their order."""
    return list(await asyncio.gather(*(validate(*call, sandboxes) for call in calls)))


def covers(validator: Validator, command: str) -> bool:
    """True if the validator is one of that command."""
    return command in validator.validates or "*" in validator.validates


async def _judge(
    validator: Validator, command: str, args: Mapping[str, Any], data: bytes, sandboxes: CodeSandboxes
) -> ValidationVerdict:
    code = validator.code
    checked = failed(validator.checks, args, labels="error" if code is None else "warning")
    duration_ms = 0.0
    if code is None:
        findings = [] if validator.checks else [_fault(SandboxError("no_function"), command)]
    else:
        try:
            ran = await sandboxes.run(code, data, name=validator.id, role="validator")
            duration_ms = ran.duration_ms
            findings = verdict_of(_value(ran), validator.id, command, args)
        except SandboxError as fault:
            duration_ms = fault.duration_ms
            findings = [_fault(fault, command, sandboxes.limits(code, "validator"))]
        checked = beside(checked, findings, enforce=validator.enforce)
    notes: tuple[str, ...] = ()
    if duration_ms > SLOW_MS:
        note = f"Validator '{command}' took {duration_ms:.0f}ms (target: <{SLOW_MS}ms). Consider optimization."
        trace.info("%s", note)
        notes = (note,)
    return ValidationVerdict(
        tuple(replace(each, source=validator.id) for each in (*checked, *findings)), notes, duration_ms
    )


def beside(
    checked: Iterable[ArgumentFinding], findings: Iterable[ArgumentFinding], *, enforce: bool
) -> list[ArgumentFinding]:
    """Return the failed checks that count beside a function; they are warnings unless they are enforced."""
    heard = [finding for finding in findings if not enforce or finding.severity == "error"]
    left = [each for each in checked if not any(each.names(finding.path) for finding in heard if finding.path)]
    return left if enforce else [replace(each, severity="warning") for each in left]


def verdict_of(value: Any, id: str, command: str, args: Mapping[str, Any]) -> list[ArgumentFinding]:
    """Return the findings in the return value of a validator."""
    returned = value if isinstance(value, Mapping) else {}
    if "valid" not in returned and returned.get("errors") is None:
        message = f"Validator '{command}' returned invalid format. Expected {{valid: boolean, errors: array}}."
        return [ArgumentFinding("", "bad_return", message, fault=True)]
    if isinstance(returned.get("valid"), str) and returned["valid"].strip().lower() in NOES:
        shown = written(returned["valid"]).decode()[:40]
        message = f"Validator '{command}' returned {shown} as 'valid', which is neither true nor false."
        return [ArgumentFinding("", "bad_return", message, fault=True)]
    errors = list(_items(returned.get("errors"), args, "error"))
    warnings = [replace(each, severity="warning") for each in _items(returned.get("warnings"), args, "warning")]
    if "valid" not in returned:
        return [*errors, *warnings]
    if returned["valid"] not in (None, False, 0, ""):
        return [*(replace(each, severity="warning") for each in errors), *warnings]
    if not any(each.severity == "error" for each in errors):
        errors.append(ArgumentFinding("", "invalid", f"Validator '{id}' rejected the arguments without saying why"))
    return [*errors, *warnings]


def _items(value: Any, args: Mapping[str, Any], severity: Weight) -> Iterator[ArgumentFinding]:
    """Yield findings from any of their forms: a list, a text, or a mapping of fields."""
    alone = isinstance(value, Mapping) and not ("message" in value and ("field" in value or "path" in value))
    for item in value if isinstance(value, list) else (value,):
        if isinstance(item, Mapping) and (alone or "message" not in item):
            for field, entries in item.items():
                for each in entries if isinstance(entries, list) else (entries,):
                    yield from _item(each, args, severity, field)
        else:
            yield from _item(item, args, severity)


def _item(value: Any, args: Mapping[str, Any], severity: Weight, field: str | None = None) -> Iterator[ArgumentFinding]:
    entry = value if isinstance(value, Mapping) and value.get("message") is not None else {"message": value}
    if entry["message"] is None:
        return
    message = entry["message"] if isinstance(entry["message"], str) else written(entry["message"]).decode()
    path = next((entry[name] for name in ("path", "field") if isinstance(entry.get(name), str)), field)
    yield ArgumentFinding(
        _path(message, args) if path is None else path,
        text(entry.get("code")) or ("required" if _REQUIRED.search(message) else "invalid"),
        message,
        "warning" if entry.get("severity") == "warning" else severity,
    )


def _path(message: str, args: Mapping[str, Any]) -> str:
    """Return the field that a message begins with, if it is an argument or the message is about it."""
    name = _NAME.match(message)
    if name is None:
        return ""
    root = re.split(r"[.\[]", name[0], maxsplit=1)[0]
    return name[0] if root in args or _TELLING.match(message, name.end()) else ""


def _each_once(findings: Iterable[ArgumentFinding]) -> tuple[ArgumentFinding, ...]:
    unique: dict[tuple[str, ...], ArgumentFinding] = {}
    for each in findings:
        unique.setdefault((each.path, each.code, each.message, each.severity), each)
    return tuple(unique.values())


def _fault(fault: SandboxError, command: str, limits: tuple[int, int] = (0, 0)) -> ArgumentFinding:
    match fault.code:
        case "timeout":
            message = f"Validator '{command}' exceeded {limits[0]}ms timeout. Validation failed for safety."
        case "memory":
            message = f"Validator '{command}' exceeded {limits[1]}MB memory limit."
        case "no_function":
            message = f"Validator for '{command}' has no function defined"
        case _:
            message = f"Validation error in '{command}': {_reason(fault)}"
    return ArgumentFinding("", fault.code, message, fault=True)


def _reason(fault: SandboxError) -> str:
    return fault.message or _REASONS.get(fault.code, fault.code)


# Failures


def refusal(definition: ToolDefinition, command: str, verdict: ValidationVerdict) -> ToolFailure:
    """The failure of a call that its validators reject."""
    errors = verdict.errors
    faulty = all(each.fault for each in errors)
    code = "unavailable" if faulty else "invalid_arguments"
    message = "\n".join(map(str, errors[:LINES]))
    return ToolFailure(
        code,
        message,
        retryable=all(each.code in ("timeout", "busy") for each in errors) if faulty else None,
        hint=knowledge.hint(definition, command, code, message, errors[:LINES]),
        metadata={"findings": [each.data() for each in verdict.findings]},
    )


def schema_findings(error: BadArguments) -> tuple[ArgumentFinding, ...]:
    """What the schema of a command finds, in the form of findings, for a hint."""
    return tuple(
        ArgumentFinding(problem.path, _CODES.get(problem.kind, problem.kind), problem.text, source="schema")
        for problem in error.problems
    )


# Helpers


async def helper(definition: ToolDefinition, id: str, args: Any, sandboxes: CodeSandboxes) -> Any:
    """Run a helper and return its value.

    Raises:
        ToolFailure: there is no such helper, or it gave nothing; `metadata["fault"]` says how it failed.
    """
    match = definition.helper(id)
    if match is None:
        known = ", ".join(each.id for each in definition.helpers)
        raise ToolFailure("not_found", f"Helper '{id}' not found. Available helpers: {known}")
    return await run(match.code, args, sandboxes, f"Helper '{id}'", id)


async def run(code: Code | None, args: Any, sandboxes: CodeSandboxes, who: str, name: str) -> Any:
    """What a function that is no validator gives; `who` speaks in its failures.

    Raises:
        ToolFailure: it gave nothing.
    """
    try:
        if code is None:
            raise SandboxError("no_function")
        ran = await sandboxes.run(code, b"{}" if args is None else written(args), name=name, role="helper")
        return _value(ran)
    except SandboxError as fault:
        limits = (0, 0) if code is None else sandboxes.limits(code, "helper")
        message = _failed(fault, who, limits)
        failure = {"timeout": "timeout", "busy": "unavailable", "crashed": "unavailable"}.get(fault.code, "failed")
        raise ToolFailure(failure, message, metadata={"fault": fault.code}) from None


def _failed(fault: SandboxError, who: str, limits: tuple[int, int]) -> str:
    noun = who.split()[0].lower()
    match fault.code:
        case "timeout":
            return f"{who} exceeded {limits[0] / 1000:g}s timeout. Consider optimizing the {noun} function."
        case "memory":
            return f"{who} exceeded {limits[1]}MB memory limit. Consider reducing data processing."
        case "no_function":
            return f"{who} has no function defined"
        case _:
            return f"{who} execution failed: {_reason(fault)}"


def _value(ran: SandboxResult) -> Any:
    try:
        return msgspec.json.decode(ran.value)
    except (ValueError, RecursionError) as error:
        raise SandboxError("bad_return", str(error), ran.printed, ran.duration_ms) from None


def written(value: Any) -> bytes:
    """A value as JSON; half surrogates become U+FFFD, and what JSON has no word for becomes null."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (UnicodeEncodeError, OverflowError):
        text = json.dumps(thaw(value), ensure_ascii=False)
        return _SURROGATE.sub("\ufffd", text).encode()


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else None
