import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib.definitions.argument_checks import ArgumentFinding
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.library import Library
from toolcrib.definitions.reader import read
from toolcrib.definitions.roots import DefinitionRoot
from toolcrib.definitions.validators import (
    CodeSandboxes,
    ValidationVerdict,
    helper,
    refusal,
    schema_findings,
    validate,
    validate_many,
    verdict_of,
    written,
)
from toolcrib.errors import ToolFailure
from toolcrib.extras import install
from toolcrib.sandbox import FaultCode, Role, SandboxError, SandboxResult
from toolcrib.sandbox.javascript import JavaScript
from toolcrib.sandbox.python import Python
from toolcrib.schema import BadArguments, schema_parser


@asynccontextmanager
async def open_sandboxes() -> AsyncIterator[CodeSandboxes]:
    javascript, python = JavaScript(), Python()
    try:
        yield CodeSandboxes({"javascript": javascript, "python": python})
    finally:
        await javascript.close()
        await python.close()


@pytest.fixture
async def sandboxes() -> AsyncIterator[CodeSandboxes]:
    async with open_sandboxes() as opened:
        yield opened


def defined(code: dict[str, Any] | None = None, **blocks: Any) -> ToolDefinition:
    """A tool of version 2 with validators, helpers and processors in `code`, and other blocks."""
    return read(json.dumps(case_file(code, **blocks)))


def case_file(code: dict[str, Any] | None = None, **blocks: Any) -> dict[str, Any]:
    """What the file of such a tool holds."""
    core = {"id": "case", "type": "local", "name": "Case", "version": "1.0.0", "description": "A case"}
    return {"tool": {**core, "executable_knowledge": code or {}, **blocks}}


def judged_by(*validators: dict[str, Any]) -> ToolDefinition:
    given = ({"id": f"v{number}", "validates": "c", **each} for number, each in enumerate(validators, 1))
    return defined({"validators": list(given)})


class FaultySandbox:
    """Fails every run in one way, as a sandbox may that has no time, no memory or no worker left."""

    def __init__(self, code: FaultCode, message: str = "") -> None:
        self.fault = SandboxError(code, message)

    async def run(
        self, code: str, args: bytes, *, name: str, role: Role, timeout_s: float, memory_bytes: int
    ) -> SandboxResult:
        raise self.fault

    async def check(self, code: str) -> str | None:
        return None

    async def close(self) -> None:
        pass


def failing(code: FaultCode, message: str = "") -> CodeSandboxes:
    return CodeSandboxes({"javascript": FaultySandbox(code, message)})


def messages(verdict: ValidationVerdict) -> list[str]:
    return [finding.message for finding in verdict.errors]


ACCEPTS = {"function": "({valid: true, errors: []})"}


# Which validators run


@requirement("yaml.code.5")
async def test_all_validators_of_a_command_run_and_are_told_in_the_order_of_the_file(sandboxes: CodeSandboxes) -> None:
    definition = judged_by(
        {"function": "({valid: false, errors: ['first', 'same']})"},
        {"validates": ["b", "c"], "function": "({valid: false, errors: ['same', 'second']})"},
        {"validates": "*", "function": "({valid: false, errors: ['of all']})"},
        {"validates": "other", "function": "({valid: false, errors: ['of another']})"},
        ACCEPTS,
    )
    verdict = await validate(definition, "c", {}, sandboxes)
    assert messages(verdict) == ["first", "same", "second", "of all"]
    assert [finding.source for finding in verdict.findings] == ["v1", "v1", "v2", "v3"]


@requirement("yaml.code.11")
async def test_a_command_without_validator_passes_with_a_note() -> None:
    verdict = await validate(judged_by(ACCEPTS), "other", {}, CodeSandboxes({}))
    assert verdict.valid
    assert verdict.notes == ("No validator configured - passed by default",)


@requirement("yaml.code.11")
async def test_many_are_judged_at_once_in_their_order(sandboxes: CodeSandboxes) -> None:
    definition = judged_by({"function": "({valid: false, errors: ['got ' + args.n]})"})
    verdicts = await validate_many([(definition, "c", {"n": number}) for number in range(30)], sandboxes)
    assert [messages(verdict) for verdict in verdicts] == [[f"got {number}"] for number in range(30)]


# What a function returns


@requirement("yaml.code.6")
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"valid": True}, []),
        ({"valid": "yes", "errors": ["odd"]}, [("warning", "odd")]),
        ({"valid": [], "errors": []}, []),
        ({"errors": ["bad"]}, [("error", "bad")]),
        ({"errors": []}, []),
        ({"valid": False, "errors": ["bad"], "warnings": "old"}, [("error", "bad"), ("warning", "old")]),
        ({"valid": 0}, [("error", "Validator 'v' rejected the arguments without saying why")]),
        ({"valid": None, "errors": [None]}, [("error", "Validator 'v' rejected the arguments without saying why")]),
    ],
)
def test_truthy_valid_accepts_and_without_it_errors_reject(value: Any, told: list[tuple[str, str]]) -> None:
    assert [(each.severity, each.message) for each in verdict_of(value, "v", "c", {})] == told


@requirement("yaml.code.6")
@pytest.mark.parametrize("value", [None, True, "valid", 1, [], ["bad"], {}, {"errors": None}, {"warnings": ["w"]}])
def test_what_is_no_verdict_rejects_as_a_fault(value: Any) -> None:
    [finding] = verdict_of(value, "v", "c", {})
    assert finding.message == "Validator 'c' returned invalid format. Expected {valid: boolean, errors: array}."
    assert (finding.code, finding.fault) == ("bad_return", True)


@requirement("yaml.code.6")
def test_a_rejection_stands_where_all_its_reasons_are_warnings() -> None:
    value = {"valid": False, "errors": [{"field": "a", "message": "hm", "severity": "warning"}]}
    assert [each.severity for each in verdict_of(value, "v", "c", {})] == ["warning", "error"]


@requirement("yaml.code.7")
@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ("lonely", [("", "invalid", "lonely")]),
        (["a", None, 5, True], [("", "invalid", "a"), ("", "invalid", "5"), ("", "invalid", "true")]),
        ([{"field": "to", "message": "is required"}], [("to", "required", "is required")]),
        ([{"path": "a[0].b", "code": "range", "message": "too big"}], [("a[0].b", "range", "too big")]),
        ([{"message": "to must go", "code": "x"}], [("to", "x", "to must go")]),
        ({"field": "to", "message": "bad"}, [("to", "invalid", "bad")]),
        (
            {"to": "is missing", "b": ["x", 2], "c": None},
            [("to", "required", "is missing"), ("b", "invalid", "x"), ("b", "invalid", "2")],
        ),
        ({"to": {"message": "bad", "code": "x"}}, [("to", "x", "bad")]),
        ([{"to": "bad"}], [("to", "invalid", "bad")]),
        ([["nested"]], [("", "invalid", '["nested"]')]),
    ],
)
def test_findings_are_read_in_whichever_form_they_are_told(errors: Any, told: list[tuple[str, str, str]]) -> None:
    found = verdict_of({"valid": False, "errors": errors}, "v", "c", {})
    assert [(each.path, each.code, each.message) for each in found] == told


@requirement("yaml.code.8")
@pytest.mark.parametrize(
    ("message", "path", "code"),
    [
        ("name is required", "name", "required"),
        ("custom_fields[0] missing required 'id' field", "custom_fields[0]", "required"),
        ("assignees.add must be an array", "assignees.add", "invalid"),
        ("given: too long", "given", "invalid"),
        ("given.deep[2].x: too long", "given.deep[2].x", "invalid"),
        ("other: too long", "", "invalid"),
        ("Either a or b is required", "", "required"),
        ("Missing required fields: a", "", "required"),
        ("Invalid payload: missing event", "", "invalid"),
        ("'name' is required", "", "required"),
        ("", "", "invalid"),
    ],
)
def test_path_and_code_are_taken_from_the_text(message: str, path: str, code: str) -> None:
    [finding] = verdict_of({"valid": False, "errors": [message]}, "v", "c", {"given": 1})
    assert (finding.path, finding.code) == (path, code)


# Checks beside a function


@requirement("yaml.check.5")
@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, [("a", "error"), ("b", "error")]),
        ({"enforce": False}, [("a", "error"), ("b", "error")]),
        (ACCEPTS, [("a", "error"), ("b", "error")]),
        ({**ACCEPTS, "enforce": True}, [("a", "error"), ("b", "error")]),
        ({**ACCEPTS, "enforce": "no"}, [("a", "error"), ("b", "error")]),
        ({**ACCEPTS, "enforce": False}, [("a", "warning"), ("b", "warning")]),
        ({"function": "({errors: ['a is required']})"}, [("b", "error"), ("a", "error")]),
        ({"function": "({errors: ['a is required']})", "enforce": False}, [("b", "warning"), ("a", "error")]),
        (
            {"function": "({valid: true, errors: ['a is required']})"},
            [("a", "error"), ("b", "error"), ("a", "warning")],
        ),
    ],
)
async def test_checks_beside_a_function_reject_unless_declared_soft(
    sandboxes: CodeSandboxes, more: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    verdict = await validate(judged_by({"checks": [{"required_fields": ["a", "b"]}], **more}), "c", {}, sandboxes)
    assert [(each.path, each.severity) for each in verdict.findings] == told


@requirement("yaml.check.6")
@pytest.mark.parametrize(
    ("check", "beside", "weight"),
    [
        ({"format": {"to": "emial"}}, ACCEPTS, "error"),
        ({"format": {"to": "emial"}}, {**ACCEPTS, "enforce": False}, "warning"),
        ("required_fields", ACCEPTS, "warning"),
    ],
)
async def test_an_unknown_check_rejects_and_a_bare_name_labels_a_function(
    sandboxes: CodeSandboxes, check: Any, beside: dict[str, Any], weight: str
) -> None:
    alone = await validate(judged_by({"checks": [check]}), "c", {}, sandboxes)
    assert [(each.code, each.fault) for each in alone.errors] == [("UNKNOWN_CHECK", True)]
    verdict = await validate(judged_by({"checks": [check], **beside}), "c", {}, sandboxes)
    assert [(each.code, each.severity) for each in verdict.findings] == [("UNKNOWN_CHECK", weight)]


@requirement("yaml.check.5")
@pytest.mark.parametrize(("more", "weight"), [({}, "warning"), ({"enforce": True}, "error")])
async def test_checks_of_a_folder_that_is_read_with_soft_checks_only_warn(
    sandboxes: CodeSandboxes, tmp_path: Path, more: dict[str, Any], weight: str
) -> None:
    entry = {"id": "v", "validates": "c", "checks": [{"required_fields": ["a"]}], **ACCEPTS, **more}
    (tmp_path / "case.yaml").write_text(json.dumps(case_file({"validators": [entry]})))
    for soft, expected in ((True, weight), (False, "error")):
        definition = Library([DefinitionRoot(tmp_path, soft_checks=soft)]).resolve("case")
        verdict = await validate(definition, "c", {}, sandboxes)
        assert [(each.path, each.severity) for each in verdict.findings] == [("a", expected)]
        assert [each.code for each in definition.problems] == (["SOFT_CHECKS"] if soft and not more else [])


# Faults


@requirement("yaml.code.10")
@pytest.mark.parametrize(
    ("code", "said", "message"),
    [
        ("timeout", "", "Validator 'c' exceeded 500ms timeout. Validation failed for safety."),
        ("memory", "", "Validator 'c' exceeded 8MB memory limit."),
        ("threw", "boom", "Validation error in 'c': boom"),
        ("syntax", "oops", "Validation error in 'c': oops"),
        ("no_function", "", "Validator for 'c' has no function defined"),
        ("busy", "", "Validation error in 'c': no sandbox was free in time"),
    ],
)
async def test_a_validator_that_cannot_judge_rejects(code: FaultCode, said: str, message: str) -> None:
    verdict = await validate(judged_by(ACCEPTS), "c", {}, failing(code, said))
    assert [(each.code, each.message, each.fault) for each in verdict.errors] == [(code, message, True)]


@requirement("yaml.code.10")
async def test_another_limit_prints_its_number() -> None:
    limits = {**ACCEPTS, "timeout_ms": 1500, "memory_mb": 100}
    definition = defined({"validators": [{"id": "v", "validates": "c", **limits}], "helpers": [{"id": "h", **limits}]})
    for code, said in (("timeout", "1500ms timeout"), ("memory", "64MB memory")):
        assert said in messages(await validate(definition, "c", {}, failing(code)))[0]  # type: ignore[arg-type]
    with pytest.raises(ToolFailure, match=r"Helper 'h' exceeded 1\.5s timeout"):
        await helper(definition, "h", {}, failing("timeout"))


class Watched:
    """A sandbox that remembers what its runs were given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.limits: list[tuple[float, int]] = []

    async def run(self, *values: Any, timeout_s: float, memory_bytes: int, **named: Any) -> SandboxResult:
        self.limits.append((timeout_s, memory_bytes))
        ran: SandboxResult = await self._inner.run(*values, timeout_s=timeout_s, memory_bytes=memory_bytes, **named)
        return ran


LOOPS = {"javascript": "while (true) {}", "python": "while True: pass"}


@requirement("yaml.code.10", "yaml.box.4")
@pytest.mark.parametrize("language", LOOPS)
@pytest.mark.parametrize(("own", "given"), [(30, 30), (None, 500), (60_000, 5000)])
async def test_a_validator_has_the_time_that_its_file_says_within_what_files_may_have(
    sandboxes: CodeSandboxes, language: Any, own: int | None, given: int
) -> None:
    watched = Watched(sandboxes.languages[language])
    code = {"function": LOOPS[language], "language": language, "timeout_ms": own, "memory_mb": 4}
    definition = judged_by({name: value for name, value in code.items() if value is not None})
    verdict = await validate(definition, "c", {}, CodeSandboxes({language: watched}))  # type: ignore[dict-item]
    assert messages(verdict) == [f"Validator 'c' exceeded {given}ms timeout. Validation failed for safety."]
    assert watched.limits == [(given / 1000, 4 * 1024 * 1024)]


@requirement("yaml.code.10")
async def test_a_validator_without_anything_and_one_in_no_known_language_reject(sandboxes: CodeSandboxes) -> None:
    empty = await validate(judged_by({}), "c", {}, sandboxes)
    assert messages(empty) == ["Validator for 'c' has no function defined"]
    foreign = await validate(judged_by({**ACCEPTS, "language": "ruby"}), "c", {}, sandboxes)
    assert messages(foreign)[0].startswith("Validation error in 'c': ")
    unboxed = await validate(judged_by(ACCEPTS), "c", {}, CodeSandboxes({}))
    (told,) = messages(unboxed)
    assert told == f"Validation error in 'c': there is no sandbox for javascript: {install('sandbox')}"


@requirement("yaml.code.10")
@pytest.mark.parametrize(
    ("code", "message", "failure"),
    [
        ("timeout", "Helper 'h' exceeded 1s timeout. Consider optimizing the helper function.", "timeout"),
        ("memory", "Helper 'h' exceeded 8MB memory limit. Consider reducing data processing.", "failed"),
        ("threw", "Helper 'h' execution failed: boom", "failed"),
        ("busy", "Helper 'h' execution failed: boom", "unavailable"),
    ],
)
async def test_a_helper_that_fails_says_how(code: FaultCode, message: str, failure: str) -> None:
    with pytest.raises(ToolFailure) as raised:
        await helper(defined({"helpers": [{"id": "h", "function": "1"}]}), "h", {}, failing(code, "boom"))
    assert (raised.value.code, raised.value.message) == (failure, message)
    assert raised.value.metadata == {"fault": code}


@requirement("yaml.code.10")
async def test_a_helper_gives_its_value_or_is_missed_by_name(sandboxes: CodeSandboxes) -> None:
    definition = defined({"helpers": [{"id": "twice", "function": "args.n * 2"}, {"id": "empty"}]})
    assert await helper(definition, "twice", {"n": 21}, sandboxes) == 42
    assert await helper(definition, "twice", None, sandboxes) is None
    with pytest.raises(ToolFailure, match=r"Helper 'x' not found\. Available helpers: twice, empty"):
        await helper(definition, "x", {}, sandboxes)
    with pytest.raises(ToolFailure, match="Helper 'empty' has no function defined"):
        await helper(definition, "empty", {}, sandboxes)


# Failures


@requirement("yaml.code.9")
def test_a_rejection_tells_ten_lines_and_holds_all_findings() -> None:
    findings = tuple(ArgumentFinding(f"f{number}", "invalid", "bad", source="v") for number in range(12))
    failure = refusal(defined(), "c", ValidationVerdict((*findings, ArgumentFinding("", "invalid", "hm", "warning"))))
    assert failure.code == "invalid_arguments"
    assert failure.message.splitlines() == [f"f{number}: bad" for number in range(10)]
    assert len(failure.metadata["findings"]) == 13
    told = {"path": "f0", "code": "invalid", "message": "bad", "severity": "error", "source": "v"}
    assert failure.metadata["findings"][0] == told


@requirement("yaml.code.9")
@pytest.mark.parametrize(("code", "again"), [("timeout", True), ("busy", True), ("threw", False)])
async def test_where_only_the_validator_is_to_blame_the_tool_is_unavailable(code: FaultCode, again: bool) -> None:
    definition = judged_by(ACCEPTS)
    failure = refusal(definition, "c", await validate(definition, "c", {}, failing(code, "x")))
    assert (failure.code, failure.retryable) == ("unavailable", again)


@requirement("yaml.code.9")
async def test_a_code_that_a_validator_chose_is_no_fault(sandboxes: CodeSandboxes) -> None:
    function = "({errors: [{field: 'a', message: 'too slow', code: 'timeout'}]})"
    definition = judged_by({"function": function}, {"function": "throw 'boom'"})
    failure = refusal(definition, "c", await validate(definition, "c", {}, sandboxes))
    assert (failure.code, failure.message) == ("invalid_arguments", "a: too slow\nValidation error in 'c': boom")


def test_problems_of_a_schema_are_findings_too() -> None:
    parser = schema_parser({"type": "object", "required": ["a"], "properties": {"b": {"type": "integer"}}})
    with pytest.raises(BadArguments) as raised:
        parser.parse(b'{"b": "x"}')
    found = [(each.path, each.code, each.source) for each in schema_findings(raised.value)]
    assert found == [("a", "required", "schema"), ("b", "type", "schema")]


# Time, print, and what crosses


@requirement("yaml.code.12")
async def test_a_slow_validator_is_told_and_waiting_does_not_count(
    sandboxes: CodeSandboxes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcrib.trace")
    slow = judged_by({"function": "const s = Date.now(); while (Date.now() - s < 70) {} ({valid: true})"})
    verdict = await validate(slow, "c", {}, sandboxes)
    assert verdict.valid
    assert verdict.duration_ms > 60  # the clock of the guest counts whole milliseconds
    [note] = verdict.notes
    assert note == f"Validator 'c' took {verdict.duration_ms:.0f}ms (target: <50ms). Consider optimization."
    assert note in caplog.messages
    crowd = await validate_many([(slow, "c", {})] * 4 + [(judged_by(ACCEPTS), "c", {})] * 40, sandboxes)
    # A busy machine may hold one up in the worker; that they waited behind slow ones must not show in all of them.
    assert sum(bool(verdict.notes) for verdict in crowd[4:]) < 10


async def test_what_code_prints_goes_to_the_trace(sandboxes: CodeSandboxes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib.trace")
    await validate(judged_by({"function": "console.log('seen ' + args.x); throw 'x'"}), "c", {"x": 7}, sandboxes)
    assert any("seen 7" in message for message in caplog.messages)


def test_anything_can_be_written_as_json() -> None:
    assert written({"a": (1, float("nan")), "b": defined().tool["id"]}) == b'{"a":[1,null],"b":"case"}'
    assert (
        written({"half": "\ud800", "big": 10**30})
        == '{"half": "\ufffd", "big": 1000000000000000000000000000000}'.encode()
    )
