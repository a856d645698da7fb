from __future__ import annotations

from typing import Any

import pytest

from tests.requirements import requirement
from tests.shared import recorded
from toolcrib.definitions.definition import Command, ToolDefinition
from toolcrib.definitions.reader import read
from toolcrib.yaml import thaw


def made(blocks: str, type: str = "mcp") -> ToolDefinition:
    core = f"id: case-tool\ntype: {type}\nname: Case\nversion: 1.0.0\ndescription: d\n"
    return read(core + blocks + ("mcp_config: {server_command: a-server}\n" if type == "mcp" else ""))


def command(blocks: str, name: str = "c", type: str = "mcp") -> Command:
    found = made(blocks, type).command(name)
    assert found is not None
    return found


def schema(said: str) -> Any:
    return thaw(command(f"commands:\n  - name: c\n    {said}\n").input_schema)


# Merging


COSTLY = '{type: object, properties: {a: {pattern: "(a{1000}){1000}"}}}'  # which nothing can compile in time


@requirement("yaml.cmd.1")
def test_commands_come_from_all_places_in_their_order() -> None:
    definition = made(
        "commands: [one, {id: two}]\n"
        "tools: [{id: three}]\n"
        "command_groups: {g: [{command: prog four}]}\n"
        "local_specific: {executables: [{name: five, purpose: text}]}\n"
        "executable_knowledge: {validators: [{id: v, validates: [six, one, '*'], function: f}]}\n"
        "examples: {seven: [{scenario: success}], a_flow: [{step: 1, command: eight}, {step: 2, command: one}]}\n",
        "local",
    )
    assert [(one.name, one.listed) for one in definition.commands] == [
        *(("one", True), ("two", True), ("three", True), ("four", True), ("five", True)),
        *(("six", False), ("seven", False), ("eight", False)),
    ]


@requirement("yaml.cmd.1")
def test_of_two_places_the_earlier_wins_key_by_key() -> None:
    found = command(
        "commands: [{name: c, effect: read}]\n"
        "tools: [{id: c, description: from tools, effect: once, notes: [n]}]\n"
        "command_groups: {g: [{command: gh c, description: from groups, usage: gh c X}]}\n"
    )
    assert (found.effect, found.description, found.prefix, found.program) == ("read", "from tools", ("c",), "gh")
    assert set(found.fields) == {"name", "id", "effect", "description", "notes", "command", "usage"}


@requirement("yaml.cmd.2")
def test_words_of_a_command_line_are_joined_and_its_program_is_dropped() -> None:
    blocks = 'cli_specific: {executable: gh}\ncommand_groups: {r: [{command: "gh repo create"}, "gh api", "gh"]}\n'
    found = {one.name: (one.program, one.prefix, one.argv) for one in made(blocks, "cli").commands}
    assert found == {
        "repo_create": ("gh", ("repo", "create"), True),
        "api": ("gh", ("api",), True),
        "gh": ("gh", (), True),
    }


@requirement("yaml.cmd.2")
@pytest.mark.parametrize(
    ("line", "name", "prefix"),
    [
        ("gh pr view [NUMBER]", "pr_view", ("pr", "view")),
        ("gh pr view <number> --web", "pr_view", ("pr", "view")),
        ("gh run list --json", "run_list", ("run", "list")),
        ("/usr/bin/gh pr list", "pr_list", ("pr", "list")),
        ("pr list", "pr_list", ("pr", "list")),
        ("gh run build:all", "run_build_all", ("run", "build:all")),
        ("gh workflow-run start", "workflow-run_start", ("workflow-run", "start")),
    ],
)
def test_only_fixed_words_are_part_of_the_name(line: str, name: str, prefix: tuple[str, ...]) -> None:
    found = command(f'cli_specific: {{executable: gh}}\ncommand_groups: {{g: ["{line}"]}}\n', name, "cli")
    assert (found.prefix, found.program) == (prefix, "gh")


@requirement("yaml.cmd.2")
def test_another_form_of_the_same_command_is_knowledge_of_it() -> None:
    lines = '"gh pr list", "gh pr list --web", "gh pr list [LIMIT]", "gh pr list"'
    definition = made(f"cli_specific: {{executable: gh}}\ncommand_groups: {{g: [{lines}]}}\n", "cli")
    assert [one.name for one in definition.commands] == ["pr_list"]
    assert [(problem.code, problem.path) for problem in definition.problems] == [
        ("DUPLICATE_COMMAND", "command_groups.g[3]")
    ]


@requirement("yaml.cmd.2")
def test_of_two_commands_of_one_name_in_a_block_the_first_stands() -> None:
    definition = made("commands: [{name: c, description: first}, {name: c, description: second}]\ntools: [{id: c}]\n")
    (problem,) = definition.problems
    assert (problem.code, problem.path, definition.status) == ("DUPLICATE_COMMAND", "commands[1].name", "degraded")
    assert [one.description for one in definition.commands] == ["first"]


@requirement("yaml.cmd.2")
def test_real_command_groups_become_commands_with_a_prefix() -> None:
    definition = read(recorded("tools/cli/github-cli.yaml"))
    found = definition.command("repo_create")
    assert found is not None
    assert (found.program, found.prefix, found.argv) == ("gh", ("repo", "create"), True)
    assert len({one.name for one in definition.commands}) == len(definition.commands) == 16


def test_commands_of_a_program_without_template_take_words() -> None:
    assert [(one.prefix, one.argv) for one in made("commands: [status]\n", "cli").commands] == [(("status",), True)]
    assert not command("commands: [{name: c, cli_args: [x]}]\n", type="cli").argv
    assert not command("commands: [{name: c, parameters: [{q: text}]}]\n", type="cli").argv
    assert not command("commands: [c]\n", type="local").argv


def test_a_workflow_of_a_tool_of_tools_is_its_command_run() -> None:
    assert [one.name for one in made("meta_specific: {workflow: [{tool: a}]}\n", "meta").commands] == ["run"]
    assert made("workflow: {typical: []}\n", "meta").commands == ()


@pytest.mark.parametrize(
    ("blocks", "code", "path"),
    [
        ("commands: {c: {}}\n", "INVALID_TYPE", "commands"),
        ("commands: [{description: x}]\n", "MISSING_REQUIRED_FIELD", "commands[0].name"),
        ("commands: [3]\n", "INVALID_TYPE", "commands[0]"),
        ("commands: [a/b]\n", "INVALID_ID", "commands[0]"),
        ("command_groups: {g: [{usage: x}]}\n", "MISSING_REQUIRED_FIELD", "command_groups.g[0]"),
        ("command_groups: {g: text}\n", "INVALID_TYPE", "command_groups.g"),
        ("commands: [{name: c, effect: reed}]\n", "INVALID_ENUM_VALUE", "commands[0].effect"),
        ("commands: [{name: c, timeout_ms: -1}]\n", "INVALID_TYPE", "commands[0].timeout_ms"),
        ("commands: [{name: c, input_schema: {type: objct}}]\n", "INVALID_SCHEMA", "commands[0].input_schema"),
        (f"commands: [{{name: c, input_schema: {COSTLY}}}]\n", "INVALID_SCHEMA", "commands[0].input_schema"),
        ("commands: [{name: c, parameters: text}]\n", "INVALID_SCHEMA", "commands[0].parameters"),
        ("commands: [{name: c, exec_template: 'x {{y'}]\n", "INVALID_TEMPLATE", "commands[0].exec_template"),
        ("commands: [{name: c, cli_args: [a, 'x{{y...}}']}]\n", "INVALID_TEMPLATE", "commands[0].cli_args"),
        ("commands: [{name: c, method: GET, path: '/{{'}]\n", "INVALID_TEMPLATE", "commands[0].path"),
        ("commands: [{name: c, validation: validators.v}]\n", "DANGLING_REFERENCE", "commands[0].validation"),
        ("commands: [{name: c, processors: [p]}]\n", "DANGLING_REFERENCE", "commands[0].processors"),
    ],
)
def test_a_broken_command_degrades_its_file(blocks: str, code: str, path: str) -> None:
    definition = made(blocks)
    (problem,) = definition.problems
    assert (problem.code, problem.path, problem.line, definition.status) == (code, path, 6, "degraded")


def test_a_command_that_cannot_run_says_why() -> None:
    found = command("commands: [{name: c, cli_args: ['{{x']}]\n", type="cli")
    assert found.broken is not None
    assert "not closed" in found.broken
    assert command("commands: [{name: c, validation: 'needs a name'}]\n").broken is None


def test_a_validator_that_a_command_names_checks_it() -> None:
    definition = made(
        "commands: [{name: c, validation: validators.v}]\n"
        "executable_knowledge: {validators: [{id: v, validates: d, function: f}]}\n"
    )
    assert definition.validators[0].validates == ("d", "c")


# Arguments


@requirement("yaml.file.8")
@pytest.mark.parametrize(
    ("said", "properties"),
    [
        ("parameters: [{numResults: text}]", {"numResults": {"description": "text"}}),
        ("parameters: [{name: Filename}]", {"name": {"description": "Filename"}}),
        ("parameters: [{name: file, description: text}]", {"file": {"description": "text"}}),
        ("parameters: [{name: file, type: string, default: x}]", {"file": {"type": "string", "default": "x"}}),
        ("parameters: [{name: file, type: date}]", {"file": {"description": "date"}}),
        (
            "parameters: [{type: The kind}, {description: Text}]",
            {"type": {"description": "The kind"}, "description": {"description": "Text"}},
        ),
        (
            "parameters: [{name: text, notes: more}]",
            {"name": {"description": "text"}, "notes": {"description": "more"}},
        ),
        ("parameters: [query]", {"query": {}}),
        ("parameters: {query: text}", {"query": {"description": "text"}}),
        ("parameters: [{limit: {type: integer, minimum: 1}}]", {"limit": {"minimum": 1, "type": "integer"}}),
    ],
)
def test_prose_parameters_are_optional_properties(said: str, properties: Any) -> None:
    assert schema(said) == {"type": "object", "properties": properties}


@requirement("yaml.file.8")
def test_a_described_parameter_may_be_required() -> None:
    found = schema("parameters: [{name: a, required: true}, {name: b, required: false}]")
    assert found == {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]}


@requirement("yaml.file.8")
def test_parameters_may_be_one_schema() -> None:
    found = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert schema("parameters: {type: object, properties: {a: {type: string}}, required: [a]}") == found
    assert schema("parameters: {properties: {a: {type: string}}, required: [a]}") == found


@requirement("yaml.cmd.4")
def test_the_first_description_of_the_arguments_counts() -> None:
    said = [
        "input_schema: {type: object, title: first}",
        "required_args: [a]\n    optional_args: [b, {c: text}]",
        "parameters: [{d: text}]",
    ]
    assert schema("\n    ".join(said)) == {"type": "object", "title": "first"}
    assert schema("\n    ".join(said[1:])) == {
        "type": "object",
        "properties": {"a": {}, "b": {}, "c": {"description": "text"}},
        "required": ["a"],
    }
    assert schema("\n    ".join([*said[1:], "input_schema: {}"])) == {"type": "object"}
    assert schema("parameters: {type: object}\n    required_args: [a]") == {"type": "object"}
    assert schema("description: nothing of arguments") is None
    assert schema("parameters: []") is None
