"""What arguments become: paths, queries, headers, cookies and bodies, as a real service receives them."""

from __future__ import annotations

import base64
import email
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest

from tests.sources.openapi.conftest import Opened
from tests.sources.openapi.service import Service, document, operation, parameter

TEXTS = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object", "properties": {"r": {"type": "string"}, "g": {"type": "string"}}}


def body(schema: dict[str, Any], media: str = "application/json", required: bool = True, **more: Any) -> dict[str, Any]:
    return {"requestBody": {"required": required, "content": {media: {"schema": schema, **more}}}}


async def test_every_place_of_a_parameter_is_filled(opened: Opened, service: Service) -> None:
    said = operation(
        parameter("id", "path", {"type": "integer"}),
        parameter("q", "query"),
        parameter("X-Trace", "header"),
        parameter("seen", "cookie", {"type": "boolean"}),
    )
    session = await opened(document({"/echo/{id}": {"get": said}}))
    result = await session.call("shop.it", {"id": 7, "q": "a b&c=d", "X-Trace": "t-1", "seen": True})
    assert result.ok, result.failure
    assert (service.last.path, service.last.query) == ("/echo/7", "q=a%20b%26c%3Dd")
    assert (service.last.headers["x-trace"], service.last.headers["cookie"]) == ("t-1", "seen=true")
    assert result.data["method"] == "GET"


@pytest.mark.parametrize("bad", ["..", ".", ""])
async def test_a_path_cannot_be_left(opened: Opened, service: Service, bad: str) -> None:
    session = await opened(document({"/echo/{id}/x": {"get": operation(parameter("id", "path"))}}))
    result = await session.call("shop.it", {"id": bad})
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments"
    assert service.seen == []


@pytest.mark.parametrize("value", ["../admin", "a/b", "%2e%2e", "a?b#c", "..\\x", "é\u0000\r\n", "//evil.example/"])
async def test_a_value_stays_within_its_segment(opened: Opened, service: Service, value: str) -> None:
    session = await opened(document({"/echo/{id}/x": {"get": operation(parameter("id", "path"))}}))
    assert (await session.call("shop.it", {"id": value})).ok
    _, echo, segment, last = service.last.path.split("/")
    assert (echo, unquote(segment), last, service.last.query) == ("echo", value, "x", "")


async def test_a_header_cannot_begin_another(opened: Opened, service: Service) -> None:
    session = await opened(
        document({"/echo": {"get": operation(parameter("X-A", "header"), parameter("c", "cookie"))}})
    )
    result = await session.call("shop.it", {"X-A": "a\r\nX-B: b"})
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments"
    assert (await session.call("shop.it", {"c": "a; admin=1\r\nX-B: b"})).ok
    assert "x-b" not in service.last.headers
    assert service.last.headers["cookie"] == "c=a%3B%20admin%3D1%0D%0AX-B%3A%20b"


async def test_names_that_clash_are_told_apart_by_their_place(opened: Opened, service: Service) -> None:
    said = operation(
        parameter("id", "path"),
        parameter("id", "query"),
        parameter("id", "header"),
        parameter("filter[name]", "query"),
        **body({"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}),
    )
    session = await opened(document({"/echo/{id}": {"post": said}}))
    args = {"id": "p", "query_id": "q", "header_id": "h", "body_id": 5, "note": "n", "filter_name": "f"}
    tool = session.tool("shop.it")
    assert tool is not None
    assert set(tool.input_schema["properties"]) == set(args)
    assert (await session.call("shop.it", args)).ok
    seen = service.last
    assert (seen.path, parse_qsl(seen.query)) == ("/echo/p", [("id", "q"), ("filter[name]", "f")])
    assert (seen.headers["id"], json.loads(seen.body)) == ("h", {"id": 5, "note": "n"})


async def test_a_body_that_is_more_than_properties_is_one_argument(opened: Opened, service: Service) -> None:
    either = {"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "array"}]}
    session = await opened(document({"/echo": {"put": operation(**body(either))}}))
    assert (await session.call("shop.it", {"body": [1, "é"]})).ok
    assert json.loads(service.last.body) == [1, "é"]
    assert service.last.headers["content-type"] == "application/json"


async def test_an_optional_body_with_required_parts_is_there_or_not(opened: Opened, service: Service) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    session = await opened(document({"/echo": {"post": operation(**body(schema, required=False))}}))
    assert (await session.call("shop.it", {})).ok
    assert (service.last.body, "content-type" in service.last.headers) == (b"", False)
    assert (await session.call("shop.it", {"body": {"a": "x"}})).ok
    assert json.loads(service.last.body) == {"a": "x"}


async def test_read_only_parts_are_not_asked_for(opened: Opened) -> None:
    pet = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}},
    }
    session = await opened(document({"/echo": {"post": operation(**body(pet))}}))
    tool = session.tool("shop.it")
    assert tool is not None
    assert tool.input_schema["required"] == ["name"]
    assert list(tool.input_schema["properties"]) == ["name"]


async def test_a_form_is_encoded(opened: Opened, service: Service) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": TEXTS, "c": OBJECT, "d": OBJECT},
    }
    encoding = {"d": {"style": "deepObject", "explode": True}}
    said = operation(**body(schema, "application/x-www-form-urlencoded", encoding=encoding))
    session = await opened(document({"/echo": {"post": said}}))
    assert (await session.call("shop.it", {"a": "x&y=é", "b": ["1", "2"], "c": {"r": "3"}, "d": {"g": "4"}})).ok
    sent = parse_qsl(service.last.body.decode())
    assert sent == [("a", "x&y=é"), ("b", "1"), ("b", "2"), ("c", '{"r":"3"}'), ("d[g]", "4")]
    assert service.last.headers["content-type"] == "application/x-www-form-urlencoded"


FILES = {
    "type": "object",
    "required": ["photo"],
    "properties": {
        "photo": {"type": "string", "format": "binary", "description": "the picture"},
        "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "tags": TEXTS,
        "about": OBJECT,
    },
}


def parts(service: Service) -> list[tuple[Any, Any, Any]]:
    head = f"Content-Type: {service.last.headers['content-type']}\n\n".encode()
    found = email.message_from_bytes(head + service.last.body).get_payload()
    assert isinstance(found, list)
    return [
        (one.get_param("name", header="content-disposition"), one.get_filename(), one.get_payload(decode=True))  # type: ignore[union-attr]
        for one in found
    ]


async def test_parts_carry_files_and_fields(opened: Opened, service: Service, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG")
    session = await opened(
        document({"/echo": {"post": operation(**body(FILES, "multipart/form-data"))}}), uploads=tmp_path
    )
    args = {
        "photo": {"path": "cat.png"},
        "more": [{"base64": base64.b64encode(b"\0\1").decode(), "name": 'x"\r\nY: z.bin'}, {"text": "hi"}],
        "tags": ["a", "b"],
        "about": {"r": "1"},
    }
    result = await session.call("shop.it", args)
    assert result.ok, result.failure
    found = parts(service)
    assert found[0] == ("photo", "cat.png", b"\x89PNG")
    assert (found[1][2], found[2][2]) == (b"\0\1", b"hi")
    assert [(name, data) for name, _, data in found[3:]] == [("tags", b"a"), ("tags", b"b"), ("about", b'{"r":"1"}')]
    assert b"\r\nY: z" not in service.last.body


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "link", "none", "", "a\0b"])
async def test_no_file_outside_of_the_folder_is_sent(
    opened: Opened, service: Service, tmp_path: Path, path: str
) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    said = operation(**body(FILES, "multipart/form-data"))
    session = await opened(document({"/echo": {"post": said}}), uploads=tmp_path / "in")
    result = await session.call("shop.it", {"photo": {"path": path}})
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments"
    assert service.seen == []


async def test_without_a_folder_no_path_is_taken(opened: Opened) -> None:
    session = await opened(document({"/echo": {"post": operation(**body(FILES, "multipart/form-data"))}}))
    result = await session.call("shop.it", {"photo": {"path": "cat.png"}})
    assert result.failure is not None
    assert result.failure.code == "invalid_arguments"
    result = await session.call("shop.it", {"photo": {"base64": "not base 64"}})
    assert result.failure is not None
    assert "base 64" in result.failure.message


async def test_texts_and_raw_files_are_bodies(opened: Opened, service: Service) -> None:
    paths = {
        "/echo/t": {"post": operation(**body({"type": "string"}, "text/plain"))},
        "/echo/f": {"put": {**operation(**body({}, "application/octet-stream")), "operationId": "raw"}},
    }
    session = await opened(document(paths))
    assert (await session.call("shop.it", {"body": "grüße"})).ok
    assert (service.last.body.decode(), service.last.headers["content-type"]) == ("grüße", "text/plain")
    assert (await session.call("shop.raw", {"body": {"base64": "AAE="}})).ok
    assert (service.last.body, service.last.headers["content-type"]) == (b"\0\1", "application/octet-stream")


async def test_a_repeated_request_carries_the_same_key(opened: Opened, service: Service) -> None:
    said = operation(parameter("Idempotency-Key", "header"), parameter("n", "query", {"type": "integer"}))
    session = await opened(document({"/echo": {"post": said}}))
    tool = session.tool("shop.it")
    assert tool is not None
    assert "Idempotency-Key" not in tool.input_schema["properties"]
    for n in (1, 1, 2):
        assert (await session.call("shop.it", {"n": n})).ok
    keys = [seen.headers["idempotency-key"] for seen in service.seen]
    assert len(set(keys)) == 3  # three calls are three effects
    assert all(len(key) == 32 for key in keys)


async def test_a_swagger_document_is_read(opened: Opened, service: Service) -> None:
    old = {
        "swagger": "2.0",
        "info": {"title": "Old shop", "version": "1"},
        "host": "127.0.0.1:1",
        "basePath": "/echo",
        "schemes": ["http"],
        "parameters": {"page": {"name": "page", "in": "query", "type": "integer", "minimum": 1}},
        "definitions": {"Pet": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
        "securityDefinitions": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        "security": [{"key": []}],
        "paths": {
            "/pets": {
                "get": {
                    "operationId": "list",
                    "parameters": [
                        {"$ref": "#/parameters/page"},
                        {"name": "tags", "in": "query", "type": "array", "items": {"type": "string"}},
                        {
                            "name": "ids",
                            "in": "query",
                            "type": "array",
                            "items": {"type": "integer"},
                            "collectionFormat": "multi",
                        },
                    ],
                    "responses": {"200": {"description": "ok"}},
                },
                "post": {
                    "operationId": "add",
                    "parameters": [
                        {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
                    ],
                    "responses": {"200": {"description": "ok", "schema": {"type": "object"}}},
                },
                "put": {
                    "operationId": "photo",
                    "consumes": ["multipart/form-data"],
                    "parameters": [{"name": "file", "in": "formData", "type": "file", "required": True}],
                    "responses": {},
                },
            }
        },
    }
    session = await opened(old, base_url=f"{service.url}/echo", auth={"key": "k-123456"})
    assert (await session.call("shop.list", {"page": 2, "tags": ["a,b", "c"], "ids": [1, 2]})).ok
    assert (service.last.path, service.last.query) == ("/echo/pets", "page=2&tags=a%2Cb,c&ids=1&ids=2")
    assert service.last.headers["x-key"] == "k-123456"
    assert (await session.call("shop.add", {"name": "Rex"})).ok
    assert json.loads(service.last.body) == {"name": "Rex"}
    assert (await session.call("shop.photo", {"file": {"text": "x", "name": "a.txt"}})).ok
    assert parts(service) == [("file", "a.txt", b"x")]
