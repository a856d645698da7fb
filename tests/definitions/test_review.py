"""What lint finds that a file names and does not have, and what a file does where it was broken."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib import Crib
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.migration import rolled_back
from toolcrib.definitions.origin_labels import labels_of
from toolcrib.definitions.reader import read
from toolcrib.definitions.source import FileSource
from toolcrib.sandbox.javascript import JavaScript

CORE = "id: say\nname: Say\ntype: cli\nversion: 1.0.0\nschema_version: 2.0\ndescription: d\n"
ECHO = "cli_specific: {executable: echo}\n"
GREET = (
    "commands:\n  - name: greet\n    cli_args: ['{{name}}']\n"
    "    input_schema: {type: object, properties: {name: {type: string}}, required: [name]}\n"
)


def made(*blocks: str) -> ToolDefinition:
    return read(CORE + "".join(blocks))


def found(*blocks: str) -> list[tuple[str, int, str | None]]:
    return [(one.code, one.line, one.fix) for one in made(*blocks).problems]


@requirement("findings.tools.1")
@pytest.mark.parametrize(
    ("block", "line", "meant"),
    [
        ("efect: read\n", 7, "effect"),
        ("executable_knowlege: {validators: []}\n", 7, "executable_knowledge"),
        ("command: [greet]\n", 7, "commands"),
        ("commands:\n  - name: greet\n    cli_arg: [x]\n", 9, "cli_args"),
        ("executable_knowledge:\n  validator: []\n", 8, "validators"),
        ("cli_config: {excutable: echo}\n", 7, "executable"),
        ("health_check: {metod: command, command: which echo}\n", 7, "method"),
    ],
)
def test_a_key_that_is_almost_one_that_acts_is_found(block: str, line: int, meant: str) -> None:
    assert ("UNKNOWN_KEY", line, f"Write '{meant}'") in found(block)


@requirement("findings.tools.1")
@pytest.mark.parametrize("key", ["requires_confirmation", "requires_confirmaton", "destructive", "read_only"])
def test_a_key_that_only_programs_have_is_found(key: str) -> None:
    (problem,) = found(ECHO, GREET + f"    {key}: true\n")
    assert problem[:2] == ("UNKNOWN_KEY", 12)


@requirement("findings.tools.9")
@pytest.mark.parametrize(
    ("wrong", "right", "code", "fix"),
    [
        ("labels: [trustd]", "labels: [trusted]", "INVALID_ENUM_VALUE", "Write 'trusted'"),
        ("labels: [public, private]", "labels: private", "INVALID_ENUM_VALUE", None),
        ("labels: {a: b}", "labels: untrusted", "INVALID_ENUM_VALUE", None),
    ],
)
async def test_labels_in_a_file_count_and_bad_ones_are_found(
    wrong: str, right: str, code: str, fix: str | None, tmp_path: Path
) -> None:
    for place in (f"{GREET}    {wrong}\n", f"{GREET}{wrong}\n"):
        (problem,) = found(ECHO, place)
        assert problem[:2] == (code, 12)
        assert fix in (None, problem[2])
    (tmp_path / "say.yaml").write_text(f"{CORE}{ECHO}{GREET}    {right}\n", "utf-8")
    (tmp_path / "odd.yaml").write_text(f"{CORE}{ECHO}{GREET}    {wrong}\n".replace("say", "odd"), "utf-8")
    async with Crib([tmp_path]) as crib:
        tools = {tool.id: tool.labels for tool in crib.catalog.view(("*",)).tools}
        assert tools["say.greet"] == (right.rpartition(" ")[2].strip("[]"),)
        assert tools["odd.greet"] == ("untrusted",)


@requirement("findings.tools.9")
def test_the_labels_of_a_file_that_nobody_vouches_for_make_nothing_trusted() -> None:
    for label, counting in (("trusted", ()), ("public", ()), ("untrusted", ("untrusted",))):
        definition = read(f"{CORE}{ECHO}{GREET}    labels: [{label}]\n", trusted=False)
        assert labels_of(definition, definition.commands[0]) == counting


@requirement("findings.tools.9")
def test_a_role_that_there_is_none_of_is_found() -> None:
    wrong = GREET.replace("{type: string}", "{type: string, x-toolcrib-role: recipien}")
    assert found(ECHO, wrong) == [("INVALID_ENUM_VALUE", 11, "Write 'recipient'")]


@requirement("findings.tools.2")
def test_an_argument_that_must_be_there_and_cannot_is_found() -> None:
    wrong = GREET.replace("required: [name]", "required: [nam]")
    assert found(ECHO, wrong) == [("UNKNOWN_ARGUMENT", 11, "Write 'name'")]


@requirement("findings.tools.1")
def test_keys_that_are_only_knowledge_are_left_alone() -> None:
    assert found(ECHO, GREET, "use_cases: [a]\nbest_practices: [b]\nlimitations: [c]\nexample: d\n") == []


@requirement("findings.tools.2")
def test_a_validator_of_a_command_that_is_not_listed_is_found() -> None:
    validators = "executable_knowledge:\n  validators:\n    - {id: v, validates: greett, checks: {any_of: [name]}}\n"
    assert found(ECHO, GREET, validators) == [("DANGLING_REFERENCE", 14, "Write 'greet'")]
    assert found(ECHO, GREET, validators.replace("greett", "greet")) == []


@requirement("findings.tools.2")
def test_a_place_holder_that_is_no_argument_is_found() -> None:
    wrong = GREET.replace("{{name}}", "{{nam}}")
    assert found(ECHO, wrong) == [("UNKNOWN_PLACEHOLDER", 10, "Write 'name'")]


@requirement("findings.tools.2")
def test_a_command_with_nothing_to_run_is_found() -> None:
    assert [one[0] for one in found("commands: [{name: greet}]\n")] == ["NOTHING_TO_RUN"]


@requirement("findings.tools.3")
def test_checks_of_a_soft_folder_say_whether_they_enforce() -> None:
    entry = "{id: v, validates: greet, checks: {any_of: [name]}, function: 'args => ({valid: true})'%s}"
    block = "executable_knowledge: {validators: [" + entry + "]}\n"
    soft = read(CORE + ECHO + GREET + block % "", soft_checks=True)
    assert [one.code for one in soft.problems] == ["SOFT_CHECKS"]
    assert found(ECHO, GREET, block % "") == []
    assert found(ECHO, GREET, block % ", enforce: true") == found(ECHO, GREET, block % ", enforce: false") == []


@requirement("findings.tools.3")
async def test_a_validator_whose_verdict_is_no_truth_value_is_found(tmp_path: Path) -> None:
    code = 'args => ({valid: "no"})'
    entry = f"executable_knowledge:\n  validators:\n    - id: v\n      validates: greet\n      function: '{code}'\n"
    (tmp_path / "say.yaml").write_text(CORE + ECHO + GREET + entry, "utf-8")
    source = FileSource([tmp_path])
    try:
        (definition,) = await source.lint()
        assert [(one.code, one.line) for one in definition.problems] == [("INVALID_VERDICT", 16)]
        assert not (await source.validate("say", "greet", {"name": "x"})).valid
    finally:
        await source.stop()


@requirement("findings.tools.3")
@pytest.mark.parametrize("before", ["note;", "({valid: true});", "list.push(1);"])
async def test_a_statement_before_a_function_does_not_stand_for_it(before: str) -> None:
    function = 'function check(args) {\n  return {valid: false, errors: ["x"]};\n}'
    code = f'const note = "a", list = [];\n{before}\n{function}'
    engine = JavaScript()
    try:
        ran = await engine.run(code, b"{}", name="v", role="validator", timeout_s=5, memory_bytes=1 << 23)
    finally:
        await engine.close()
    assert ran.value == b'{"valid":false,"errors":["x"]}'
    entry = f"executable_knowledge: {{validators: [{{id: v, validates: greet, function: {json.dumps(code)}}}]}}\n"
    assert [one[0] for one in found(ECHO, GREET, entry)] == ["STATEMENT_BEFORE_FUNCTION"]


@pytest.mark.process
@requirement("findings.tools.4")
async def test_what_validators_warn_of_is_in_the_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entry = "executable_knowledge:\n  validators:\n    - {id: v, validates: greet, checks: {deprecated: {name: old}}}\n"
    (tmp_path / "say.yaml").write_text(CORE + "effect: read\n" + ECHO + GREET + entry, "utf-8")
    policy = {"grants": {"allow": ["exec:cmd:echo"]}}
    async with Crib([FileSource([tmp_path])], policy=policy) as crib:
        session = await crib.open(owner="ada", namespaces=["say"])
        with caplog.at_level(logging.WARNING, "toolcrib.files"):
            result = await session.call("say.greet", {"name": "x"})
    assert (result.ok, [one["code"] for one in result.metadata["findings"]]) == (True, ["deprecated"])
    assert any("say.greet" in record.getMessage() for record in caplog.records)


@pytest.mark.process
@requirement("findings.tools.5")
async def test_a_broken_edit_keeps_the_last_good_version_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "say.yaml"
    path.write_text(CORE + "effect: read\n" + ECHO + GREET, "utf-8")
    source = FileSource([tmp_path])
    async with Crib([source], policy={"grants": {"allow": ["exec:cmd:echo"]}}) as crib:
        session = await crib.open(owner="ada", namespaces=["say"])
        path.write_text("id: say\ntype: [\n", "utf-8")
        with caplog.at_level(logging.WARNING, "toolcrib.files"):
            result = await session.call("say.greet", {"name": "x"})
        assert result.ok
        (finding,) = await source.findings()
        path.write_text(CORE.replace("1.0.0", "1.0.1") + "effect: read\n" + ECHO + GREET, "utf-8")
        mended = await session.call("say.greet", {"name": "x"})
        assert (mended.ok, source.definitions["say"].version) == (True, "1.0.1")
        assert await source.findings() == []
    assert finding.severity == "error"
    assert finding.message.endswith("(its tools stay as they were)")
    assert any("stay as they were" in record.getMessage() for record in caplog.records)


@requirement("findings.tools.6")
def test_a_file_that_was_rolled_back_has_no_finding() -> None:
    text = (
        CORE + "expose_helpers: [h]\n" + ECHO + GREET + "    validation: v\n    processors: [p]\n"
        "executable_knowledge:\n  validators: [{id: v, validates: greet, checks: {any_of: [name]}}]\n"
        "  helpers: [{id: h, function: 'args => args'}]\n  processors: [{id: p, steps: [h]}]\n"
        "examples:\n  greet:\n    - {scenario: success, input: {name: a}}\n    - {scenario: failure_x, input: {}}\n"
    )
    assert read(text).problems == ()
    after = read(rolled_back(text.encode()))
    assert (after.schema_version, after.problems, after.status) == (1, (), "ok")


@requirement("findings.tools.7")
async def test_trying_examples_fills_the_templates(tmp_path: Path) -> None:
    examples = "examples: {greet: [{scenario: success, input: {nam: a}}]}\n"
    loose: dict[str, Any] = {"old": "properties: {name: {type: string}}, required: [name]", "new": "properties: {}"}
    text = CORE + ECHO + GREET.replace(loose["old"], loose["new"]) + examples
    (tmp_path / "say.yaml").write_text(text, "utf-8")
    source = FileSource([tmp_path])
    try:
        report = await source.test("say")
    finally:
        await source.stop()
    assert [one.scenario for one in report.failed] == ["success"]
    assert "templates" in report.failed[0].reason
