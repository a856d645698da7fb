"""Gentle reading: what a model meant, where its type was wrong, by the schema alone."""

from typing import Any

import pytest

from tests.requirements import requirement
from tests.schema.parse import lines, object_parser, problems, values
from toolcrib.schema import read_arguments, schema_parser

INTEGER = {"type": "integer"}
ITEM = {"type": "object", "properties": {"qty": INTEGER, "note": {"type": "string"}}, "required": ["qty"]}


@requirement("contract.typed.4")
@pytest.mark.parametrize(
    ("schema", "given", "meant"),
    [
        (INTEGER, "5", 5),
        (INTEGER, "-12", -12),
        (INTEGER, " 5 ", 5),
        (INTEGER, "5.0", 5),
        (INTEGER, "123456789012345678901234567890", 123456789012345678901234567890),
        (INTEGER, 5.0, 5),
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "1e3", 1000),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "array", "items": INTEGER}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": INTEGER}, '["1", 2.0]', [1, 2]),
        (ITEM, '{"qty": "3"}', {"qty": 3}),
        (ITEM, {"qty": 3, "note": None}, {"qty": 3}),
        ({"type": ["integer", "null"]}, "5", 5),
        ({"type": ["integer", "boolean"]}, "true", True),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "5", 5),
        ({"anyOf": [INTEGER, {"type": "number"}]}, "5", 5),
        ({"oneOf": [{"type": "array", "items": INTEGER}, {"type": "null"}]}, "[1]", [1]),
        ({"allOf": [INTEGER, {"minimum": 1}]}, "5", 5),
        ({"type": "object", "additionalProperties": INTEGER}, {"a": "1"}, {"a": 1}),
        ({"type": "array", "prefixItems": [{"type": "string"}, INTEGER]}, ["1", "1"], ["1", 1]),
        ({"type": "integer", "enum": [1, 2]}, "2", 2),
    ],
)
def test_a_value_of_the_wrong_type_is_read_as_it_was_meant(schema: Any, given: Any, meant: Any) -> None:
    read = values(object_parser(x=schema), {"x": given})["x"]
    assert read == meant
    assert type(read) is type(meant) or isinstance(meant, int | float)


@requirement("contract.typed.4")
def test_an_integer_written_with_a_point_becomes_an_integer() -> None:
    parsed = object_parser(x=INTEGER).parse(b'{"x": 5.0}')
    assert type(parsed.values["x"]) is int
    assert parsed.json == b'{"x":5}'


@requirement("contract.typed.4")
@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (INTEGER, "five"),
        (INTEGER, ""),
        (INTEGER, "5.5"),
        (INTEGER, "0x10"),
        (INTEGER, "1_000"),
        (INTEGER, "+5"),
        (INTEGER, "05"),
        (INTEGER, "٣"),
        (INTEGER, 5.5),
        (INTEGER, True),
        (INTEGER, "true"),
        (INTEGER, [5]),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "Infinity"),
        ({"type": "number"}, False),
        ({"type": "boolean"}, 1),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, "1"),
        ({"type": "string"}, 5),
        ({"type": "string"}, True),
        ({"type": "string"}, ["a"]),
        ({"type": "array"}, "1,2"),
        ({"type": "array"}, '{"a": 1}'),
        ({"type": "object"}, "[1]"),
        ({"type": "array"}, {"0": 1}),
        ({"type": "null"}, "null"),
        ({"type": ["integer", "null"]}, "null"),
    ],
)
def test_what_is_not_plainly_meant_stays_a_problem(schema: Any, given: Any) -> None:
    assert [(problem.path, problem.kind) for problem in problems(object_parser(x=schema), {"x": given})] == [
        ("x", "type")
    ]


@requirement("contract.typed.4")
@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"anyOf": [{"type": "string"}, INTEGER]}, "5"),
        ({"type": ["string", "object"]}, "{}"),
        ({"type": ["string", "boolean"]}, "true"),
        ({"type": "string"}, "[1,2]"),
        ({}, "5"),
        ({}, None),
        ({"type": ["integer", "null"]}, None),
        ({"anyOf": [{"type": "number"}, INTEGER]}, 5.0),
        ({"enum": ["1", 1]}, "1"),
        ({"type": "array", "items": {}}, ["1", None]),
        ({"oneOf": [ITEM, {"type": "string"}]}, '{"qty": 1}'),
    ],
)
def test_a_value_that_is_valid_as_it_stands_is_never_touched(schema: Any, given: Any) -> None:
    raw = read_arguments({"x": given})
    parsed = object_parser(x=schema).parse(raw)
    assert parsed.json is raw
    assert type(parsed.values["x"]) is type(given)


def test_a_valid_value_stays_beside_one_that_has_to_be_mended() -> None:
    parser = object_parser(text={"type": "string"}, either={"anyOf": [{"type": "string"}, INTEGER]}, n=INTEGER)
    assert values(parser, {"text": "5", "either": "6", "n": "7"}) == {"text": "5", "either": "6", "n": 7}


@requirement("contract.typed.4")
def test_null_for_an_optional_field_means_absent() -> None:
    parser = object_parser(tag={"type": "string", "default": "latest"}, mode={"enum": ["a", "b"]}, n=INTEGER)
    assert values(parser, {"tag": None, "mode": None, "n": None}) == {"tag": "latest"}


@requirement("contract.typed.4")
def test_null_for_a_required_field_is_a_problem() -> None:
    parser = schema_parser({"type": "object", "properties": {"n": INTEGER}, "required": ["n"]})
    assert lines(parser, {"n": None}) == ["n: expected integer, got null"]


def test_null_in_a_map_is_not_dropped() -> None:
    parser = object_parser(ages={"type": "object", "additionalProperties": INTEGER})
    assert lines(parser, {"ages": {"ada": None}}) == ["ages.ada: expected integer, got null"]


def test_reading_follows_references_also_into_themselves() -> None:
    node = {"type": "object", "properties": {"n": INTEGER, "kids": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}
    parser = schema_parser({"type": "object", "properties": {"root": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}})
    given = {"root": {"n": "1", "kids": [{"n": "2", "kids": '[{"n": "3"}]'}]}}
    assert values(parser, given) == {"root": {"n": 1, "kids": [{"n": 2, "kids": [{"n": 3}]}]}}


def test_a_text_that_two_branches_would_read_differently_is_not_guessed() -> None:
    number = {"type": "object", "properties": {"a": INTEGER}}
    truth = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": INTEGER}}
    parser = object_parser(x={"anyOf": [number, truth]})
    assert values(parser, {"x": {"a": "1"}}) == {"x": {"a": 1}}
    assert values(parser, {"x": {"a": "true"}}) == {"x": {"a": True}}
    assert problems(object_parser(x={"oneOf": [{"type": "array", "items": INTEGER}, number]}), {"x": "5"})


def test_a_union_is_read_by_the_branch_that_fits() -> None:
    tagged = {"type": "object", "properties": {"a": INTEGER}, "required": ["a"]}
    wrapped = {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}
    parser = object_parser(x={"anyOf": [tagged, wrapped]})
    assert values(parser, {"x": {"a": "5"}}) == {"x": {"a": 5}}
    assert values(parser, {"x": {"a": "[5]"}}) == {"x": {"a": [5]}}
    assert [problem.path for problem in problems(parser, {"x": {"a": "five"}})] == ["x.a"]


def test_the_problems_of_a_json_text_are_told_about_its_inside() -> None:
    parser = object_parser(item={"anyOf": [ITEM, {"type": "null"}]})
    assert lines(parser, {"item": '{"qty": "x"}'}) == ['item.qty: expected integer, got "x"']


def test_a_number_too_large_for_a_float_is_not_rounded_to_an_integer() -> None:
    raw = b'{"x": 123456789012345678901.0}'
    assert object_parser(x=INTEGER).parse(raw).json == raw


def test_unions_in_unions_end_in_time() -> None:
    places = {"kid": {"$ref": "#/$defs/T"}, "n": INTEGER}
    branch = {"type": "object", "properties": places, "required": ["n"]}
    other = {**branch, "properties": {**places, "m": INTEGER}}
    schema = {
        "type": "object",
        "properties": {"t": {"$ref": "#/$defs/T"}},
        "$defs": {"T": {"anyOf": [branch, other]}},
    }
    given: Any = {"n": "x"}
    for _ in range(10):
        given = {"n": 1, "kid": given}
    assert problems(schema_parser(schema), {"t": given})


def test_references_in_a_circle_do_no_harm() -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
    assert values(schema_parser(schema), {"x": "5"}) == {"x": "5"}
