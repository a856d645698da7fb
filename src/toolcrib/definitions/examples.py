"""The examples of a file as its tests, and recorded cases replayed."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.definitions.argument_checks import same
from toolcrib.definitions.blocks import is_steps
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.reader import read
from toolcrib.definitions.runners import BadTemplate, protocol, runner
from toolcrib.definitions.validators import CodeSandboxes, ValidationVerdict, covers, helper, validate, written
from toolcrib.definitions.values import mapping, text
from toolcrib.errors import ToolFailure
from toolcrib.yaml import thaw

REJECTED = ("VALIDATION_ERROR", "FORMAT_ERROR")


@dataclass(frozen=True, slots=True)
class CommandExample:
    """One use of a command: what goes in, and whether a validator must reject it with `message`."""

    command: str
    scenario: str
    input: Mapping[str, Any]
    rejected: bool
    message: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FailedExample:
    """An example, or a case, that did not go as it says."""

    command: str
    scenario: str
    reason: str

    def data(self) -> dict[str, str]:
        """It as JSON data."""
        return {"command": self.command, "scenario": self.scenario, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class ExampleReport:
    """How the tests of a file went; `untouched` are the validators that no example touches, `slow` what took long."""

    id: str
    passed: int = 0
    failed: tuple[FailedExample, ...] = ()
    unchecked: int = 0
    untouched: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """It as JSON data."""
        return {
            "id": self.id,
            "passed": self.passed,
            "failed": [each.data() for each in self.failed],
            "unchecked": self.unchecked,
            "untouched": list(self.untouched),
            "slow": list(self.slow),
        }


Run = Callable[[CommandExample], Awaitable[str | None]]
"""Runs an example whose arguments were accepted; what went wrong, or None."""


def examples_of(definition: ToolDefinition) -> Iterator[CommandExample]:
    """All examples of a file, in order; each step of a course of action is one."""
    for name, block in mapping(definition.block("examples")).items():
        entries = block if isinstance(block, tuple) else (block,)
        steps = is_steps(entries)
        for number, entry in enumerate(entries, 1):
            if isinstance(entry, Mapping):
                yield _example(name, number, entry, step=steps)


def _example(name: str, number: int, entry: Mapping[str, Any], *, step: bool) -> CommandExample:
    error = mapping(entry.get("error"))
    code = error.get("code")
    rejected = not step and (code in REJECTED or (code is None and "validator" in error))
    if step:
        name = text(entry.get("command")) or text(entry.get("action")) or name
    scenario = f"step {entry.get('step', number)}" if step else text(entry.get("scenario")) or f"example {number}"
    return CommandExample(name, scenario, mapping(entry.get("input")), rejected, text(error.get("message")), entry)


async def try_examples(definition: ToolDefinition, sandboxes: CodeSandboxes, run: Run | None = None) -> ExampleReport:
    """Puts every example of a file to its validators; those that they accept, or that have none, then to `run`."""
    passed, unchecked = 0, 0
    failed: list[FailedExample] = []
    slow: list[str] = []
    touched: set[str] = set()
    for example in examples_of(definition):
        checked = {each.id for each in definition.validators if covers(each, example.command)}
        touched |= checked
        verdict = await validate(definition, example.command, thaw(example.input), sandboxes)
        slow.extend(verdict.notes if checked else ())
        reason = _reason(example, verdict) if checked else None
        if reason is None and not example.rejected:
            reason = _unfilled(definition, example)
        if reason is None and run is not None and not example.rejected:
            reason = await run(example)
        if reason is not None:
            failed.append(FailedExample(example.command, example.scenario, reason))
        elif checked:
            passed += 1
        else:
            unchecked += 1
    untouched = tuple(each.id for each in definition.validators if each.id not in touched)
    return ExampleReport(definition.id, passed, tuple(failed), unchecked, untouched, tuple(dict.fromkeys(slow)))


def _unfilled(definition: ToolDefinition, example: CommandExample) -> str | None:
    """Why the templates of the command cannot be filled with the arguments of an example."""
    command = definition.command(example.command)
    if command is None or command.broken is not None or definition.type not in ("cli", "http"):
        return None
    try:
        made = runner(definition, command, protocol.RunnerSettings())
        if made is not None and made.render is not None:
            made.render(thaw(example.input))
    except (BadTemplate, ToolFailure) as error:
        return f"its templates cannot be filled: {error}"
    return None


def _reason(example: CommandExample, verdict: ValidationVerdict) -> str | None:
    """Why the verdict is not the one that the example tells of."""
    messages = "; ".join(map(str, verdict.errors))
    if not example.rejected:
        return f"rejected: {messages}" if verdict.errors else None
    if not verdict.errors:
        return f"accepted, but it must be rejected: {example.message}"
    if any(example.message in each.message for each in verdict.errors if example.message or not each.fault):
        return None
    return f"rejected by another message than '{example.message}': {messages}"


# Recorded cases


async def replay(
    cases: Iterable[Mapping[str, Any]],
    find: Callable[[str], ToolDefinition | None],
    sandboxes: CodeSandboxes,
    *,
    soft_checks: bool = False,
) -> ExampleReport:
    """Replays recorded calls of validators and helpers; `find` gives the definition of a tool that a case names.

    A case has `kind` (validator or helper), `command` or `helper`, `args`, what is expected of it, and a `tool` or the
    `definition` of what it calls, which is read with `soft_checks` if those are wanted. Cases of other kinds are
    counted as unchecked.
    """
    passed, unchecked = 0, 0
    failed: list[FailedExample] = []
    for number, case in enumerate(cases, 1):
        name = str(case.get("command") or case.get("helper") or "")
        if case.get("kind") not in ("validator", "helper"):
            unchecked += 1
            continue
        definition = find(case["tool"]) if "tool" in case else _definition(case, soft_checks)
        reason = f"no tool '{case.get('tool')}'"
        if definition is not None:
            reasons = [await _replayed(case, definition, sandboxes) for _ in range(case.get("repeat", 1))]
            reason = next((each for each in reasons if each is not None), "")
        if reason:
            failed.append(FailedExample(name, str(case.get("about") or case.get("from") or f"case {number}"), reason))
        else:
            passed += 1
    return ExampleReport("", passed, tuple(failed), unchecked)


def _definition(case: Mapping[str, Any], soft_checks: bool) -> ToolDefinition:
    """A tool that has nothing but what the case calls."""
    parts = case.get("definitions") or [case.get("definition") or {}]
    core = {"id": "case", "type": "local", "name": "Case", "version": "1.0.0", "description": "A recorded case"}
    tool = {**core, "executable_knowledge": {f"{case['kind']}s": parts}}
    return read(written({"tool": tool}), soft_checks=soft_checks)


async def _replayed(case: Mapping[str, Any], definition: ToolDefinition, sandboxes: CodeSandboxes) -> str | None:
    began = time.monotonic()
    if case["kind"] == "validator":
        verdict = await validate(definition, str(case.get("command")), case.get("args"), sandboxes)
        reason = _of_verdict(case, verdict)
    else:
        reason = await _of_helper(case, definition, sandboxes)
    took = time.monotonic() - began
    return f"took {took:.1f} s" if reason is None and took > case.get("max_s", took) else reason


def _expected(case: Mapping[str, Any], name: str) -> Any:
    return case.get(f"toolcrib_{name}", case.get(name))


def _of_verdict(case: Mapping[str, Any], verdict: ValidationVerdict) -> str | None:
    findings = [{**each.data(), "field": each.path} for each in verdict.findings]
    expected = mapping(_expected(case, "expect"))
    if "valid" in expected and expected["valid"] is not verdict.valid:
        return f"valid is {verdict.valid}, not {expected['valid']}: {findings}"
    errors = [each for each in findings if each["severity"] == "error"]
    if "errors" in expected and not _tell(errors, expected["errors"], case.get("match")):
        return f"the errors are {errors}, not {expected['errors']}"
    lacking = [
        each for each in case.get("expect_findings", ()) if not any(_holds(finding, each) for finding in findings)
    ]
    if lacking:
        return f"{lacking} is not among {findings}"
    codes = case.get("expect_code")
    return (
        f"no code of {codes} among {findings}"
        if codes and not any(each["code"] in codes for each in findings)
        else None
    )


def _tell(errors: Sequence[Mapping[str, Any]], expected: Sequence[Any], match: Any) -> bool:
    return len(errors) == len(expected) and all(
        _like(error["message"], each, match) if isinstance(each, str) else _holds(error, each)
        for error, each in zip(errors, expected, strict=True)
    )


def _like(actual: str, expected: str, match: Any) -> bool:
    return actual.startswith(expected) if match == "prefix" else actual == expected


def _holds(data: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    return all(data.get(key) == value for key, value in expected.items())


async def _of_helper(case: Mapping[str, Any], definition: ToolDefinition, sandboxes: CodeSandboxes) -> str | None:
    value, fault, message = None, None, None
    try:
        value = await helper(definition, str(case.get("helper")), case.get("args"), sandboxes)
    except ToolFailure as failure:
        fault, message = failure.metadata.get("fault", failure.code), failure.message
    outcome = f"it gave {value!r}" if message is None else f"it failed ({fault}): {message}"
    return None if _meets(case, value, fault, message) else outcome


def _meets(case: Mapping[str, Any], value: Any, fault: str | None, message: str | None) -> bool:
    error = _expected(case, "expect_error")
    if error is not None:
        return message is not None and _like(message, error, case.get("match"))
    if "expect_code" in case:
        return fault in case["expect_code"]
    if "expect_one_of" in case:
        outcome = {"value": value} if fault is None else {"code": fault}
        return outcome in case["expect_one_of"]
    free = case.get("nondeterministic", ())
    return fault is None and same(_without(value, free), _without(_expected(case, "expect"), free))


def _without(value: Any, keys: Iterable[str]) -> Any:
    return {key: inner for key, inner in value.items() if key not in keys} if isinstance(value, dict) else value
