from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.shared import RECORDINGS, require_recordings
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.reader import read
from toolcrib.yaml import YamlProblem, thaw

CORE = "tool:\n  id: case-tool\n  type: local\n  name: Case\n  version: 1.0.0\n  description: d\n"


def made(more: str = "", **core: str | None) -> ToolDefinition:
    fields = {"id": "case-tool", "type": "local", "name": "Case", "version": "1.0.0", "description": "d", **core}
    lines = "".join(f"  {key}: {value}\n" for key, value in fields.items() if value is not None)
    return read(f"tool:\n{lines}{more}")


def only(definition: ToolDefinition) -> YamlProblem:
    (problem,) = definition.problems
    return problem


# The root


@requirement("yaml.file.1")
@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "[1, 2]", "just text", "a: 1", "id: x\nname: y", "--- {}", "null", "3"]
)
def test_any_other_document_is_not_a_tool(text: str) -> None:
    definition = read(text, path=Path("x.yaml"))
    assert (definition.status, definition.problems, definition.id) == ("not_a_tool", (), "x")


@requirement("yaml.file.1")
def test_other_files_may_have_several_documents_keys_twice_and_tags() -> None:
    assert read("kind: Pod\n---\nkind: Service\n").status == "not_a_tool"
    assert read("a: !Ref b\nc: 1\nc: 2\n").status == "not_a_tool"


@requirement("yaml.file.1")
def test_a_tool_may_stand_at_the_root_and_be_json() -> None:
    flat = {"id": "flat", "type": "cli", "name": "n", "version": "1.0.0", "description": "d"}
    for document in (flat, {"tool": flat}):
        definition = read(json.dumps(document).encode())
        assert (definition.id, definition.type, definition.status) == ("flat", "cli", "ok")
        assert thaw(definition.tool) == flat


@requirement("yaml.file.1")
@pytest.mark.parametrize("tool", ["", " text", " [1]", " 3"])
def test_a_tool_that_is_no_mapping_is_invalid(tool: str) -> None:
    definition = read(f"tool:{tool}\n", path=Path("x.yaml"))
    assert (definition.status, definition.id) == ("invalid", "x")
    assert definition.problems[0].code == "INVALID_TYPE"


@requirement("yaml.file.2")
def test_other_keys_of_the_root_are_kept_and_warned_of() -> None:
    definition = read(CORE + "usage: {a: [1]}\nmore: x\n")
    assert thaw(definition.extra) == {"usage": {"a": [1]}, "more": "x"}
    assert definition.status == "ok"
    found = [(problem.code, problem.severity, problem.path, problem.line) for problem in definition.problems]
    assert found == [("EXTRA_ROOT_KEY", "warning", "usage", 7), ("EXTRA_ROOT_KEY", "warning", "more", 8)]


@requirement("yaml.file.4")
def test_unknown_keys_are_kept_in_order_at_any_depth() -> None:
    definition = made(
        "  zeta: {y: 1, x: [{b: 2, a: 3}]}\n  alpha: on\n  commands:\n    - {name: c, extra: {deep: yes}}\n"
    )
    assert json.dumps(thaw(definition.tool)).endswith(
        ', "zeta": {"y": 1, "x": [{"b": 2, "a": 3}]}, "alpha": "on",'
        ' "commands": [{"name": "c", "extra": {"deep": "yes"}}]}'
    )
    assert definition.commands[0].fields["extra"] == {"deep": "yes"}


@requirement("yaml.file.5")
def test_a_definition_is_frozen_through_and_through() -> None:
    definition = made("  commands: [{name: c, filter: {type: field}, parameters: [{q: text}]}]\n")
    command = definition.commands[0]
    for mapping in (definition.tool, definition.extra, command.fields, command.filter, command.input_schema):
        with pytest.raises(TypeError):
            mapping["x"] = 1  # type: ignore[index]
    with pytest.raises(AttributeError):
        definition.id = "other"  # type: ignore[misc]


# Core fields


@requirement("yaml.file.6")
def test_all_core_problems_are_told_at_once_in_their_order() -> None:
    definition = read("tool:\n  schema_version: 3\n  version: 1.0\n  name: ''\n")
    assert definition.status == "invalid"
    assert [problem.message for problem in definition.problems] == [
        "Tool missing required field: id",
        "Tool missing required field: type",
        "Tool missing required field: name",
        "Tool missing required field: description",
        "Invalid version format '1.0'. Expected semantic versioning (e.g., 1.0.0)",
        "Invalid schema_version '3'. Must be '1.0' or '2.0'",
    ]
    assert [problem.line for problem in definition.problems] == [1, 1, 4, 1, 3, 2]


@requirement("yaml.file.6")
@pytest.mark.parametrize("id", ["a", "A_b-9", "9" * 32, "x-"])
def test_ids_of_letters_digits_and_lines_are_legal(id: str) -> None:
    assert made(id=f"'{id}'").status == "ok"


@requirement("yaml.file.6")
@pytest.mark.parametrize(
    ("id", "fix"),
    [
        ("../evil", "id: evil"),
        ("'-a'", "id: a"),
        ("a b", "id: a-b"),
        ("123", 'id: "123"'),
        ("[a]", "my-tool"),
        ("x" * 33, "x" * 32),
    ],
)
def test_other_ids_are_invalid(id: str, fix: str) -> None:
    problem = made(id=id).problems[0]
    assert (problem.code, problem.line, problem.path) == ("INVALID_ID", 2, "tool.id")
    assert fix in (problem.fix or "")


@requirement("yaml.file.6")
def test_a_type_is_one_of_five_and_api_means_http() -> None:
    assert [made(type=name).type for name in ("mcp", "cli", "local", "http", "meta", "api")] == [
        *("mcp", "cli", "local", "http", "meta", "http")
    ]
    problem = only(made(type="htp"))
    assert problem.message == "Invalid tool type 'htp'. Must be one of: mcp, cli, local, http, meta"
    assert (problem.code, problem.fix) == ("INVALID_ENUM_VALUE", "Write 'http'")
    assert only(made("  mcp_specific: {}\n", type=None)).fix == "Add 'type: mcp'"


@requirement("yaml.file.6")
@pytest.mark.parametrize("version", ["1.0.0", "0.0.4", "1.2.3-alpha.1+build.5", "1.0.0-0A.is.legal", "10.20.30"])
def test_versions_are_semantic(version: str) -> None:
    assert made(version=version).status == "ok"


@requirement("yaml.file.6")
@pytest.mark.parametrize(
    ("version", "fix"),
    [
        ("1.10", "1.10.0"),
        ("1", "1.0.0"),
        ("v2.3", "2.3.0"),
        ("01.2.3", "1.2.3"),
        ("1.2.3-", "1.0.0"),
        ("latest", "1.0.0"),
        ("[1]", "1.0.0"),
    ],
)
def test_other_versions_are_told_as_they_are_written(version: str, fix: str) -> None:
    problem = only(made(version=version))
    assert problem.code == "INVALID_SEMVER"
    assert version.startswith("[") or f"'{version}'" in problem.message
    assert problem.fix == f"Write 'version: {fix}'"


@requirement("yaml.file.6")
def test_a_name_that_is_a_number_is_told_how_to_be_text() -> None:
    problem = only(made(name="42"))
    assert (problem.code, problem.fix) == ("INVALID_TYPE", "Write 'name: \"42\"'")


# Keys of ours


@requirement("yaml.file.7")
def test_our_own_keys_are_read_and_cost_nothing() -> None:
    definition = made(
        "  requires: ['fs:read:{path}']\n  expose: listed\n  expose_helpers: [h]\n  effect: read\n  timeout_ms: 500\n"
        "  http_specific: {base_url: 'https://example.com'}\n"
        "  commands: [{name: c, effect: idempotent, timeout_ms: 900, method: GET, path: /c}]\n"
        "  executable_knowledge:\n    helpers: [{id: h, function: f}]\n"
        "    validators: [{id: v, validates: c, enforce: true, checks: {any_of: [a, b]}}]\n"
        "  api_complexity: {payload_schemas: [{type: t, detect: {exists: a}}]}\n"
        "  anti_patterns: [{pattern: p, description: d, wrong: w, correct: c, match: {path: a}}]\n",
        type="http",
    )
    assert (definition.problems, definition.status) == ((), "ok")
    command = definition.command("c")
    assert command is not None
    assert (command.effect, command.timeout_ms, definition.validators[0].enforce) == ("idempotent", 900, True)


# Versions


@requirement("yaml.version.4")
def test_checking_follows_the_version_that_was_detected() -> None:
    broken = "  executable_knowledge: {validators: nope}\n"
    for version in ("", '  schema_version: "2"\n', "  schema_version: 2\n"):
        definition = made(version + broken)
        assert (definition.schema_version, definition.status) == (2, "invalid")
        assert definition.problems[0].path == "tool.executable_knowledge.validators"


@requirement("yaml.version.5")
def test_blocks_of_version_2_do_not_act_in_version_1() -> None:
    blocks = "  executable_knowledge: {validators: [{id: v, validates: c, function: f}]}\n"
    definition = made("  schema_version: 1.0\n" + blocks)
    assert (definition.schema_version, definition.status, definition.validators) == (1, "ok", ())
    assert definition.commands == ()
    assert "executable_knowledge" in definition.tool
    assert (only(definition).code, only(definition).severity) == ("VERSION_CONFLICT", "warning")
    assert (
        made("  schema_version: 1.0\n  examples: {c: [{scenario: failure_x}]}\n").problems[0].code == "VERSION_CONFLICT"
    )


# Code


def test_a_broken_validator_is_kept_and_says_why() -> None:
    definition = made(
        "  executable_knowledge:\n    validators:\n"
        "      - {id: a, validates: c, language: ruby, function: x}\n"
        "      - {id: b, validates: c, checks: [{requird_fields: [x]}]}\n"
        "      - {id: n, validates: c}\n"
    )
    language, check, nothing = definition.validators
    assert (check.code, check.checks) == (None, ({"requird_fields": ("x",)},))
    assert definition.status == "degraded"
    assert language.code is not None
    assert language.code.fault == "Invalid language 'ruby'. Must be one of: javascript, python"
    assert nothing.code is None
    assert not nothing.checks
    assert [problem.code for problem in definition.problems] == [
        *("INVALID_ENUM_VALUE", "UNKNOWN_CHECK", "MISSING_REQUIRED_FIELD")
    ]


def test_code_has_its_limits_and_its_language() -> None:
    definition = made(
        "  executable_knowledge:\n    validators:\n      - {id: v, validates: [c, d], language: python, function: x,"
        " timeout_ms: 900, memory_mb: 16, enforce: true, checks: {required_fields: [a]}}\n"
        "    helpers: [{id: h, function: y, description: text, timeout_ms: soon}]\n"
        "    processors:\n"
        "      - {id: p, steps: [helpers.h], stage: before, applies_to: [c], input_schema: {type: object}}\n"
        "      - {id: q, function: z}\n"
    )
    (validator,) = definition.validators
    assert (validator.validates, validator.enforce, validator.checks) == (
        ("c", "d"),
        True,
        ({"required_fields": ("a",)},),
    )
    code = validator.code
    assert code is not None
    assert (code.language, code.timeout_ms, code.memory_mb) == ("python", 900, 16)
    helper = definition.helper("h")
    assert helper is not None
    assert helper.description == "text"
    assert helper.code is not None
    before, after = definition.processors
    assert (before.steps, before.stage, before.applies_to, after.stage) == (("h",), "before", ("c",), "after")
    assert only(definition).path == "tool.executable_knowledge.helpers[0].timeout_ms"


# Total


@requirement("yaml.file.3")
@given(st.binary() | st.text() | st.text(st.characters(categories=["Cs", "L"])))
def test_no_content_makes_reading_raise(data: bytes | str) -> None:
    assert read(data).status in ("invalid", "not_a_tool")


KEYS = st.sampled_from(
    [
        *("id", "name", "type", "function", "validates", "checks", "steps", "helpers", "validators", "processors"),
        *("commands", "tools", "command", "parameters", "input_schema", "required_args", "cli_args", "exec_template"),
        *("path", "method", "body", "effect", "timeout_ms", "field_mappings", "extraction", "payload_schemas"),
        *("detection", "scenario", "error", "validator", "workflow", "executables", "server_command", "filter"),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["c", "*", "helpers.h", "{{x"])
)
JUNK = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
BLOCKS = [
    *("executable_knowledge", "api_complexity", "anti_patterns", "examples", "commands", "tools", "command_groups"),
    *("mcp_specific", "cli_specific", "local_config", "meta_specific", "http_specific", "expose", "expose_helpers"),
    *("effect", "timeout_ms", "schema_version", "type", "id", "name", "version"),
]


@requirement("yaml.file.3")
@given(st.dictionaries(st.sampled_from(BLOCKS), JUNK))
def test_no_shape_of_a_tool_makes_reading_raise(tool: dict[str, Any]) -> None:
    core = {"id": "x", "type": "cli", "name": "n", "version": "1.0.0", "description": "d"}
    definition = read(json.dumps({"tool": {**core, **tool}}))
    errors = [problem for problem in definition.problems if problem.severity == "error"]
    assert (definition.status == "ok") == (not errors)
    assert all(problem.line > 0 and problem.message and problem.fix for problem in definition.problems)


@pytest.mark.parametrize(
    "text",
    [
        "tool: {mcp_specific: {server_command: 'npx " + "/" * 500_000 + "'}, type: mcp}",
        "tool: {notes: '" + "-eyJ" * 250_000 + "'}",
        "tool: {token: '" + "Bearer " * 100_000 + "'}",
        "tool: {version: '1.0.0-" + "1" * 900_000 + "!'}",
        "tool: {id: '" + "a-" * 400_000 + "!'}",
        "tool: {schema_version: 2, examples: {c: [" + "{error: {validator: v}}," * 12_000 + "]}}",
    ],
)
def test_no_file_takes_long(text: str) -> None:
    started = time.process_time()
    assert read(text).status == "invalid"
    assert time.process_time() - started < 3


def test_bytes_that_are_no_text_are_invalid() -> None:
    definition = read(b"tool:\n  id: \xff\n", path=Path("x.yaml"))
    assert (definition.id, definition.status, only(definition).code, only(definition).line) == (
        "x",
        "invalid",
        "YAML_SYNTAX",
        2,
    )


def test_a_definition_has_the_digest_of_its_bytes_and_its_place() -> None:
    path, root = Path("a/case-tool.yaml"), Path("a")
    definition = read(CORE.encode(), path=path, root=root, trusted=False)
    assert (definition.path, definition.root, definition.trusted) == (path, root, False)
    assert definition.sha256 == read(CORE).sha256
    assert len(definition.sha256) == 64


# Real files


@requirement("yaml.file.4")
def test_real_files_load_with_their_versions() -> None:
    versions = {
        "exa": 1,
        "context7": 1,
        "browser": 1,
        "github-cli": 1,
        "ffmpeg": 1,
        "clickup": 2,
        "google-workspace": 2,
    }
    require_recordings()
    files = sorted((RECORDINGS / "tools").rglob("*.yaml"))
    definitions = {path.stem: read(path.read_bytes(), path=path) for path in files}
    invalid = definitions.pop("llm-routing")
    assert {name: (one.schema_version, one.status) for name, one in definitions.items()} == {
        name: (version, "ok") for name, version in versions.items()
    }
    assert (invalid.status, invalid.problems[0].fix) == ("invalid", "Add 'type: cli'")
