"""Slips of the pen in schemas are found, and what people note in schemas is none."""

from typing import Any

import pytest

from tests.requirements import requirement
from toolcrib.schema.slips import slips


def found(schema: Any) -> list[tuple[str, str | None]]:
    """The place of each slip, and what was probably meant."""
    return [(".".join(map(str, slip.path)), slip.nearest) for slip in slips(schema)]


@requirement("findings.schema.1")
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "patern": "^a"}, [("patern", "pattern")]),
        ({"type": "integer", "min": 1, "max": 2}, [("min", "minimum"), ("max", "maximum")]),
        ({"propertes": {"a": {}}}, [("propertes", "properties")]),
        ({"additional_properties": False}, [("additional_properties", "additionalProperties")]),
        ({"properties": {"a": {"items": {"one_of": []}}}}, [("properties.a.items.one_of", "oneOf")]),
        ({"anyOf": [{}, {"minLenght": 1}]}, [("anyOf.1.minLenght", "minLength")]),
        ({"$defs": {"A": {"requierd": ["b"]}}}, [("$defs.A.requierd", "required")]),
        ({"properties": {"order": {}}, "required": ["ordr"]}, [("required.0", "order")]),
        ({"properties": {"order": {}}, "required": ["order", "zz"]}, [("required.1", None)]),
        (
            {"then": {"properties": {"a": {"properties": {"b": {}}, "required": ["bb"]}}}},
            [("then.properties.a.required.0", "b")],
        ),
    ],
)
def test_a_word_that_is_almost_a_keyword_and_a_required_property_of_no_name_are_slips(
    schema: Any, expected: list[tuple[str, str | None]]
) -> None:
    assert found(schema) == expected


@requirement("findings.schema.1")
@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"properties": {"minimun": {}, "requierd": {}, "type": {}, "propertes": {}}},
        {"default": {"propertes": 1}, "enum": [{"requierd": 1}], "const": {"itms": 1}, "examples": [{"typ": 1}]},
        {"x-requierd": 1, "x_minimun": 1, "$Ref": "#"},
        {"title": "A", "title_de": "A", "descriptionDe": "B", "comment": "c", "notes": "d", "schema": "e"},
        {"markdownDescription": "a", "enumNames": [], "propertyOrder": 1, "ui:widget": "b", "errorMessage": "c"},
        {"if": {}, "then": {}, "else": {}, "discriminator": {}, "nullable": True, "readOnly": True, "id": "a"},
        {"required": ["a"]},
        {"properties": {}, "required": ["a"]},
        {"properties": {"a": {}}, "required": ["b"], "additionalProperties": {"type": "string"}},
        {"properties": {"a": {}}, "required": ["b"], "allOf": [{"$ref": "#/$defs/B"}]},
        {"properties": {"a": {}, "b": {}}, "if": {}, "then": {"properties": {"a": {"const": 1}}, "required": ["b"]}},
        {"properties": {"a": {}}, "anyOf": [{"properties": {"c": {}}, "required": ["a"]}]},
        {"required": "a", "properties": {"b": {}}},
        {1: 2},
    ],
)
def test_names_of_properties_values_notes_and_what_is_described_elsewhere_are_none(schema: Any) -> None:
    assert found(schema) == []


@requirement("findings.schema.1")
def test_a_schema_that_is_nested_very_deeply_is_looked_at_as_far_as_anybody_writes() -> None:
    schema: dict[str, Any] = {"typ": "string"}
    for _ in range(3000):
        schema = {"items": schema}
    assert found(schema) == []
