from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.requirements import requirement
from tests.shared import recorded
from toolcrib.definitions.code_checks import check_code, check_members
from toolcrib.definitions.definition import Language, ToolDefinition
from toolcrib.definitions.reader import read
from toolcrib.sandbox import Sandbox
from toolcrib.sandbox.javascript import JavaScript
from toolcrib.sandbox.python import Python
from toolcrib.yaml import YamlProblem

Sandboxes = Mapping[Language, Sandbox]


@pytest_asyncio.fixture
async def sandboxes() -> AsyncIterator[Sandboxes]:
    made: Sandboxes = {"javascript": JavaScript(), "python": Python()}
    yield made
    for sandbox in made.values():
        await sandbox.close()


def made(blocks: str, type: str = "mcp") -> ToolDefinition:
    core = f"id: case-tool\ntype: {type}\nname: Case\nversion: 1.0.0\ndescription: d\n"
    return read(core + blocks)


def found(definition: ToolDefinition) -> list[tuple[str, str]]:
    return [(problem.code, problem.severity) for problem in definition.problems]


def only(definition: ToolDefinition) -> YamlProblem:
    (problem,) = definition.problems
    return problem


@requirement("yaml.lint.2")
@requirement("yaml.lint.3")
@pytest.mark.parametrize("name", ["own-lint", "own-files"])
async def test_lint_matches_the_recorded_cases(name: str, sandboxes: Sandboxes) -> None:
    for case in recorded(f"cases/{name}.jsonl"):
        text = case.get("yaml") or recorded(case["path"])
        path = Path(case.get("file") or case["path"])
        definition = await check_code(read(text, path=path), sandboxes)
        expect: dict[str, Any] = case["expect"]
        codes = {problem.code for problem in definition.problems}
        assert definition.status == expect.get("status", definition.status), case
        assert definition.schema_version == expect.get("version", definition.schema_version), case
        assert codes >= set(expect.get("codes", ())), case
        assert not codes & set(expect.get("not_codes", ())), case


@requirement("yaml.lint.1")
def test_one_problem_never_hides_another() -> None:
    definition = read(
        "tool:\n  id: Case\n  type: clii\n  name: n\n  version: '1'\n  description: d\n  description: e\n"
        "  commands:\n    - {name: c, effect: never}\n  anti_patterns: [{pattern: p}]\n  examples: 3\n  expose: some\n"
    )
    assert [(problem.code, problem.path, problem.line) for problem in definition.problems] == [
        ("DUPLICATE_KEY", "tool.description", 7),
        ("INVALID_ENUM_VALUE", "tool.type", 3),
        ("INVALID_SEMVER", "tool.version", 5),
        ("INVALID_ENUM_VALUE", "tool.commands[0].effect", 9),
        ("NAMING_CONVENTION", "tool.id", 2),
        ("MISSING_REQUIRED_FIELD", "tool.anti_patterns[0].description", 10),
        ("MISSING_REQUIRED_FIELD", "tool.anti_patterns[0].wrong", 10),
        ("MISSING_REQUIRED_FIELD", "tool.anti_patterns[0].correct", 10),
        ("INVALID_TYPE", "tool.examples", 11),
        ("INVALID_ENUM_VALUE", "tool.expose", 12),
    ]
    assert all(problem.column > 0 for problem in definition.problems)


# What makes a file invalid


@requirement("yaml.lint.2")
@pytest.mark.parametrize(
    "blocks",
    [
        "executable_knowledge: []\n",
        "executable_knowledge: {helpers: text}\n",
        "executable_knowledge: {processors: {a: b}}\n",
        "executable_knowledge: {validators: [{id: v, function: f}]}\n",
        "executable_knowledge: {validators: [{id: v, validates: [], function: f}]}\n",
        "executable_knowledge: {validators: [text]}\n",
        "api_complexity: [a]\n",
        "anti_patterns: {a: b}\n",
        "schema_version: 2.0\nexamples: see there\n",
    ],
)
def test_a_block_of_the_wrong_type_and_a_validator_of_nothing_are_invalid(blocks: str) -> None:
    assert made(blocks).status == "invalid"


@requirement("yaml.lint.2")
@pytest.mark.parametrize(
    ("blocks", "code"),
    [
        ("executable_knowledge: {helpers: [{function: f}]}\n", "MISSING_REQUIRED_FIELD"),
        ("executable_knowledge: {helpers: [{id: h}]}\n", "MISSING_REQUIRED_FIELD"),
        ("executable_knowledge: {helpers: [{id: h, function: [f]}]}\n", "INVALID_TYPE"),
        ("executable_knowledge: {helpers: [{id: h, function: f}, {id: h, function: g}]}\n", "DUPLICATE_ID"),
        ("executable_knowledge: {processors: [{id: p, function: f, stage: soon}]}\n", "INVALID_ENUM_VALUE"),
        ("executable_knowledge: {processors: [{id: p, function: f, input_schema: {type: x}}]}\n", "INVALID_SCHEMA"),
        ("executable_knowledge: {processors: [{id: p, function: f, output_schema: text}]}\n", "INVALID_SCHEMA"),
        ("api_complexity: {api_quirks: text}\n", "INVALID_TYPE"),
        ("api_complexity: {payload_schemas: text}\n", "INVALID_TYPE"),
        ("anti_patterns: [text]\n", "INVALID_TYPE"),
        ("schema_version: 2\nexamples: {c: text}\n", "INVALID_TYPE"),
        ("api_complexity: {payload_schemas: [{detect: {exist: a}}]}\n", "INVALID_TYPE"),
        ("mcp_specific: text\n", "INVALID_TYPE"),
        ("expose: some\n", "INVALID_ENUM_VALUE"),
        ("effect: maybe\n", "INVALID_ENUM_VALUE"),
    ],
)
def test_the_rest_degrades(blocks: str, code: str) -> None:
    definition = made(blocks)
    assert definition.status == "degraded"
    assert (code, "error") in found(definition)


@requirement("yaml.lint.2")
def test_an_executable_is_one_program() -> None:
    problem = only(made("cli_specific: {executable: gh pr}\n", "cli"))
    assert (problem.code, problem.path, problem.fix) == ("INVALID_TEMPLATE", "cli_specific.executable", "Write 'gh'")


# Code


@requirement("yaml.lint.2")
async def test_functions_that_cannot_be_read_are_faults_with_a_place(sandboxes: Sandboxes) -> None:
    definition = made(
        "executable_knowledge:\n  validators:\n    - id: v\n      validates: c\n      function: 'function ( {'\n"
        "  helpers:\n    - {id: good, function: '1 + 1'}\n    - {id: bad, language: python, function: 'def f(:'}\n"
    )
    checked = await check_code(definition, sandboxes)
    assert (definition.status, checked.status) == ("ok", "degraded")
    assert [(problem.code, problem.path, problem.line, problem.column) for problem in checked.problems] == [
        ("INVALID_FUNCTION_SYNTAX", "executable_knowledge.validators[0].function", 10, 17),
        ("INVALID_FUNCTION_SYNTAX", "executable_knowledge.helpers[1].function", 13, 45),
    ]
    codes = [*(one.code for one in checked.validators), *(one.code for one in checked.helpers)]
    assert [code is not None and code.fault is not None for code in codes] == [True, False, True]


async def test_good_code_leaves_a_definition_as_it_is(sandboxes: Sandboxes) -> None:
    definition = made("executable_knowledge: {helpers: [{id: h, function: '(function() { return args; })()'}]}\n")
    assert await check_code(definition, sandboxes) is definition
    assert await check_code(made("executable_knowledge: {helpers: [{id: h, function: ')'}]}\n"), {}) is not None


# Warnings


@requirement("yaml.lint.3")
@pytest.mark.parametrize(
    ("entries", "missing"),
    [
        ("{scenario: success}", "failure_*"),
        ("{scenario: failure_api_error}", "success"),
        ("{scenario: edge_case}", "success and no scenario failure_*"),
        ("{scenario: success}, {scenario: failure_x}", None),
        ("{step: 1, command: c, scenario: any}", None),
    ],
)
def test_examples_show_a_success_and_a_failure(entries: str, missing: str | None) -> None:
    problems = made(f"examples: {{c: [{entries}]}}\n").problems
    assert [problem.message for problem in problems] == (
        [f"The examples of 'c' have no scenario {missing}"] if missing else []
    )


@requirement("yaml.lint.3")
def test_a_command_that_repeats_its_transport_starts_nothing() -> None:
    alone = made("mcp_specific: {server_command: sse, transport: sse}\n")
    beside = made("mcp_specific: {server_command: SSE, connection: {url: 'https://example.com/sse'}}\n")
    assert (found(alone), alone.status) == ([("PLACEHOLDER_COMMAND", "error")], "degraded")
    assert (found(beside), beside.status) == ([("PLACEHOLDER_COMMAND", "warning")], "ok")


@requirement("yaml.lint.3")
@pytest.mark.parametrize(
    ("command", "unpinned"),
    [
        ("npx -y some-server", "some-server"),
        ("npx @scope/server --flag", "@scope/server"),
        ("npx -y server@latest", "server"),
        ("npx --package=server run", "server"),
        ("/usr/bin/npx -p @scope/server run", "@scope/server"),
        ("npx -y some-server@1.2.3", None),
        ("npx -y @scope/server@^2", None),
        ("npx ./local", None),
        ("node server.js", None),
        ("uvx server", None),
    ],
)
def test_npx_without_a_version_is_warned_of(command: str, unpinned: str | None) -> None:
    definition = made(f"mcp_specific: {{server_command: '{command}'}}\n")
    assert [problem.fix for problem in definition.problems] == ([f"Write '{unpinned}@<version>'"] if unpinned else [])
    assert all(code == "UNPINNED_PACKAGE" for code, _ in found(definition))


def test_the_package_may_stand_in_the_arguments() -> None:
    assert found(made("mcp_config: {server_command: npx, server_args: ['-y', some-server]}\n")) == [
        ("UNPINNED_PACKAGE", "warning")
    ]


@requirement("yaml.lint.3")
@pytest.mark.parametrize(
    ("block", "path"),
    [
        ("notes: [{text: 'use ghp_" + "a1B2" * 9 + " here'}]\n", "notes[0].text"),
        (
            "settings: {headers: {Authorization: 'Bearer abcdef0123456789abcd'}}\n",
            "settings.headers.Authorization",
        ),
        ("mcp_specific: {environment: {EXA_API_KEY: 0f3c9a77d1b24e5f}}\n", "mcp_specific.environment.EXA_API_KEY"),
        ("key: AKIA" + "ABCD1234" * 2 + "\n", "key"),
    ],
)
def test_what_looks_like_a_secret_is_warned_of(block: str, path: str) -> None:
    problem = only(made(block))
    assert (problem.code, problem.severity, problem.path) == ("SECRET_IN_FILE", "warning", path)


@requirement("yaml.lint.3")
@pytest.mark.parametrize(
    "block",
    [
        "setup: 'export KEY=sk-your-key'\n",
        "settings: {headers: {Authorization: 'Bearer {{token_of_user_1}}'}}\n",
        "settings: {auth: {type: bearer, env: MY_API_KEY_2024_OF_MINE}}\n",
        "mcp_specific: {environment: {API_KEY: '${EXA_API_KEY_2024}'}}\n",
        "notes: {token: 'ask your administrator for it'}\n",
    ],
)
def test_what_only_speaks_of_secrets_is_not(block: str) -> None:
    assert made(block).problems == ()


@requirement("yaml.lint.3")
def test_prose_that_detects_nothing_is_told() -> None:
    told = ["events of the old kind", "a or b", "event contains 'x'"]
    good = ["event field exists in root", "history_items array exists", "webhook_id", "!a && b === 'x'", "a.b exists"]
    entries = "".join(f'    - {{type: t, detection: "{text}"}}\n' for text in (*told, *good))
    definition = made(
        f"api_complexity:\n  payload_schemas:\n{entries}    - {{detection: any prose, detect: {{exists: a}}}}\n"
    )
    assert found(definition) == [("PROSE_DETECTION", "info")] * len(told)
    assert definition.status == "ok"


@requirement("yaml.lint.3")
def test_checks_that_check_nothing_are_errors_but_for_the_labels_of_a_function() -> None:
    checks = "checks: [required_fields, {format: email}, {enumm: {a: [b]}}]"
    beside = made(f"executable_knowledge: {{validators: [{{id: v, validates: c, function: f, {checks}}}]}}\n")
    alone = made(f"executable_knowledge: {{validators: [{{id: v, validates: c, {checks}}}]}}\n")
    weights = ["warning", "error", "error"]
    assert (found(beside), beside.status) == ([("UNKNOWN_CHECK", weight) for weight in weights], "degraded")
    assert (found(alone), alone.status) == ([("UNKNOWN_CHECK", "error")] * 3, "degraded")
    assert beside.problems[2].fix == "Write 'enum'"


# References


@requirement("yaml.lint.4")
@pytest.mark.parametrize(
    ("blocks", "path"),
    [
        (
            "api_complexity: {field_mappings: {f: {extraction: helpers.no}}}\n",
            "api_complexity.field_mappings.f.extraction",
        ),
        (
            "api_complexity: {field_mappings: {custom_fields: {f: {extraction: helpers.no}}}}\n",
            "api_complexity.field_mappings.custom_fields.f.extraction",
        ),
        ("meta_specific: {orchestration: helpers.no}\n", "meta_specific.orchestration"),
        ("meta_specific: {aggregates: [a], workflow: [{tool: b, command: c}]}\n", "meta_specific.workflow[0].tool"),
        ("executable_knowledge: {processors: [{id: p, steps: [no]}]}\n", "executable_knowledge.processors[0].steps[0]"),
        ("commands: [{name: c, processors: [no]}]\n", "commands[0].processors"),
        ("commands: [{name: c, validation: no}]\n", "commands[0].validation"),
    ],
)
def test_a_reference_to_nothing_is_an_error(blocks: str, path: str) -> None:
    definition = made(blocks, "meta")
    problem = only(definition)
    assert (problem.code, problem.severity, problem.path) == ("DANGLING_REFERENCE", "error", path)
    assert definition.status == "degraded"


@requirement("yaml.lint.4")
def test_in_an_example_it_is_a_warning_that_names_the_validator_of_the_command() -> None:
    definition = made(
        "executable_knowledge:\n  validators:\n"
        "    - {id: check-c, validates: c, function: f}\n    - {id: chekc, validates: d, function: f}\n"
        "examples: {c: [{scenario: success}, {scenario: failure_x, error: {validator: chekk}}]}\n"
    )
    problem = only(definition)
    assert (problem.code, problem.severity, problem.fix) == ("DANGLING_REFERENCE", "warning", "Write 'check-c'")
    assert definition.status == "ok"


@requirement("yaml.lint.4")
def test_references_that_lead_somewhere_and_prose_are_fine() -> None:
    definition = made(
        "executable_knowledge: {helpers: [{id: h, function: f}], processors: [{id: p, steps: [h]}]}\n"
        "api_complexity: {field_mappings: {f: {extraction: helpers.h}, g: {extraction: the first element}}}\n"
        "commands: [{name: c, processors: [p], validation: must have a name}]\n"
        "mcp_specific: {server_command: a-server}\n"
    )
    assert definition.problems == ()


@requirement("yaml.lint.4")
def test_a_member_that_no_file_has_is_an_error_with_a_place(tmp_path: Path) -> None:
    path = tmp_path / "case-tool.yaml"
    definition = made("meta_specific:\n  aggregates: [Clickup, exa.search, clikup]\n", "meta")
    path.write_text("id: case-tool\ntype: meta\nmeta_specific:\n  aggregates: [Clickup, exa.search, clikup]\n")
    checked = check_members(replace(definition, path=path), ["clickup", "exa"])
    problem = only(checked)
    assert (problem.code, problem.path, problem.fix) == (
        *("DANGLING_REFERENCE", "meta_specific.aggregates[2]", "Write 'clickup'"),
    )
    assert (problem.line, problem.column, checked.status) == (4, 37, "degraded")
    assert check_members(definition, ["clickup", "exa", "clikup"]) is definition
