from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from toolcrib.yaml import YamlDocument, decoded, freeze, parse, scalar, spelled, thaw


def codes(document: YamlDocument) -> list[str]:
    return [problem.code for problem in document.problems]


@requirement("yaml.file.3")
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(
            ("yes", "yes"),
            ("no", "no"),
            ("on", "on"),
            ("off", "off"),
            ("2020-01-01", "2020-01-01"),
            ("12:30:45", "12:30:45"),
        ),
        *(("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("nULL", "nULL")),
        *(("12", 12), ("-3", -3), ("010", 10), ("0o17", 15), ("0x1F", 31), ("1_000", "1_000"), ("0b1", "0b1")),
        *(
            ("1.0", 1.0),
            ("1e3", 1000.0),
            (".5", 0.5),
            ("1.0.0", "1.0.0"),
            (".inf", float("inf")),
            ("-.INF", -float("inf")),
        ),
    ],
)
def test_scalars_follow_the_core_schema(written: str, meant: Any) -> None:
    value = scalar(written)
    assert (value, type(value)) == (meant, type(meant))


@requirement("yaml.file.3")
def test_quoted_and_tagged_scalars_are_what_they_say() -> None:
    assert parse("a: '12'\nb: !!str 12\nc: ! 12\nd: !!int '3'\ne: !!float 2").value == {
        "a": "12",
        "b": "12",
        "c": "12",
        "d": 3,
        "e": 2.0,
    }


@requirement("yaml.file.3")
@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!Ref", "!!binary", "!!timestamp", "!!int"])
def test_a_tag_that_would_make_something_is_refused(tag: str) -> None:
    document = parse(f"a: {tag} ['ls']\nb: {tag} x\n")
    assert codes(document) == ["YAML_SYNTAX"] * 2
    assert (document.problems[1].line, document.problems[1].column) == (2, 4)


@requirement("yaml.file.3")
def test_a_key_that_stands_twice_is_an_error_and_the_first_counts() -> None:
    document = parse("a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert document.value == {"a": {"b": 1, "c": 2}}
    (problem,) = document.problems
    assert (problem.code, problem.path, problem.line, problem.column) == ("DUPLICATE_KEY", "a.b", 4, 3)
    assert "line 2" in problem.message


def test_keys_are_texts_as_they_are_written() -> None:
    assert parse("404: a\ntrue: b\n1.10: c\n").value == {"404": "a", "true": "b", "1.10": "c"}
    assert codes(parse("? [a, b]\n: c\n")) == ["YAML_SYNTAX"]


@requirement("yaml.file.3")
def test_a_file_of_more_than_a_megabyte_is_too_large() -> None:
    assert codes(parse("a: " + "x" * (1024 * 1024 - 3))) == []
    assert codes(parse("a: " + "x" * (1024 * 1024 - 2))) == ["TOO_LARGE"]


@requirement("yaml.file.3")
@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_nesting_ends_at_64_levels_however_deep_the_text_goes(opening: str) -> None:
    assert codes(parse(opening * 200_000)) in (["TOO_LARGE"], ["YAML_SYNTAX"])
    assert codes(parse("[" * 64 + "]" * 64)) == []
    assert codes(parse("[" * 65 + "]" * 65)) == ["TOO_LARGE"]


@requirement("yaml.file.3")
def test_depth_counts_behind_an_alias() -> None:
    deep = "[" * 40 + "]" * 40
    assert codes(parse(f"a: &a {deep}\nb: {'[' * 22}*a{']' * 22}")) == []
    assert codes(parse(f"a: &a {deep}\nb: {'[' * 24}*a{']' * 24}")) == ["TOO_LARGE"]


@requirement("yaml.file.3")
def test_nodes_are_counted_after_aliases_without_expanding_them() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for name, inner in zip("bcdefghij", "abcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{inner}'] * 10)}]")
    assert codes(parse("\n".join(lines))) == ["TOO_LARGE"]
    assert codes(parse("[" + "x," * 99_999 + "]")) == []
    assert codes(parse("[" + "x," * 100_000 + "]")) == ["TOO_LARGE"]


def test_an_alias_is_the_same_frozen_value() -> None:
    value = parse("a: &a {x: [1]}\nb: *a\n").value
    assert value["b"] is value["a"]
    assert codes(parse("a: &a [*a]")) == ["YAML_SYNTAX"]
    assert codes(parse("a: *nothing")) == ["YAML_SYNTAX"]


@requirement("yaml.file.5")
def test_nothing_in_a_value_can_be_changed() -> None:
    value = parse("a: {b: [1, {c: 2}]}").value
    with pytest.raises(TypeError):
        value["a"]["b"][1]["c"] = 3
    with pytest.raises(AttributeError):
        value["a"]["b"].append(3)


def test_freezing_and_thawing_are_inverse() -> None:
    data = {"a": [1, {"b": [None, "x", 2.5, True]}], "c": {}}
    assert thaw(freeze(data)) == data
    assert thaw(freeze({"a": [float("inf"), float("nan")]})) == {"a": [None, None]}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("tool", "name"), (2, 9)),
        (("tool", "list"), (3, 3)),
        (("tool", "list", 1), (5, 7)),
        (("tool", "missing"), (1, 1)),
        (("tool", "list", 7, "x"), (3, 3)),
    ],
)
def test_every_value_has_a_place_and_what_is_missing_the_place_of_its_holder(path: Any, place: tuple[int, int]) -> None:
    assert parse("tool:\n  name: x\n  list:\n    - 1\n    - 2\n").place(path) == place


def test_a_path_is_told_as_people_write_it() -> None:
    assert spelled(("tool", "commands", 0, "a.b")) == "tool.commands[0]['a.b']"


@pytest.mark.parametrize(
    ("text", "line", "fix"),
    [
        ("a: [1\n", 2, "bracket"),
        ("a: b: c\n", 1, "quotes"),
        ("a: 'b\n", 2, "quotes"),
        ("a: 1\n b: 2\n", 2, "quotes"),
        ('a: "\\d"\n', 1, "backslash"),
        ("a:\n\t- b\n", 2, "spaces"),
        ("a: @b\n", 1, "quotes"),
    ],
)
def test_broken_syntax_has_a_place_and_something_to_do(text: str, line: int, fix: str) -> None:
    (problem,) = parse(text).problems
    assert (problem.code, problem.line) == ("YAML_SYNTAX", line)
    assert fix in (problem.fix or "")


def test_a_second_document_is_an_error() -> None:
    document = parse("a: 1\n---\nb: 2\n")
    assert codes(document) == ["YAML_SYNTAX"]
    assert document.value == {"a": 1}


def test_json_is_read_with_its_halves_of_characters() -> None:
    document = parse('{"a":"\\ud83d\\ude00","b":[1.5,true,null],"c":"\\\\ud83d","d":"\\/"}')
    assert document.value == {"a": "\U0001f600", "b": (1.5, True, None), "c": "\\ud83d", "d": "/"}
    assert codes(parse('{"a":"\\ud83d"}')) == ["YAML_SYNTAX"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
def test_texts_are_read_in_the_encodings_of_yaml(encoding: str) -> None:
    text = "a: ä€\n" if encoding.startswith("utf-8") else "\ufeffa: ä€\n"
    found, name = decoded(text.encode(encoding))
    assert parse(found).value == {"a": "ä€"}
    assert found.encode(name) == text.encode(encoding)


@requirement("yaml.file.3")
@given(st.text() | st.text(alphabet="{}[]:,-?&*!|>'\"%@`#ab \n\t"))
def test_any_text_gives_a_document_that_is_json(text: str) -> None:
    document = parse(text)
    assert json.loads(json.dumps(thaw(document.value), allow_nan=False)) == thaw(document.value)
