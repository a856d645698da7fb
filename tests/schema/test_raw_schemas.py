"""Tools that have only a JSON Schema: YAML, MCP, OpenAPI and client tools."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from tests.schema.parse import lines, object_parser, problems, values
from toolcrib.schema import BadArguments, SchemaError, check_schema, output_check, read_arguments, schema_parser

ITEM = {"type": "object", "properties": {"qty": {"type": "integer", "default": 1}, "sku": {"type": "string"}}}


def test_defaults_are_filled_in_at_any_depth() -> None:
    schema = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
            "first": {"$ref": "#/$defs/Item"},
            "perhaps": {"anyOf": [{"$ref": "#/$defs/Item"}, {"type": "null"}]},
            "box": {"type": "object", "default": {}, "properties": {"size": {"default": "small"}}},
            "by_name": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Item"}},
        },
        "$defs": {"Item": ITEM},
    }
    given = {"items": [{"sku": "a"}, {"qty": 2}], "first": {}, "perhaps": {"sku": "p"}, "by_name": {"x": {}}}
    parsed = schema_parser(schema).parse(read_arguments(given))
    assert parsed.values == {
        "items": [{"sku": "a", "qty": 1}, {"qty": 2}],
        "first": {"qty": 1},
        "perhaps": {"sku": "p", "qty": 1},
        "by_name": {"x": {"qty": 1}},
        "box": {"size": "small"},
    }
    assert values(schema_parser(schema), parsed.json) == parsed.values


def test_a_default_is_never_shared_between_calls() -> None:
    parser = object_parser(tags={"type": "array", "default": []})
    values(parser, {})["tags"].append("mine")
    assert values(parser, {}) == {"tags": []}


@requirement("gateway.content.2")
def test_a_required_field_with_a_default_is_filled_in_where_nothing_else_is_wrong() -> None:
    fields = {"n": {"default": 1}, "m": {"type": "integer"}, "in": {"$ref": "#/$defs/inner"}}
    inner = {"type": "object", "properties": {"k": {"default": "v"}}, "required": ["k"]}
    parser = schema_parser({"type": "object", "properties": fields, "required": ["n"], "$defs": {"inner": inner}})
    assert values(parser, {}) == {"n": 1}
    assert values(parser, {"in": {}}) == {"n": 1, "in": {"k": "v"}}
    assert lines(parser, {"m": "x"}) == ["n: missing", 'm: expected integer, got "x"']


def test_the_text_stays_as_it_was_where_nothing_was_added() -> None:
    raw = b'{ "qty": 2 }'
    assert schema_parser(ITEM).parse(raw).json is raw


def test_normalised_arguments_are_the_values() -> None:
    parser = schema_parser(ITEM)
    assert parser.normalised(parser.parse(b"{}")) == {"qty": 1}


@requirement("contract.typed.5")
def test_unknown_fields_pass_unless_the_schema_refuses_them() -> None:
    assert values(schema_parser(ITEM), {"other": 1}) == {"other": 1, "qty": 1}
    closed = schema_parser({**ITEM, "additionalProperties": False})
    assert lines(closed, {"other": 1}) == ["other: unknown"]


def test_formats_are_not_asserted() -> None:
    assert values(object_parser(mail={"type": "string", "format": "email"}), {"mail": "no"}) == {"mail": "no"}


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=(a+)+$)a*$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_catastrophic_pattern_does_not_hang(pattern: str) -> None:
    parser = object_parser(x={"type": "string", "pattern": pattern})
    (problem,) = problems(parser, {"x": "a" * 5_000 + "x" * 5_000 + "!"})
    assert problem.kind == "value"


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-04/schema#", None])
@pytest.mark.parametrize("pattern", ["(?=(a|b)*c)z", "(?<=a)(a|aa)+$"])
def test_a_long_text_is_not_held_against_a_pattern_that_looks_around(pattern: str, draft: str | None) -> None:
    told = {} if draft is None else {"$schema": draft}
    parser = schema_parser({**told, "type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}})
    assert lines(parser, {"x": "a" * 200_000}) == ["x: must have at most 2000 characters"]
    with pytest.raises(SchemaError, match="look-around"):
        schema_parser({**told, "type": "object", "patternProperties": {pattern: {}}})


def test_a_pattern_may_look_ahead() -> None:
    parser = object_parser(x={"pattern": "^(?=.*[0-9])[a-z0-9]+$"})
    assert values(parser, {"x": "a1"}) == {"x": "a1"}
    assert [problem.kind for problem in problems(parser, {"x": "ab"})] == ["value"]


def test_a_schema_of_an_older_draft_keeps_its_meaning() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}},
    }
    assert lines(schema_parser(schema), {"pair": ["a", "b"]}) == ['pair[1]: expected integer, got "b"']


def test_a_schema_changed_later_changes_nothing() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    parser = schema_parser(schema)
    schema["properties"]["n"]["type"] = "string"
    assert values(parser, {"n": 1}) == {"n": 1}
    assert parser.schema["properties"]["n"] == {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, 'must be "object"'),
        ({"type": "array"}, 'must be "object"'),
        ({"type": ["object", "null"]}, 'must be "object"'),
        (5, "a schema is an object"),
        ({"type": "object", "properties": {"a": {"type": "objekt"}}}, "properties.a.type"),
        ({"type": "object", "required": "a"}, "required"),
        ({"type": "object", "properties": {"a": {"pattern": "["}}}, "regex"),
        ({"type": "object", "default": object()}, "not JSON"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}, "https://example.com/a.json"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "file:///etc/passwd"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json"}}}, "other.json"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}, "nowhere"),
    ],
)
def test_a_schema_that_no_tool_can_have_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words.replace("$", r"\$")):
        check_schema(schema)
    with pytest.raises(SchemaError):
        schema_parser(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": True}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"$ref": "#a"}}, "$defs": {"A": {"$anchor": "a", "type": "string"}}},
        {
            "$id": "https://example.com/tool",
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {}},
        },
    ],
)
def test_a_good_object_schema_is_taken(schema: Any) -> None:
    check_schema(schema)
    assert values(schema_parser(schema), {"a": "x"}) == {"a": "x"}


def test_references_that_double_without_end_are_refused() -> None:
    twice = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
    schema = {"type": "object", "allOf": [{"$ref": "#/$defs/a0"}], "$defs": {**twice, "a60": {"type": "object"}}}
    with pytest.raises(SchemaError, match="too many times"):
        check_schema(schema)


@requirement("contract.tool.5")
def test_output_is_checked_and_its_first_problem_told() -> None:
    check = output_check({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert check({"n": 1}) is None
    assert check({"n": "1"}) == 'n: expected integer, got "1"'
    assert str(check({1: 2})).startswith("not JSON data")
    assert check([1]) == "expected object, got [1]"
    assert output_check({"type": "array", "items": {"type": "string"}})(["a", 5]) == "[1]: expected string, got 5"


def test_a_broken_output_schema_is_refused_when_the_tool_is_made() -> None:
    with pytest.raises(SchemaError):
        output_check({"type": "nothing"})


SCALARS: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": "number"},
    {"type": "string"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["integer", "null"]},
    {"type": ["string", "integer"]},
    {"enum": ["5", 5, None]},
    {},
]
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"allOf": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(
            lambda properties, required: {"type": "object", "properties": properties, "required": sorted(required)},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.sets(st.sampled_from("abc"), max_size=1),
        ),
        st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner),
    ),
    max_leaves=6,
)
TEXTS = st.sampled_from(["5", "5.0", "true", "null", "[1]", '{"a": 1}', '{"a": "1"}', "x", ""])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([0.5, 5.0]), TEXTS)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=6,
)


@requirement("contract.typed.4")
@settings(deadline=None, max_examples=300)
@given(schema=SCHEMAS, value=VALUES)
def test_gentle_reading_touches_nothing_valid_and_makes_nothing_invalid(schema: dict[str, Any], value: Any) -> None:
    wanted = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    is_valid = output_check(wanted)
    try:
        read = values(schema_parser(wanted), {"x": value})
    except BadArguments:
        read = None
    if read is None:
        assert is_valid({"x": value}) is not None
    else:
        assert is_valid(read) is None
        assert read == {"x": value} or is_valid({"x": value}) is not None
