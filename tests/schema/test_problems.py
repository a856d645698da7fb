"""What a model reads about wrong arguments."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.schema.parse import lines, object_parser, problems
from tests.shared import nonempty
from toolcrib.schema import ArgumentProblem, BadArguments, nearest, schema_parser

TRIP = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
    "required": ["city"],
    "additionalProperties": False,
}


def test_a_problem_is_written_as_path_and_text() -> None:
    assert str(ArgumentProblem("items[1].qty", "type", "expected integer")) == "items[1].qty: expected integer"
    assert str(ArgumentProblem("", "json", "not valid JSON")) == "not valid JSON"


@requirement("contract.typed.6")
def test_all_problems_are_reported_missing_first_then_as_given() -> None:
    assert lines(schema_parser(TRIP), {"x": 1, "days": "many"}) == [
        "city: missing",
        "x: unknown",
        'days: expected integer, got "many"',
    ]


@requirement("contract.typed.6")
def test_missing_fields_inside_come_first_too() -> None:
    trips = {"type": "array", "items": TRIP}
    parser = schema_parser({"type": "object", "properties": {"trips": trips}, "required": ["name"]})
    assert lines(parser, {"trips": [{"days": 20, "city": "Rom"}, {"days": "x"}]}) == [
        "trips[1].city: missing",
        "name: missing",
        "trips[0].days: must be at most 14",
        'trips[1].days: expected integer, got "x"',
    ]


@requirement("contract.typed.6")
def test_at_most_ten_problems_are_reported() -> None:
    parser = object_parser(n={"type": "array", "items": {"type": "integer"}})
    assert lines(parser, {"n": ["x"] * 1000}) == [f'n[{index}]: expected integer, got "x"' for index in range(10)]


@requirement("contract.typed.6")
def test_the_nearest_known_field_is_named_for_an_unknown_one() -> None:
    parser = schema_parser(TRIP)
    assert lines(parser, {"citty": "Rom"}) == ["city: missing", "citty: unknown, did you mean 'city'?"]
    assert lines(parser, {"city": "Rom", "Days": 1}) == ["Days: unknown, did you mean 'days'?"]
    assert lines(parser, {"city": "Rom", "citys": 1}) == ["citys: unknown, did you mean 'city'?"]
    assert lines(parser, {"city": "Rom", "zzzzzz": 1}) == ["zzzzzz: unknown"]


@pytest.mark.parametrize(
    ("schema", "given", "kind", "text"),
    [
        ({"type": "integer"}, "x", "type", 'expected integer, got "x"'),
        ({"type": ["integer", "null"]}, [1], "type", "expected integer or null, got [1]"),
        ({"minimum": 1}, 0, "value", "must be at least 1"),
        ({"maximum": 14}, 15, "value", "must be at most 14"),
        ({"exclusiveMinimum": 0}, 0, "value", "must be more than 0"),
        ({"exclusiveMaximum": 1.5}, 2, "value", "must be less than 1.5"),
        ({"multipleOf": 5}, 7, "value", "must be a multiple of 5"),
        ({"minLength": 1}, "", "value", "must have at least 1 character"),
        ({"maxLength": 2}, "abc", "value", "must have at most 2 characters"),
        ({"pattern": "^a+$"}, "b", "value", "must match the pattern ^a+$"),
        ({"minItems": 2}, [1], "value", "must have at least 2 items"),
        ({"maxItems": 1}, [1, 2], "value", "must have at most 1 item"),
        ({"uniqueItems": True}, [1, 1], "value", "must not have the same item twice"),
        ({"minProperties": 1}, {}, "value", "must have at least 1 field"),
        ({"enum": ["fast", "slow"]}, "quick", "value", 'must be one of "fast", "slow"'),
        ({"enum": ["fast", 3]}, 4, "value", 'must be one of "fast", 3'),
        ({"const": "yes"}, "no", "value", 'must be "yes"'),
        ({"type": "string", "enum": ["a"]}, 5, "type", "expected string, got 5"),
        ({"not": {"type": "string"}}, "a", "value", 'is not allowed, since it fits {"type":"string"}'),
        (False, 1, "value", "is not allowed"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, True, "type", "expected string or integer, got true"),
        ({"anyOf": [{"const": "a"}, {"const": "b"}]}, "c", "value", 'must be one of "a", "b"'),
        ({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, "c", "value", 'must be one of "a"'),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 1, "value", "fits more than one of the alternatives"),
        ({"contains": {"type": "string"}}, [1], "value", "has no item of the kind that it must contain"),
    ],
)
def test_each_rule_is_told_in_plain_words(schema: Any, given: Any, kind: str, text: str) -> None:
    assert problems(object_parser(x=schema), {"x": given}) == [ArgumentProblem("x", kind, text)]


def test_all_broken_rules_of_a_value_are_told() -> None:
    parser = object_parser(x={"minLength": 3, "pattern": "^a"})
    assert lines(parser, {"x": "b"}) == ["x: must have at least 3 characters", "x: must match the pattern ^a"]


def test_the_branch_that_fits_best_tells_what_is_wrong() -> None:
    card = {"properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["kind", "number"]}
    cash = {"properties": {"kind": {"const": "cash"}, "cents": {"type": "integer"}}, "required": ["kind", "cents"]}
    parser = object_parser(pay={"oneOf": [{"type": "object", **card}, {"type": "object", **cash}]})
    assert lines(parser, {"pay": {"kind": "cash", "cents": "x"}}) == ['pay.cents: expected integer, got "x"']
    assert lines(parser, {"pay": {"kind": "card"}}) == ["pay.number: missing"]
    assert lines(parser, {"pay": {"kind": "gold"}}) == ['pay.kind: must be one of "card", "cash"']
    assert lines(parser, {"pay": 5}) == ["pay: expected object, got 5"]


def test_names_that_are_not_allowed_are_told_at_their_place() -> None:
    parser = object_parser(x={"propertyNames": {"pattern": "^[a-z]+$"}})
    assert lines(parser, {"x": {"ok": 1, "NO": 2}}) == ["x.NO: its name must match the pattern ^[a-z]+$"]


def test_long_values_are_shortened() -> None:
    parser = object_parser(x={"type": "integer"}, y={"type": "integer"}, z={"enum": list(range(100))})
    for line in nonempty(lines(parser, {"x": "y" * 10_000, "y": {"a": list(range(1000))}, "z": 1000})):
        assert len(line) < 120
        assert "…" in line


def test_keys_that_would_blur_a_path_are_quoted() -> None:
    parser = schema_parser({"type": "object", "additionalProperties": {"type": "integer"}})
    assert lines(parser, {"a.b": "x", "c d": "x", "ok-1": "x"}) == [
        '["a.b"]: expected integer, got "x"',
        '["c d"]: expected integer, got "x"',
        'ok-1: expected integer, got "x"',
    ]


def test_bad_arguments_read_as_their_problems() -> None:
    error = BadArguments(
        [ArgumentProblem("a", "missing", "missing"), ArgumentProblem("b", "type", "expected integer, got 5.5")]
    )
    assert str(error) == "a: missing\nb: expected integer, got 5.5"


def test_names_that_are_near_are_listed_the_nearest_first() -> None:
    assert nearest("get_wether", ["get_weather", "set_weather", "refund"]) == ["get_weather", "set_weather"]
    assert nearest("Refund", ["refund", "pay"]) == ["refund"]
    assert nearest("weather", ["get_current_weather_forecast", "pay"]) == ["get_current_weather_forecast"]
    assert nearest("zzz", ["refund"]) == []
    assert nearest("", ["refund"]) == []
    assert nearest("refund", ["refund1", "refund2", "refund3"], n=1) == ["refund1"]


def test_a_very_long_name_is_compared_in_time() -> None:
    assert nearest("a" * 1_000_000, ["b" * 1_000_000] * 50) == []


def test_an_object_with_very_many_unknown_fields_is_refused_in_time() -> None:
    closed = {"type": "object", "properties": {f"known_{n}": {} for n in range(50)}, "additionalProperties": False}
    assert len(lines(schema_parser(closed), {f"field_{n}": n for n in range(50_000)})) == 10
