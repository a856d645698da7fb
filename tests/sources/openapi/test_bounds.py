"""Documents that would keep everybody waiting: too many values, references, parts and patterns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.sources.openapi.service import document, operation, parameter, paths, tools
from toolcrib import Crib
from toolcrib.sources.openapi import BadDocument, OpenApi
from toolcrib.sources.openapi.connections import Connections
from toolcrib.sources.openapi.loader import MOST_PARTS, DocumentLoader
from toolcrib.sources.openapi.parser import read

URL = "https://api.example"


def sized(parts: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": {} for n in range(parts)}}


def taking(schema: dict[str, Any]) -> dict[str, Any]:
    return operation(requestBody={"content": {"application/json": {"schema": schema}}})


@requirement("security.bounds.4")
def test_a_document_with_very_many_values_is_not_parsed() -> None:
    text = b'{"openapi": "3.1.0", "paths": {}, "x-much": [' + b"1," * 2_100_000 + b"1]}"
    with pytest.raises(BadDocument, match="2,000,000 values"):
        read(text, "much")
    long = json.dumps({"openapi": "3.1.0", "info": {"description": "a,[b],{c}" * 300_000}}).encode()
    assert read(long, "long")["openapi"] == "3.1.0"


@requirement("security.bounds.4")
async def test_of_very_many_references_to_other_documents_few_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    refs = [{"$ref": f"part{n}.json"} for n in range(20_000)]
    path.write_text(json.dumps({**document(paths("it")), "x-refs": refs}))
    found = await DocumentLoader(path, Connections(), []).load()
    assert len(found.refused) <= 2 * MOST_PARTS + 1


@requirement("security.bounds.4")
@pytest.mark.parametrize("placed", [True, False])
async def test_an_operation_with_too_many_parts_is_left_out_and_the_source_says_so(placed: bool) -> None:
    said = document({"/small": {"post": taking(sized(3))}})
    said["components"] = {"schemas": {f"S{n}": sized(500) for n in range(60)}}
    spread = {"allOf": [{"$ref": f"#/components/schemas/S{n}"} for n in range(60)]}
    said["paths"]["/large"] = {"post": {**taking(sized(25_000) if placed else spread), "operationId": "large"}}
    source = OpenApi(said, base_url=URL)
    async with Crib([source]) as crib:
        assert [tool.name for tool in crib.catalog.view((source.name,)).tools] == ["it"]
        health = source.health_of(None)
    assert health.status == "degraded"
    assert "20000 parts" in health.reason


@requirement("security.bounds.4")
async def test_patterns_that_would_take_long_are_left_out() -> None:
    heavy = {"type": "string", "pattern": "(a{1000}){1000}"}
    made = await tools(document({"/it": {"get": operation(parameter("q", "query", heavy))}}), base_url=URL)
    (tool,) = made.values()
    assert "pattern" not in tool.input_schema["properties"]["q"]


@requirement("security.bounds.2")
async def test_operations_of_a_stranger_are_made_beside_the_event_loop_however_many() -> None:
    source = OpenApi(document(paths(*(f"op{n}" for n in range(150)))), base_url=URL)
    async with Crib([source]) as crib:
        made = crib.catalog.view((source.name,)).tools
        assert len(made) == 150
        assert all("whole" in vars(tool) for tool in made)


@requirement("security.bounds.4")
async def test_references_that_multiply_or_never_end_are_left_out() -> None:
    schemas: dict[str, Any] = {f"D{n}": {"allOf": [{"$ref": f"#/components/schemas/D{n + 1}"}] * 2} for n in range(60)}
    schemas["D60"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    schemas["Ring"] = {"allOf": [{"$ref": "#/components/schemas/Ring"}, {"$ref": "#/components/schemas/Ring"}]}
    said = document({"/small": {"post": taking(sized(3))}})
    said["components"] = {"schemas": schemas}
    for name in ("D0", "Ring"):
        body = taking({"$ref": f"#/components/schemas/{name}"})
        said["paths"][f"/{name}"] = {"post": {**body, "operationId": name}}
    source = OpenApi(said, base_url=URL)
    async with Crib([source]) as crib:
        names = [tool.name for tool in crib.catalog.view((source.name,)).tools]
    assert "it" in names
    assert "D0" not in names
