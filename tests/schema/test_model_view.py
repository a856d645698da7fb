"""The schema that a model sees, and the label on top of it."""

import copy
import json
from typing import Any

import pytest

from tests.requirements import requirement
from tests.schema.parse import values
from toolcrib.schema import llm_schema, schema_parser, title, with_topic


def shown(schema: Any) -> Any:
    """Show one property in the plain dialect."""
    return llm_schema({"type": "object", "properties": {"x": schema}})["properties"]["x"]


def strictly(schema: Any) -> Any:
    """Show one optional property in the strict dialect."""
    return llm_schema({"type": "object", "properties": {"x": schema}}, "strict")["properties"]["x"]


@requirement("contract.schema.1")
@pytest.mark.parametrize(
    ("schema", "view"),
    [
        ({"const": 1, "enum": [2]}, False),
        ({"const": True, "enum": [1]}, False),
        ({"const": 1, "enum": [1.0]}, {"enum": [1]}),
        ({"const": None}, {"enum": [None]}),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, {"type": "string"}),
        ({"anyOf": [{"type": "array"}, {"type": "null"}]}, {"type": "array", "items": {}}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, {"type": "string"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": "a"}, {"type": "string", "default": "a"}),
        ({"type": ["string", "null"], "default": None}, {"type": "string"}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "default": None}, {"type": "string", "default": None}),
        (
            {"anyOf": [{"type": "string", "description": "inner"}, {"type": "null"}], "description": "outer"},
            {"type": "string", "description": "outer"},
        ),
        (
            {"anyOf": [{"type": "string", "description": "inner"}, {"type": "null"}]},
            {"type": "string", "description": "inner"},
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "default": None},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        (
            {"type": ["array", "string"], "items": {"type": "integer"}, "minLength": 1, "description": "d"},
            {
                "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string", "minLength": 1}],
                "description": "d",
            },
        ),
        ({"type": ["string"]}, {"type": "string"}),
        ({"type": "null"}, {"type": "null"}),
        (True, True),
        ({"x-toolcrib-secret": True, "type": "string"}, {"type": "string"}),
        ({"items": {"const": 1}, "type": "array"}, {"items": {"enum": [1]}, "type": "array"}),
        ({"not": {"const": 1}}, {"not": {"enum": [1]}}),
        (
            {"additionalProperties": {"const": 1}, "type": "object"},
            {"additionalProperties": {"enum": [1]}, "type": "object", "properties": {}},
        ),
    ],
)
def test_a_schema_is_said_as_models_understand_it(schema: Any, view: Any) -> None:
    assert shown(schema) == view
    assert shown(view) == view


@requirement("contract.schema.1")
def test_names_and_values_are_never_taken_for_keywords() -> None:
    properties = {
        name: {"type": "string"}
        for name in ("const", "type", "$ref", "anyOf", "$defs", "properties", "default", "x-toolcrib-a", "$schema")
    }
    schema = {"type": "object", "properties": properties, "required": ["const", "$ref"]}
    assert llm_schema(schema) == schema
    value = {"const": 1, "type": ["a", "null"], "$ref": "#/nowhere", "anyOf": [{"type": "null"}]}
    for key in ("default", "examples", "enum"):
        data = value if key == "default" else [value]
        assert shown({"type": "string", key: data}) == {"type": "string", key: data}


@requirement("contract.schema.1")
def test_references_are_put_in_place() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/Size", "description": "outer"},
            "b": {"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}], "default": None},
            "c": {"$ref": "#/properties/a"},
        },
        "$defs": {"Size": {"type": "string", "description": "inner", "enum": ["s", "l"]}},
    }
    size = {"type": "string", "description": "inner", "enum": ["s", "l"]}
    outer = {**size, "description": "outer"}
    assert llm_schema(schema) == {"type": "object", "properties": {"a": outer, "b": size, "c": outer}}


@requirement("contract.schema.1")
def test_a_reference_into_itself_becomes_an_open_object() -> None:
    schema = {"type": "object", "properties": {"kid": {"$ref": "#", "description": "a kid"}}}
    kid = {"type": "object", "properties": {}, "description": "a kid"}
    assert llm_schema(schema) == {"type": "object", "properties": {"kid": kid}}


def test_a_schema_that_holds_beside_a_reference_is_merged_with_it() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/A", "properties": {"b": {"type": "string"}}, "required": ["b"]}},
        "$defs": {"A": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    }
    assert llm_schema(schema)["properties"]["x"] == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }


def test_references_that_multiply_end_in_a_schema_of_bounded_size() -> None:
    doubled = {
        f"a{n}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/a{n + 1}"} for side in "lr"}}
        for n in range(60)
    }
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**doubled, "a60": {}}}
    assert len(json.dumps(llm_schema(schema))) < 1_000_000


def test_the_original_is_left_as_it_was() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"type": ["array", "null"], "default": None}, "y": {"$ref": "#/$defs/Y"}},
        "$defs": {"Y": {"const": 1}},
    }
    before = copy.deepcopy(schema)
    for view in (llm_schema(schema), llm_schema(schema, "strict"), with_topic(schema)):
        view["properties"]["x"]["type"] = "changed"
    assert schema == before


@requirement("contract.schema.2")
@pytest.mark.parametrize(
    ("schema", "view"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"const": "a"}, {"enum": ["a", None]}),
        ({}, {}),
        (False, {"type": "null"}),
        ({"type": ["string", "null"], "default": None}, {"type": ["string", "null"]}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
        (
            {"allOf": [{"type": "string"}], "title": "t"},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}], "title": "t"},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}},
            {
                "type": ["object", "null"],
                "properties": {"a": {"type": ["integer", "null"]}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_in_the_strict_dialect_an_optional_property_is_nullable(schema: Any, view: Any) -> None:
    assert strictly(schema) == view


@requirement("contract.schema.2")
def test_the_strict_dialect_requires_everything_at_every_depth() -> None:
    item = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": item}}, "required": ["items"]}
    strict = llm_schema(schema, "strict")["properties"]["items"]["items"]
    assert strict["required"] == ["a", "b"]
    assert strict["additionalProperties"] is False
    assert strict["properties"] == {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}


@requirement("contract.schema.2")
def test_the_nulls_of_the_strict_dialect_are_read_back_as_absent() -> None:
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string"}, "n": {"type": "integer", "default": 5}, "mode": {"enum": ["a"]}},
        "required": ["q"],
    }
    given = dict.fromkeys(llm_schema(schema, "strict")["required"]) | {"q": "x"}
    assert values(schema_parser(schema), given) == {"q": "x", "n": 5}


@requirement("aomi.topic.1")
@pytest.mark.parametrize(
    ("schema", "nullable"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"enum": [1, None]}, {"enum": [1, None]}),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"oneOf": [{"type": "string"}]}, {"oneOf": [{"type": "string"}, {"type": "null"}]}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"$ref": "#/$defs/A"}, {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}),
        ({"$ref": "#/$defs/Nullable"}, {"$ref": "#/$defs/Nullable"}),
        (
            {"$ref": "#/$defs/A", "description": "d"},
            {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}], "description": "d"},
        ),
        ({"description": "anything"}, {"description": "anything"}),
        (True, True),
    ],
)
def test_an_optional_property_becomes_required_and_nullable(schema: Any, nullable: Any) -> None:
    definitions = {"A": {"type": "string"}, "Nullable": {"type": ["string", "null"]}}
    dressed = with_topic({"type": "object", "properties": {"x": schema}, "$defs": definitions})
    assert dressed["properties"]["x"] == nullable
    assert set(dressed["required"]) == {"x", "topic"}


@requirement("aomi.topic.1")
def test_required_properties_and_those_inside_stay_as_they_are() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    dressed = with_topic({"type": "object", "properties": {"x": inner}, "required": ["x"]})
    assert dressed["properties"]["x"] == inner
    assert dressed["properties"]["topic"] == {"type": "string", "description": "One-liner topic of this operation"}


@requirement("aomi.topic.5")
def test_a_tool_with_a_topic_of_its_own_keeps_it() -> None:
    own = {"type": "string", "description": "mine"}
    assert with_topic({"type": "object", "properties": {"topic": own}, "required": ["topic"]})["properties"] == {
        "topic": own
    }


@requirement("aomi.topic.4")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get_current_time", "Get current time"),
        ("GetCurrentTime", "Get current time"),
        ("getCurrentTime", "Get current time"),
        ("get-current.time", "Get current time"),
        ("get_erc20_balance", "Get erc20 balance"),
        ("GetHTTPResponse", "Get http response"),
        ("__x__", "X"),
        ("", ""),
    ],
)
def test_a_name_becomes_a_readable_title(name: str, expected: str) -> None:
    assert title(name) == expected
