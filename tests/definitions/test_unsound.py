"""Parts of a file that could never run, or run slowly: the file says so before anybody calls them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.definitions.place import Place, names
from tests.requirements import requirement
from toolcrib.definitions.argument_checks import failed
from toolcrib.definitions.reader import read
from toolcrib.definitions.runners import meta

SCRIPT = {"entry_point": "run.py", "runtime": "python"}
SERVICE = {"base_url": "https://example.org"}
GET = {"name": "go", "method": "GET", "path": "/"}
SLOW = "const end = Date.now() + 120; while (Date.now() < end) {} ({valid: true})"


def step(**more: Any) -> dict[str, Any]:
    return {"step": "one", "tool": "case", "command": "go", **more}


@pytest.mark.parametrize(
    ("type", "blocks", "path"),
    [
        ("local", {"local_specific": {**SCRIPT, "entry_point": "../../run.py"}}, "local_specific.entry_point"),
        ("local", {"local_specific": {**SCRIPT, "runtime": "ruby"}}, "local_specific.runtime"),
        ("http", {"http_specific": {"base_url": "ftp://example.org"}, "commands": [GET]}, "http_specific.base_url"),
        ("http", {"http_specific": {**SERVICE, "auth": {"type": "magic"}}, "commands": [GET]}, "http_specific.auth"),
        ("http", {"http_specific": SERVICE, "commands": [{**GET, "method": "FETCH"}]}, "commands[0].method"),
        ("http", {"http_config": SERVICE, "commands": [{**GET, "headers": {"Host": "x"}}]}, "commands[0].headers"),
        ("meta", {"meta_specific": {"workflow": [step(command=None)]}}, "meta_specific.workflow"),
        ("meta", {"meta_specific": {"workflow": [step(input={"x": "{{other}}"})]}}, "meta_specific.workflow"),
        ("meta", {"meta_specific": {"orchestration": "decide"}}, "meta_specific.orchestration"),
    ],
)
@requirement("yaml.lint.1", "yaml.lint.2")
async def test_a_command_that_cannot_run_is_told_of_and_off(
    place: Place, type: str, blocks: dict[str, Any], path: str
) -> None:
    place.write("case", type, **{"commands": ["go"] if type != "meta" else [], **blocks})
    async with place.opened() as (source, session):
        (found,) = await source.list()
        assert found.status == "degraded"
        assert [(one.code, one.path) for one in found.problems] == [("INVALID_TEMPLATE", f"tool.{path}")]
        assert all(command.broken for command in found.commands)
        assert names(session) == set()


async def test_what_all_commands_share_is_told_once(place: Place) -> None:
    place.write("case", "http", http_specific={"base_url": "here"}, commands=[GET, {**GET, "name": "again"}])
    async with place.looked_at() as source:
        (found,) = await source.list()
    assert len(found.problems) == 1
    assert all(command.broken for command in found.commands)


@requirement("yaml.lint.1")
async def test_one_command_does_not_hide_that_another_is_as_wrong(place: Place) -> None:
    wrong = {**GET, "method": "FETCH"}
    place.write("case", "http", http_specific=SERVICE, commands=[wrong, {**wrong, "name": "again"}])
    async with place.looked_at() as source:
        (found,) = await source.list()
    assert [one.path for one in found.problems] == ["tool.commands[0].method", "tool.commands[1].method"]


async def test_a_script_in_a_folder_of_the_root_is_inside(place: Place) -> None:
    folder = place.root / "deep"
    place.write("case", "local", root=folder, commands=["go"], local_specific={**SCRIPT, "entry_point": "../run.py"})
    async with place.looked_at() as source:
        (found,) = await source.list()
    assert found.status == "ok"


@pytest.mark.parametrize("block", [{"connection": {"url": "https://"}}, {"server_command": "https://a b.org/mcp"}])
async def test_an_address_of_a_server_that_is_none_is_told_of(place: Place, block: dict[str, Any]) -> None:
    place.write("case", "mcp", commands=["go"], mcp_specific=block)
    async with place.opened() as (source, session):
        (found,) = await source.list()
        assert [one.code for one in found.problems] == ["INVALID_TEMPLATE"]
        assert names(session) == set()


@requirement("yaml.lint.3")
async def test_lint_warns_of_a_validator_that_is_slow_every_time(place: Place) -> None:
    validators = [
        {"id": "slow", "validates": "go", "function": SLOW, "timeout_ms": 5000},
        {"id": "quick", "validates": "go", "function": "({valid: true})"},
    ]
    examples = {"go": [{"scenario": "success", "input": {}, "output": 1}, {"scenario": "failure_x", "error": {}}]}
    place.write("case", "cli", executable_knowledge={"validators": validators}, examples=examples)
    async with place.looked_at() as source:
        (found,) = await source.lint("case")
        (listed,) = await source.list()
    (problem,) = found.problems
    assert (problem.code, problem.severity) == ("SLOW_VALIDATOR", "warning")
    assert problem.path == "tool.executable_knowledge.validators[0].function"
    assert found.status == "ok"
    assert listed.problems == ()


@requirement("yaml.cmd.1")
@pytest.mark.process
async def test_a_command_named_by_several_words_gives_them_to_its_program(place: Place) -> None:
    place.programs.write("say", "import json, sys; print(json.dumps({'args': sys.argv[1:]}))")
    commands = ["pr list", {"name": "say pr view"}, "push"]
    place.write("case", "cli", cli_specific={"executable": "say"}, commands=commands)
    async with place.opened() as (_, session):
        assert names(session) == {"case.pr_list", "case.pr_view", "case.push"}
        said = [(await session.call(f"case.{one}", {"args": ["x"]})).data for one in ("pr_list", "pr_view", "push")]
    assert said == [{"args": ["pr", "list", "x"]}, {"args": ["pr", "view", "x"]}, {"args": ["push", "x"]}]


@pytest.mark.parametrize("members", [True, 5, {"a": 1}, [1, None]])
def test_members_that_are_no_list_of_names_do_no_harm(members: Any) -> None:
    text = json.dumps({"tool": {"id": "m", "type": "meta", "meta_specific": {"aggregates": members}}})
    assert meta.members(read(text)) == ()


@pytest.mark.parametrize(
    ("text", "valid"), [("NaN", False), ("[Infinity]", False), ("-Infinity", False), ("1" * 5000, True), ("null", True)]
)
@requirement("yaml.check.3")
def test_only_what_others_read_too_is_json(text: str, valid: bool) -> None:
    assert (failed([{"format": {"x": "json"}}], {"x": text}) == []) is valid


@requirement("yaml.data.2")
def test_a_detection_by_a_type_that_there_is_none_of_is_told_of() -> None:
    core = {"id": "t", "type": "local", "name": "T", "version": "1.0.0", "description": "d"}
    schemas = [{"type": "a", "detect": {"path": "a", "type": "list"}}]
    found = read(json.dumps({"tool": {**core, "api_complexity": {"payload_schemas": schemas}}}))
    assert (found.status, [one.code for one in found.problems]) == ("degraded", ["INVALID_TYPE"])
