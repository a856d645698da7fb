"""Templates: read once, filled for every call, and never more than they say."""

from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib.definitions.runners import templates
from toolcrib.definitions.runners.templates import ABSENT, BadTemplate
from toolcrib.errors import ToolFailure


def filled(template: Any, values: dict[str, Any], dashed: frozenset[str] = frozenset()) -> list[str]:
    read = templates.command_line(template) if isinstance(template, str) else templates.words(template)
    return read.fill(values, dashed.__contains__)


@requirement("yaml.run.cli.1")
@pytest.mark.parametrize("value", ["a b", "; rm -rf /", "$(id)", "a\nb", "", "'\"", "é €", "*"])
def test_a_value_stays_inside_its_word(value: str) -> None:
    assert filled(["say", "--text={{x}}", "{{x}}"], {"x": value}) == ["say", f"--text={value}", value]


@requirement("yaml.run.cli.1")
def test_values_that_are_no_texts_are_written_as_json() -> None:
    values = {"n": 1.5, "yes": True, "list": [1, "a"], "deep": {"a": {"b": ["x"]}}}
    template = ["{{n}}", "{{ yes }}", "{{list}}", "{{deep.a.b[0]}}", "{{deep.a}}", 7]
    assert filled(template, values) == ["1.5", "true", '[1,"a"]', "x", '{"b":["x"]}', "7"]


@requirement("yaml.run.cli.1")
def test_a_list_is_spread_over_words() -> None:
    assert filled(["a", "{{x...}}", "z"], {"x": ["b c", 1]}) == ["a", "b c", "1", "z"]
    assert filled(["a", "{{x...}}"], {}) == ["a"]
    with pytest.raises(ToolFailure, match="x is a list"):
        filled(["{{x...}}"], {"x": "text"})


@requirement("yaml.run.cli.1")
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ["list"]),
        ({"state": None}, ["list"]),
        ({"state": "open"}, ["list", "--state", "open"]),
        ({"labels": []}, ["list"]),
        ({"labels": ["a", "b"]}, ["list", "--label", "a", "b"]),
        ({"draft": True}, ["list", "--draft"]),
        ({"draft": False}, ["list"]),
        ({"draft": "false"}, ["list"]),
        ({"from": "x"}, ["list"]),
        ({"from": "x", "to": "y"}, ["list", "--range", "x", "y"]),
    ],
)
def test_groups_and_switches_appear_when_they_have_values(values: dict[str, Any], expected: list[str]) -> None:
    template = [
        "list",
        ["--state", "{{state}}"],
        ["--label", "{{labels...}}"],
        {"flag": "--draft", "when": "draft"},
        ["--range", "{{from}}", "{{to}}"],
    ]
    assert filled(template, values) == expected


@requirement("yaml.run.cli.1")
def test_a_word_outside_of_groups_needs_its_value() -> None:
    with pytest.raises(ToolFailure, match=r"^a\.b is required$") as caught:
        filled(["{{a.b}}"], {"a": {}})
    assert caught.value.code == "invalid_arguments"
    assert templates.words(["{{a}}", ["{{b}}"], "{{c...}}"]).required == ("a",)


@requirement("yaml.run.cli.2")
def test_a_template_is_split_before_values_are_put_in() -> None:
    line = "gh pr create --title {{ title }} --body '{{body}}: \"{{n}}\"' {{rest...}}"
    values = {"title": "a b; c", "body": "' x '", "n": 3, "rest": ["1 2"]}
    assert filled(line, values) == ["gh", "pr", "create", "--title", "a b; c", "--body", "' x ': \"3\"", "1 2"]


@requirement("yaml.run.cli.2")
@pytest.mark.parametrize(
    ("template", "fits"),
    [
        (["view", "{{x}}"], False),
        (["--title", "{{x}}"], True),
        (["--title=a", "{{x}}"], False),
        (["--title={{x}}"], True),
        (["view", "--", "{{x}}"], True),
        (["--", "a", "{{x}}"], True),
        (["--title", "a", "{{x}}"], False),
        ([{"flag": "--draft", "when": "yes"}, "{{x}}"], False),
        (["-t", "{{x}}"], True),
        (["a{{x}}"], True),
        (["{{x}}{{x}}"], False),
        (["{{dashes}}", "{{x}}"], False),
        ("view {{x}}", False),
        ("view -t {{x}}", True),
    ],
)
def test_a_value_that_looks_like_an_option_is_refused(template: Any, fits: bool) -> None:
    values = {"x": "-rf", "yes": True, "dashes": "--"}
    allowed = frozenset({"dashes"})
    if fits:
        assert filled(template, values, allowed)[-1].endswith("-rf")
        return
    with pytest.raises(ToolFailure, match=r"x: '-rf.*' begins with a dash") as caught:
        filled(template, values, allowed)
    assert caught.value.code == "invalid_arguments"


@requirement("yaml.run.cli.2")
def test_a_spread_list_hides_no_option() -> None:
    with pytest.raises(ToolFailure, match="begins with a dash"):
        filled(["--label", "{{x...}}"], {"x": ["-a", "-b"]})
    assert filled(["{{x...}}"], {"x": ["-a"]}, frozenset({"x"})) == ["-a"]


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_what_no_program_can_be_given_is_refused(value: str) -> None:
    with pytest.raises(ToolFailure, match="no program") as caught:
        filled(["{{x}}"], {"x": value})
    assert caught.value.code == "invalid_arguments"


@requirement("yaml.run.cli.2")
@pytest.mark.parametrize(
    "template",
    [
        ["{{x"],
        ["{{}}"],
        ["{{.Names}}"],
        ["{{a b}}"],
        ["a{{x...}}"],
        [None],
        [{"flag": "--x"}],
        [{"flag": "--x", "when": True}],
        ["ok", ["{{x"]],
        "say '{{x}}",
        "{{x",
        "",
        "a {{x}}{{y...}}",
        {"a": 1},
        7,
    ],
)
def test_broken_templates_are_found_when_they_are_read(template: Any) -> None:
    read = templates.command_line if isinstance(template, str) else templates.words
    with pytest.raises(BadTemplate):
        read(template)


def test_braces_that_close_nothing_are_text() -> None:
    assert filled(['{"a":{"b":{{x}}}}'], {"x": 1}) == ['{"a":{"b":1}}']


@requirement("yaml.run.http.1", "yaml.run.meta.1")
def test_a_whole_value_keeps_its_type_and_an_absent_one_is_left_out() -> None:
    template = templates.json(
        {"n": "{{n}}", "t": "no. {{n}}", "gone": "{{no}}", "half": "a {{no}}", "l": ["{{no}}"]}, "body"
    )
    assert template.fill({"n": [1, None]}) == {"n": [1, None], "t": "no. [1,null]", "l": []}
    assert templates.json("{{x.y}}", "body").fill({"x": {"y": None}}) is None
    assert templates.json("{{x.y}}", "body").fill({"x": 1}) is ABSENT
