import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.definitions.test_validators import ACCEPTS, defined, open_sandboxes
from tests.requirements import requirement
from tests.shared import recorded
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.examples import CommandExample, ExampleReport, examples_of, replay, try_examples
from toolcrib.definitions.reader import read
from toolcrib.definitions.validators import CodeSandboxes

NEEDS_NAME = {"id": "needs-name", "validates": "c", "checks": [{"required_fields": ["name"]}]}
MISSING = "Required field 'name' is missing"


@pytest.fixture
async def sandboxes() -> AsyncIterator[CodeSandboxes]:
    async with open_sandboxes() as opened:
        yield opened


def shown(*entries: dict[str, Any], **others: Any) -> ToolDefinition:
    return defined({"validators": [NEEDS_NAME]}, examples={"c": list(entries), **others})


def known(name: str) -> ToolDefinition:
    # The runtime that these were written for let functions alone decide.
    return read(recorded(f"tools/mcp/{name}.yaml"), soft_checks=True)


@requirement("yaml.test.1")
@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"input": {"name": "x"}, "output": {}}, None),
        ({"input": {}, "output": {}}, f"rejected: name: {MISSING}"),
        ({"input": {"name": "x"}, "error": {"code": "API_ERROR", "message": "away"}}, None),
        ({"input": {}, "error": {"code": "API_ERROR", "message": "away"}}, f"rejected: name: {MISSING}"),
        ({"input": {}, "error": {"code": "VALIDATION_ERROR", "message": "'name' is missing"}}, None),
        ({"input": {}, "error": {"code": "FORMAT_ERROR"}}, None),
        (
            {"input": {"name": "x"}, "error": {"code": "VALIDATION_ERROR", "message": "no"}},
            "accepted, but it must be rejected: no",
        ),
        (
            {"input": {}, "error": {"code": "VALIDATION_ERROR", "message": "no"}},
            f"rejected by another message than 'no': name: {MISSING}",
        ),
    ],
)
async def test_an_example_must_be_accepted_or_rejected_as_it_says(entry: dict[str, Any], reason: str | None) -> None:
    report = await try_examples(shown({"scenario": "s", **entry}), CodeSandboxes({}))
    assert [each.data() for each in report.failed] == (
        [] if reason is None else [{"command": "c", "scenario": "s", "reason": reason}]
    )
    assert report.passed == (reason is None)


@requirement("yaml.test.1")
async def test_steps_must_be_accepted_and_what_has_no_validator_is_unchecked() -> None:
    steps = [
        {"step": 1, "command": "look", "input": {}},
        {"step": 2, "command": "c", "input": {"name": "x"}, "error": {"code": "VALIDATION_ERROR"}},
        {"step": 3, "action": "c", "input": {}},
    ]
    report = await try_examples(shown(workflow=steps), CodeSandboxes({}))
    assert (report.passed, report.unchecked) == (1, 1)
    assert [(each.command, each.scenario) for each in report.failed] == [("c", "step 3")]


@requirement("yaml.test.1")
async def test_a_fault_of_the_validator_is_no_rejection() -> None:
    definition = defined(
        {"validators": [{"id": "v", "validates": "c", **ACCEPTS}]},
        examples={"c": [{"scenario": "failure_x", "input": {}, "error": {"code": "VALIDATION_ERROR"}}]},
    )
    report = await try_examples(definition, CodeSandboxes({}))
    assert "no sandbox" in report.failed[0].reason


@requirement("yaml.test.1")
async def test_what_is_accepted_or_unchecked_goes_on_to_be_run() -> None:
    definition = shown(
        {"scenario": "good", "input": {"name": "x"}, "output": 1},
        {"scenario": "bad", "input": {}, "output": 1},
        {"scenario": "refused", "input": {}, "error": {"code": "VALIDATION_ERROR"}},
        other=[{"scenario": "free", "input": {}, "output": 2}],
    )
    ran: list[str] = []

    async def run(example: CommandExample) -> str | None:
        ran.append(example.scenario)
        return None if example.fields["output"] == 1 else "answered otherwise"

    report = await try_examples(definition, CodeSandboxes({}), run)
    assert ran == ["good", "free"]
    assert (report.passed, report.unchecked) == (2, 0)
    assert [(each.scenario, each.reason) for each in report.failed][1:] == [("free", "answered otherwise")]


@requirement("yaml.test.3")
async def test_untouched_and_slow_validators_are_reported(sandboxes: CodeSandboxes) -> None:
    slow = "const s = Date.now(); while (Date.now() - s < 70) {} ({valid: true})"
    validators = [{"id": "slow", "validates": "c", "function": slow}, {"id": "lonely", "validates": "other", **ACCEPTS}]
    definition = defined({"validators": validators}, examples={"c": [{"scenario": "success", "input": {}}]})
    told = (await try_examples(definition, sandboxes)).data()
    assert (told["passed"], told["untouched"]) == (1, ["lonely"])
    [note] = told["slow"]
    assert note.startswith("Validator 'c' took ")


@requirement("yaml.test.3")
async def test_recorded_cases_are_replayed(sandboxes: CodeSandboxes) -> None:
    half = {"kind": "helper", "helper": "half", "args": {"n": 4}}
    definition = defined({"validators": [NEEDS_NAME], "helpers": [{"id": "half", "function": "args.n / 2"}]})
    cases: list[dict[str, Any]] = [
        {**half, "tool": "case", "expect": 2},
        {**half, "tool": "case", "expect": 3, "about": "wrong value"},
        {**half, "tool": "case", "expect": True, "about": "true is not 1", "args": {"n": 2}},
        {**half, "tool": "gone", "expect": 2, "about": "no tool"},
        {
            **half,
            "definition": {"id": "half", "function": "throw 'x'"},
            "expect_error": "Helper 'half'",
            "match": "prefix",
        },
        {
            "kind": "validator",
            "tool": "case",
            "command": "c",
            "args": {},
            "expect": {"valid": False, "errors": [MISSING]},
        },
        {"kind": "validator", "tool": "case", "command": "c", "args": {}, "expect": {"valid": True}, "about": "valid"},
        {"kind": "validator", "tool": "case", "command": "c", "args": {}, "expect": {"errors": ["x"]}, "about": "text"},
        {"kind": "validator", "tool": "case", "command": "c", "expect_findings": [{"code": "x"}], "about": "finding"},
        {"kind": "validator", "tool": "case", "command": "c", "expect_code": ["threw"], "about": "code"},
        {"kind": "validator", "tool": "case", "command": "c", "expect": {}, "max_s": 0, "about": "time"},
        {"kind": "lint"},
    ]
    report = await replay(cases, lambda id: definition if id == "case" else None, sandboxes)
    assert (report.passed, report.unchecked) == (3, 1)
    expected = ["wrong value", "true is not 1", "no tool", "valid", "text", "finding", "code", "time"]
    assert [each.scenario for each in report.failed] == expected


RECORDED = {
    "clickup.helpers": 42,
    "clickup.validators": 77,
    "google-workspace.helpers": 61,
    "google-workspace.validators": 92,
    "inline-definitions": 61,
    "own-checks": 18,
    "own-sandbox": 14,
    "own-styles": 34,
}


@requirement("yaml.test.3")
@pytest.mark.parametrize("name", RECORDED)
async def test_all_recorded_cases_match(sandboxes: CodeSandboxes, name: str) -> None:
    cases = recorded(f"cases/{name}.jsonl")
    report = await replay(cases, known, sandboxes, soft_checks=True)
    assert report == ExampleReport("", RECORDED[name])


@requirement("yaml.test.1")
async def test_the_examples_of_known_tools_go_as_recorded(sandboxes: CodeSandboxes) -> None:
    for case in recorded("cases/own-examples.jsonl"):
        report = await try_examples(known(case["tool"]), sandboxes)
        failed = [{"command": each.command, "scenario": each.scenario} for each in report.failed]
        assert {"passed": report.passed, "failed": failed} == case["expect"], json.dumps(report.data())
    assert [each.command for each in examples_of(known("clickup"))].count("create_task") == 5
