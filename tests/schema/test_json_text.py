"""From whatever was given to JSON: absent arguments, texts, broken texts, odd values."""

import math
from collections import OrderedDict
from datetime import date
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from tests.requirements import requirement
from tests.schema.parse import lines, object_parser, parser_of, problems, values
from toolcrib.schema import BadArguments, read_arguments, schema_parser

ANY = object_parser(x={})


@requirement("contract.typed.3")
@pytest.mark.parametrize("given", [None, "", b"", "  \n", {}, "{}", "null", '""', " null "])
def test_nothing_given_is_an_empty_object(given: object) -> None:
    assert values(ANY, given) == {}


@requirement("contract.typed.3")
@pytest.mark.parametrize("given", ['{"x": 1}', b'{"x": 1}', bytearray(b'{"x": 1}'), '"{\\"x\\": 1}"'])
def test_a_json_text_is_parsed(given: object) -> None:
    assert values(ANY, given) == {"x": 1}


@pytest.mark.parametrize("given", [OrderedDict(x=1), MappingProxyType({"x": 1})])
def test_any_mapping_is_written_as_json(given: object) -> None:
    assert read_arguments(given) == b'{"x":1}'


def test_python_values_are_written_as_json() -> None:
    given = {"day": date(2026, 1, 2), "id": UUID(int=5), "tags": {"a"}, "raw": b"abc", "pair": (1, 2)}
    assert values(object_parser(), given) == {
        "day": "2026-01-02",
        "id": "00000000-0000-0000-0000-000000000005",
        "tags": ["a"],
        "raw": "abc",
        "pair": [1, 2],
    }


@pytest.mark.parametrize("given", [{"x": object()}, {"x": "\ud800"}, "\ud800", object(), {"x": b"\xff"}])
def test_what_json_cannot_say_is_a_problem(given: object) -> None:
    with pytest.raises(BadArguments) as caught:
        read_arguments(given)
    assert [problem.kind for problem in caught.value.problems] == ["json"]


def test_a_mapping_that_holds_itself_is_a_problem() -> None:
    given: dict[str, Any] = {}
    given["x"] = given
    with pytest.raises(BadArguments, match="not JSON"):
        read_arguments(given)


@pytest.mark.parametrize("given", [[1], 5, "[1]", "5", "true"])
def test_arguments_that_are_no_object_are_of_the_wrong_type(given: object) -> None:
    assert [(problem.path, problem.kind) for problem in problems(ANY, given)] == [("", "type")]


@requirement("contract.typed.3")
@pytest.mark.parametrize(
    ("given", "place"),
    [
        ('{"x": 1,}', "line 1 column 9"),
        ('{"x" 1}', "line 1 column 6"),
        ("{'x': 1}", "line 1 column 2"),
        ('{"x": 1,\n "y": oops}', "line 2 column 7"),
        ('{"x": 1}}', "line 1 column 9"),
        ('{"x": 1} {}', "line 1 column 10"),
    ],
)
def test_broken_json_is_told_with_its_position(given: str, place: str) -> None:
    (problem,) = problems(ANY, given)
    assert problem.kind == "json"
    assert problem.path == ""
    assert place in problem.text
    assert "cut off" not in problem.text


@requirement("contract.typed.3")
@pytest.mark.parametrize(
    "given", ['{"x": 1', '{"x": "some te', '{"x": [1, 2', '{"x":', "{", '{"x": tru', '{"x": "\\u00']
)
def test_a_text_that_looks_cut_off_is_told_so(given: str) -> None:
    (problem,) = problems(ANY, given)
    assert problem.kind == "json"
    assert "looks cut off" in problem.text
    assert "line 1 column" in problem.text


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_know_are_refused(number: str) -> None:
    def typed(x: float, y: Any = None) -> None: ...

    for parser, name in ((ANY, "x"), (parser_of(typed), "x"), (object_parser(x={"type": "number"}), "x")):
        assert [problem.kind for problem in problems(parser, f'{{"{name}": {number}}}')] == ["json"]


def test_nan_is_refused_inside_any_value_and_allowed_inside_a_text() -> None:
    def typed(x: Any) -> None: ...

    parser = parser_of(typed)
    assert [problem.kind for problem in problems(parser, '{"x": [NaN]}')] == ["json"]
    assert values(parser, '{"x": "NaN and Infinity"}') == {"x": "NaN and Infinity"}


def test_nan_in_a_mapping_does_not_become_null() -> None:
    assert [problem.kind for problem in problems(ANY, {"x": math.nan})] == ["json"]


def test_huge_integers_keep_all_their_digits() -> None:
    def typed(x: int) -> None: ...

    for parser in (ANY, parser_of(typed)):
        assert values(parser, {"x": 2**200}) == {"x": 2**200}


def test_of_two_equal_keys_the_last_one_counts() -> None:
    def typed(x: int) -> None: ...

    for parser in (ANY, parser_of(typed)):
        assert values(parser, '{"x": 1, "x": 2}') == {"x": 2}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"x":' * 5_000 + "1" + "}" * 5_000, "[" * 300 + "]" * 300])
def test_very_deep_nesting_is_a_clean_problem(text: str) -> None:
    def typed(x: Any) -> None: ...

    for parser in (ANY, parser_of(typed)):
        (problem,) = problems(parser, text)
        assert problem.kind == "json"
        assert "nested too deeply" in problem.text


def test_nesting_within_the_limit_is_read() -> None:
    nested: Any = 1
    for _ in range(150):
        nested = {"x": nested}
    schema = {"type": "object", "properties": {"x": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}}}
    assert values(schema_parser(schema), nested) == nested


def test_a_json_text_nested_too_deeply_inside_a_string_stays_a_string() -> None:
    parser = object_parser(x={"type": "array"})
    (line,) = lines(parser, {"x": "[" * 50_000})
    assert line.startswith("x: expected array, got ")
    assert len(line) < 120
