"""Whatever stands in a document, it makes tools or one kind of error; and its tools can be called or say why not."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sources.openapi.service import document, operation, parameter
from toolcrib.errors import BadTool
from toolcrib.schema import llm_schema
from toolcrib.sources.openapi import OpenApi
from toolcrib.sources.openapi.parser import BadDocument, read

PET = {
    "type": "object",
    "required": ["name", "id"],
    "properties": {
        "id": {"type": "integer", "readOnly": True, "exclusiveMinimum": True, "minimum": 0},
        "name": {"type": "string", "nullable": True, "enum": ["Rex"], "default": "Rex", "example": "Rex"},
        "parent": {"$ref": "#/components/schemas/Pet"},
        "any": {"oneOf": [{"$ref": "#/components/schemas/Name"}, {"type": "array", "items": {"type": "string"}}]},
    },
    "allOf": [{"properties": {"more": {"type": "string", "format": "binary"}}}],
}
CONTENT = {
    "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
    "multipart/form-data": {"schema": PET, "encoding": {"name": {"style": "form", "contentType": "text/plain"}}},
}
BASE = document(
    {
        "/pets/{id}": {
            "parameters": [parameter("id", "path", {"type": "array", "items": {"type": "string"}}, style="matrix")],
            "servers": [
                {"url": "https://{a}.example/{b}", "variables": {"a": {"default": "x"}, "b": {"default": "y"}}}
            ],
            "get": operation(
                parameter("q", "query", {"$ref": "#/components/schemas/Name"}, explode=False, allowReserved=True),
                {"$ref": "#/components/parameters/Page"},
                tags=["pets"],
                deprecated=True,
                security=[{"key": []}, {}],
                responses={"200": {"content": CONTENT}, "2XX": {"$ref": "#/components/responses/Ok"}},
            ),
            "post": {
                **operation(requestBody={"required": True, "content": CONTENT}),
                "operationId": "add",
                "x-toolcrib": {"effect": "read", "timeout": 3, "tags": ["x"], "rate": "3/min"},
            },
        },
        "/alias": {"$ref": "#/paths/~1pets~1{id}"},
    },
    server="https://shop.example",
    components={
        "schemas": {"Pet": PET, "Name": {"type": "string", "pattern": "^a+$"}},
        "parameters": {"Page": {"name": "page", "in": "query", "content": {"application/json": {"schema": PET}}}},
        "responses": {"Ok": {"content": {"application/json": {"schema": {"type": "array", "items": PET}}}}},
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    },
)
OLD_PET = json.loads(json.dumps(PET).replace("#/components/schemas/", "#/definitions/"))
OLD: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Old"},
    "host": "shop.example",
    "basePath": "/v1",
    "schemes": ["https"],
    "definitions": {"Pet": OLD_PET, "Name": {"type": "string"}},
    "securityDefinitions": {"o": {"type": "oauth2", "flow": "application", "tokenUrl": "https://shop.example/t"}},
    "paths": {
        "/a/{b}": {
            "post": {
                "consumes": ["application/x-www-form-urlencoded"],
                "security": [{"o": []}],
                "parameters": [
                    {"name": "b", "in": "path", "required": True, "type": "string"},
                    {"name": "f", "in": "formData", "type": "file"},
                    {"name": "l", "in": "query", "type": "array", "items": {}, "collectionFormat": "pipes"},
                ],
                "responses": {"200": {"schema": {"$ref": "#/definitions/Pet"}}},
            },
            "put": {"parameters": [{"name": "x", "in": "body", "schema": OLD_PET}], "responses": {}},
        }
    },
}
JUNK = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", "#/paths", "#", "http://[", "{", [], [1], {}, {"$ref": "#"}, {"$ref": 5}, "\0"]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def changed(base: dict[str, Any], changes: list[tuple[tuple[Any, ...], Any]]) -> dict[str, Any]:
    made = copy.deepcopy(base)
    for path, junk in changes:
        holder: Any = made
        for step in path[:-1]:
            holder = holder[step] if isinstance(holder, dict | list) and _has(holder, step) else None
        if isinstance(holder, dict | list) and _has(holder, path[-1]):
            holder[path[-1]] = copy.deepcopy(junk)
    return made


def _has(holder: Any, step: Any) -> bool:
    return step in holder if isinstance(holder, dict) else isinstance(step, int) and step < len(holder)


async def made(data: dict[str, Any]) -> None:
    source = OpenApi(data, refresh_s=None)
    try:
        for tool in await source.start(lambda found: None):
            assert tool.input_schema["type"] == "object"
            assert isinstance(llm_schema(tool.input_schema), dict)
            assert len(tool.fingerprint) == 64
    finally:
        await source.stop()


def either(base: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    one = st.tuples(st.sampled_from(list(places(base))), JUNK)
    return st.lists(one, min_size=1, max_size=4).map(lambda changes: changed(base, changes))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=either(BASE) | either(OLD))
def test_junk_in_a_document_makes_tools_or_a_message(data: dict[str, Any]) -> None:
    with suppress(BadTool):
        asyncio.run(made(data))


@settings(max_examples=150, deadline=None)
@given(text=st.binary(max_size=60) | st.text("{}[]:,-&*<>!|\"' \n\tab#0", max_size=60).map(str.encode))
def test_junk_instead_of_a_document_is_told(text: bytes) -> None:
    with suppress(BadDocument):
        assert isinstance(read(text, "junk"), dict)
