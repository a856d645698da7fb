from typing import Any

import pytest

from tests.definitions.test_validators import defined
from tests.requirements import requirement
from tests.shared import recorded
from toolcrib.definitions.argument_checks import ArgumentFinding
from toolcrib.definitions.definition import ToolDefinition
from toolcrib.definitions.filters import tokens
from toolcrib.definitions.knowledge import hint, tool_help, topics, write
from toolcrib.definitions.reader import read
from toolcrib.definitions.validators import ValidationVerdict, refusal

SHAPE: dict[str, Any] = {
    "pattern": "wrong_shape",
    "description": "Ids as one text",
    "rationale": "The service wants a list",
    "wrong": 'add_item({\n  name: "x",\n  ids: "1,2"\n})',
    "correct": 'add_item({\n  name: "x",\n  ids: [1, 2]\n})',
}


def hinted(
    definition: ToolDefinition, path: str = "", *, command: str = "add_item", said: str = "bad", code: str = "x"
) -> Any:
    findings = [ArgumentFinding(path, code, said)] if path else []
    return hint(definition, command, "invalid_arguments" if path else "failed", said, findings)


@requirement("yaml.know.2")
def test_an_anti_pattern_that_shows_command_and_path_hints_at_the_correct_form() -> None:
    told = hinted(defined(anti_patterns=[SHAPE]), "ids[0]")
    assert told == f"Ids as one text. The service wants a list.\nCorrect: {SHAPE['correct']}"
    assert hinted(defined(anti_patterns=[SHAPE]), "ids", command="drop_item") is None
    assert hinted(defined(anti_patterns=[SHAPE]), "idsx") is None


@requirement("yaml.know.2")
def test_a_field_that_an_anti_pattern_leaves_as_it_is_gets_no_hint() -> None:
    assert hinted(defined(anti_patterns=[SHAPE]), "name") is None


@requirement("yaml.know.2")
@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ({"path": "ids"}, True),
        ({"path": "id"}, False),
        ({"command": "add_item", "path": "ids", "code": "type", "message": "NO list"}, True),
        ({"command": "drop_item", "path": "ids"}, False),
        ({"code": "invalid_arguments"}, True),
        ({"code": "range"}, False),
        ({"message": "elsewhere"}, False),
        ({}, False),
    ],
)
def test_a_match_fits_when_all_that_it_says_fits(match: dict[str, str], fits: bool) -> None:
    pattern = {"pattern": "p", "description": "d", "wrong": "w", "correct": "c", "match": match}
    told = hinted(defined(anti_patterns=[pattern]), "ids[1]", said="ids is no list", code="type")
    assert (told is not None) is fits


@requirement("yaml.know.2")
def test_hints_are_tried_in_a_fixed_order() -> None:
    blocks: dict[str, Any] = {
        "anti_patterns": [SHAPE, {**SHAPE, "description": "Matched", "match": {"path": "ids"}}],
        "error_handling": {"one": {"error": "No  List", "solution": "solve it"}},
        "api_complexity": {"api_quirks": [{"quirk": "q", "description": "add_item ids", "mitigation": "mitigate"}]},
        "examples": {"add_item": [{"scenario": "f", "error": {"message": "no list"}, "mitigation": "as shown"}]},
    }
    expected = ["Matched.", "Ids as one text.", "solve it", "mitigate", "as shown"]
    for said, next_block in zip(expected, ["anti_patterns", *blocks], strict=True):
        told = hinted(defined(**blocks), "ids", said="that is no list")
        assert str(told).startswith(said)
        if said == "Matched.":
            blocks["anti_patterns"].pop()
        else:
            blocks.pop(next_block)
    assert hinted(defined(**blocks), "ids", said="that is no list") is None


@requirement("yaml.know.2")
def test_a_solution_is_found_by_the_error_in_a_message() -> None:
    issues = {"big": {"issue": "Too large", "solutions": ["Make it smaller.", "Or split it."]}, "odd": "no entry"}
    definition = defined(common_issues=issues)
    assert hinted(definition, said="oops: too large!") == "Make it smaller. Or split it."
    assert hinted(definition, said="something else") is None


@requirement("yaml.know.2")
def test_a_hint_has_600_characters_at_most_and_room_for_the_correct_form() -> None:
    wordy = {**SHAPE, "rationale": "because " * 200}
    told = hinted(defined(anti_patterns=[wordy]), "ids")
    assert len(told) <= 600
    assert "ids: [1, 2]" in told
    assert len(hinted(defined(anti_patterns=[{**SHAPE, "correct": "x" * 2000}]), "ids")) == 600


@requirement("yaml.know.2")
def test_a_rejection_carries_the_hint() -> None:
    failure = refusal(
        defined(anti_patterns=[SHAPE]), "add_item", ValidationVerdict((ArgumentFinding("ids", "type", "no list"),))
    )
    assert failure.hint is not None
    assert "ids: [1, 2]" in failure.hint


@requirement("yaml.know.2")
def test_known_tools_give_their_hints() -> None:
    clickup = read(recorded("tools/mcp/clickup.yaml"))
    assert "assignees: [456]" in str(hinted(clickup, "assignees", command="create_task"))
    gh = read(recorded("tools/cli/github-cli.yaml"))
    told = hinted(gh, command="pr_list", said="You are not logged into any GitHub hosts. To log in, run: ...")
    assert told == "Run 'gh auth login' to authenticate"


# Help

TOLD: dict[str, Any] = {
    "commands": [
        {
            "name": "add_item",
            "description": "Adds an item",
            "notes": ["One at a time"],
            "input_schema": {"type": "object", "properties": {"ids": {}}},
        },
        "drop_item",
    ],
    "anti_patterns": [SHAPE],
    "api_complexity": {
        "api_quirks": [
            {"quirk": "q1", "description": "ids start at 1"},
            {"quirk": "q2", "description": "colour is odd"},
        ],
        "field_mappings": {"ids": {"type": "list"}, "colour": {"type": "text"}},
        "known_limitations": ["add_item takes 10 at most", "no weekends"],
    },
    "examples": {
        "add_item": [
            {"scenario": "success", "input": {"ids": ["1"]}, "output": {"ok": True}},
            {"scenario": "success", "input": {"ids": ["2"]}, "output": {"ok": True}},
            {"scenario": "failure_x", "input": {"ids": []}, "error": {"code": "API_ERROR", "message": "empty"}},
        ]
    },
    "best_practices": ["Be kind"],
    "knowledge": [{"topic": "history", "content": "It is old"}],
    "local_specific": {"entry_point": "run.sh", "token": "not for models"},
}


@requirement("yaml.know.1")
def test_help_tells_what_mentions_the_command_or_its_parameters() -> None:
    told = tool_help(defined(**TOLD), "add_item")
    for part in (
        "One at a time",
        '"ids":["1"]',
        "message: empty",
        "Avoid: Ids",
        "start at 1",
        "Field ids",
        "10 at most",
    ):
        assert part in told
    for part in ('"ids":["2"]', "colour", "weekends", "not for models"):
        assert part not in told
    assert told.endswith("Other topics: anti_patterns, api_complexity, examples, best_practices, history")


@requirement("yaml.know.1")
def test_parameters_that_only_the_server_knows_count_too() -> None:
    assert "Field colour" not in tool_help(defined(**TOLD), "drop_item")
    assert "Field colour" in tool_help(defined(**TOLD), "drop_item", parameters=["colour"])


@requirement("yaml.know.1")
def test_a_topic_is_told_in_full_and_an_unknown_one_names_the_others() -> None:
    definition = defined(**TOLD)
    assert tool_help(definition, "add_item", "best_practices") == "- Be kind"
    assert tool_help(definition, "add_item", "history") == "It is old"
    assert tool_help(definition, "add_item", "nothing").startswith("No topic 'nothing'. Other topics: anti_patterns")
    assert tool_help(defined(), "c") == "Nothing more is known of 'c'."
    assert tool_help(defined(), "c", "x") == "No topic 'x'. There are none."


@requirement("yaml.know.1")
def test_help_stays_within_800_tokens() -> None:
    quirks = [{"quirk": f"q{number}", "description": f"add_item {'word ' * 60}"} for number in range(40)]
    told = tool_help(defined(**{**TOLD, "api_complexity": {"api_quirks": quirks}}), "add_item")
    assert 600 < tokens(told) <= 800


@requirement("yaml.know.1")
def test_how_a_tool_runs_is_no_topic() -> None:
    assert not {"local_specific", "commands", "executable_knowledge"} & set(topics(defined(**TOLD)))


def test_data_is_written_as_lines() -> None:
    assert write({"a": 1, "b": ["x", {"c": None, "d": []}], "e": "two\nlines"}) == (
        "a: 1\nb:\n  - x\n  -\n    c: null\n    d:\ne:\n  two\n  lines"
    )
