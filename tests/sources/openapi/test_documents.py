"""Documents: good ones as tools, broken ones as messages that say where, and none that harms."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.sources.openapi.conftest import Opened
from tests.sources.openapi.service import SERVER, Service, document, operation, parameter, paths, tools
from toolcrib import Crib
from toolcrib.schema import llm_schema
from toolcrib.sources.openapi import BadDocument, OpenApi
from toolcrib.sources.openapi.parser import MOST_BYTES, read

# Names, effects, texts


async def test_operations_become_tools_with_what_their_methods_mean() -> None:
    methods = ("get", "head", "put", "delete", "post", "patch")
    with pytest.raises(BadDocument, match="the path names id, which is no parameter"):
        await tools(document({"/a/{id}": {one: {"responses": {}} for one in methods}}, server=SERVER), trusted=True)
    at = {"parameters": [parameter("id", "path")]}
    found = await tools(document({"/a/{id}": {**at, **{one: {"responses": {}} for one in methods}}}, server=SERVER))
    assert {name: tool.does for name, tool in found.items()} == {
        "get_a_id": "read",
        "head_a_id": "read",
        "put_a_id": "idempotent",
        "delete_a_id": "idempotent",
        "post_a_id": "once",
        "patch_a_id": "once",
    }
    said = found["delete_a_id"].annotations
    assert said is not None
    assert said.destructive
    assert {tool.namespace for tool in found.values()} == {"shop"}
    assert found["get_a_id"].capabilities == ("net:egress:shop.example",)
    assert not found["get_a_id"].trusted


async def test_names_are_legal_unique_and_do_not_depend_on_their_order() -> None:
    said = {
        "/a": {"get": {**operation(), "operationId": "same"}},
        "/b": {"get": {**operation(), "operationId": "same"}},
        "/c": {"get": {**operation(), "operationId": "repos/list things!"}},
        "/d": {"get": {**operation(), "operationId": "x" * 200}},
        "/": {"get": {"responses": {}}},
    }
    found = await tools(document(said, server=SERVER))
    again = await tools(document(dict(reversed(said.items())), server=SERVER))
    assert found.keys() == again.keys()
    assert len(found) == 5
    assert {"repos_list_things", "get_root"} <= found.keys()
    assert all(len(name) <= 64 for name in found)
    assert sum(name.startswith("same_") for name in found) == 2


async def test_texts_tags_and_deprecation() -> None:
    said = operation(summary="List pets", description="All of them. " + "x" * 5000, tags=["pets"], deprecated=True)
    tool = (await tools(document({"/a": {"get": said}}, server=SERVER)))["it"]
    assert tool.description.startswith("Deprecated. List pets\n\nAll of them.")
    assert len(tool.description) <= 2000
    assert tool.tags == ("pets", "deprecated")


async def test_what_the_document_says_for_us(caplog: pytest.LogCaptureFixture) -> None:
    extra = {"name": "find", "effect": "read", "timeout": 5, "confirm": True, "rate": "3/min", "nmae": 1, "hide": "x"}
    said = {
        "/a": {"post": {**operation(), "x-toolcrib": extra}},
        "/b": {"get": {**operation(), "operationId": "gone", "x-toolcrib": {"hide": True}}},
        "/c": {"get": {**operation(), "operationId": "grave", "x-toolcrib": {"effect": "once"}}},
    }
    trusted = await tools(document(said, server=SERVER), trusted=True)
    assert trusted.keys() == {"find", "grave"}
    assert (trusted["find"].does, trusted["find"].limits.timeout_s) == ("read", 5)
    assert trusted["find"].limits.rate == "3/min"
    assert trusted["find"].annotations is not None
    assert trusted["find"].annotations.requires_confirmation
    assert "did you mean 'name'?" in caplog.text
    assert "x-toolcrib.hide: 'x' cannot be used" in caplog.text
    untrusted = await tools(document(said, server=SERVER))
    assert (untrusted["find"].does, untrusted["grave"].does) == ("once", "once")


async def test_a_title_does_not_take_the_place_of_others() -> None:
    found = await tools(document(paths("a"), server=SERVER) | {"info": {"title": "Shell"}})
    assert found["a"].id == "shell-api.a"
    found = await tools(document(paths("a"), server=SERVER), namespace="Mine!")
    assert found["a"].id == "mine.a"


# Choosing


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        (["tag:pets"], [], {"pets_list", "pets_add"}),
        (["GET"], [], {"pets_list", "users_get"}),
        (["GET /pets*"], [], {"pets_list"}),
        (["/users/*"], [], {"users_get"}),
        (["/**"], ["POST"], {"pets_list", "users_get", "users_tags"} - {"users_tags"}),
        ("pets/*", [], {"pets_list", "pets_add"}),
        (["users_*"], [], {"users_get", "users_tags"}),
        ([], ["tag:p*", "/users/*/tags"], {"users_get"}),
    ],
)
async def test_operations_are_chosen(include: Any, exclude: Any, left: set[str]) -> None:
    said = {
        "/pets": {
            "get": {**operation(tags=["pets"]), "operationId": "pets/list"},
            "post": {**operation(tags=["pets"]), "operationId": "pets/add"},
        },
        "/users/{id}": {"get": {**operation(parameter("id", "path")), "operationId": "users/get"}},
        "/users/{id}/tags": {"post": {**operation(parameter("id", "path")), "operationId": "users/tags"}},
    }
    assert (await tools(document(said, server=SERVER), include=include, exclude=exclude)).keys() == left


async def test_a_large_document_is_to_be_chosen_from() -> None:
    many = document(paths(*(f"op{n}" for n in range(301))), server=SERVER)
    with pytest.raises(BadDocument, match="it has 301 operations, more than 300: choose with include and exclude"):
        await tools(many)
    assert len(await tools(many, limit=301)) == 301
    assert len(await tools(many, include=["op1*"])) == 111
    with pytest.raises(BadDocument, match="none of its 301 operations fits nothing"):
        await tools(many, include="nothing")


def large(count: int) -> dict[str, Any]:
    """A document with many operations and schemas that refer to each other."""
    properties = {f"field_{n}": {"type": "string", "description": "what it says " * 5} for n in range(12)}
    schemas = {
        f"S{n}": {
            "type": "object",
            "properties": {**properties, "next": {"$ref": f"#/components/schemas/S{(n + 1) % count}"}},
        }
        for n in range(count)
    }
    said = {}
    for n in range(count):
        reference = {"schema": {"$ref": f"#/components/schemas/S{n}"}}
        content = {"content": {"application/json": reference}}
        said[f"/things{n}/{{id}}"] = {
            "parameters": [parameter("id", "path")],
            "get": {"operationId": f"get{n}", "summary": f"Get thing {n}", "responses": {"200": content}},
        }
    return document(said, server=SERVER, components={"schemas": schemas})


async def test_two_thousand_operations_are_there_at_once(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    file.write_text(json.dumps(large(2000)))
    assert file.stat().st_size > 2_000_000
    async with Crib([OpenApi(file, limit=2000, namespace="big", trusted=True)]) as crib:
        session = await crib.open(owner="ada", namespaces=["big"])
        found = crib.catalog.view(("big",)).tools
        assert len(found) == 2000
        assert sum("whole" in vars(tool) for tool in found) == 0  # no schema was made
        tool = session.tool("big.get1999")
        assert tool is not None
        assert list(tool.input_schema["properties"]) == ["id"]
        assert sum("whole" in vars(one) for one in found) == 1
        assert len(llm_schema(tool.input_schema)["properties"]) == 1


# Schemas


async def test_references_are_resolved_and_circles_kept() -> None:
    schemas = {
        "Pet": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"$ref": "#/components/schemas/Name"},
                "parent": {"$ref": "#/components/schemas/Pet"},
            },
        },
        "Name": {"type": "string", "minLength": 1},
    }
    content = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}, "required": True}
    said = document({"/a": {"post": operation(requestBody=content)}}, server=SERVER, components={"schemas": schemas})
    schema = (await tools(said))["it"].input_schema
    assert schema["properties"]["name"] == {"type": "string", "minLength": 1}
    assert schema["properties"]["parent"] == {"$ref": "#/$defs/Pet"}
    assert schema["$defs"]["Pet"]["properties"]["parent"] == {"$ref": "#/$defs/Pet"}
    parsed = (await tools(said))["it"].parse(b'{"name": "Rex", "parent": {"name": "Ada"}}')
    assert parsed.values["parent"]["name"] == "Ada"


async def test_older_words_become_json_schema() -> None:
    old = {
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
        "maximum": 9,
        "exclusiveMaximum": False,
        "nullable": True,
        "example": 3,
        "default": 2,
        "xml": {"name": "x"},
    }
    color = {"type": "string", "enum": ["red"], "nullable": True}
    reference = {"allOf": [{"$ref": "#/components/schemas/N"}], "nullable": True}
    said = document(
        {
            "/a": {
                "get": operation(*(parameter(n, "query", s) for n, s in (("n", old), ("c", color), ("r", reference))))
            }
        },
        server=SERVER,
        version="3.0.3",
        components={"schemas": {"N": {"type": "integer"}}},
    )
    tool = (await tools(said))["it"]
    assert tool.input_schema["properties"]["n"] == {
        "type": ["integer", "null"],
        "exclusiveMinimum": 1,
        "maximum": 9,
        "examples": [3],
        "description": "(default: 2)",
    }
    assert tool.input_schema["properties"]["c"]["enum"] == ["red", None]
    assert tool.parse(b'{"n": null, "c": null, "r": null}').values["r"] is None
    assert tool.parse(b"{}").values == {}  # what is not given is not sent


async def test_a_pattern_that_nobody_can_read_is_left_out() -> None:
    said = operation(parameter("a", "query", {"type": "string", "pattern": "(?<bad"}))
    tool = (await tools(document({"/a": {"get": said}}, server=SERVER)))["it"]
    assert tool.input_schema["properties"]["a"] == {"type": "string"}


# Bad ones


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"openapi": "3.1.0",\n "paths": }', "line 2, column 11: this is no JSON"),
        ("openapi: 3.1.0\npaths: [\n", "line 3, column 1: this is neither JSON nor YAML"),
        ("<!DOCTYPE html><html></html>", "this is a web page, no document"),
        ("", "a document is an object"),
        ("[1]", "a document is an object"),
        ("{}", "it has no `openapi`"),
        ('{"openapi": "4.0", "paths": {}}', "it is of version '4.0'"),
        ('{"openapi": "3.1.0", "paths": []}', "#/paths: it is no object"),
        ('{"openapi": "3.1.0", "paths": {}}', "it has no operations"),
        ('{"openapi": "3.1.0", "paths": {"a": {"get": {}}}}', "does not begin with a slash"),
        ('{"openapi": "3.1.0", "paths": {"/a": {"get": 5}}}', "#/paths/~1a/get: an operation is an object"),
        ("openapi: 3.1.0\na: &a\n  <<: *a\n", "the alias \\*a stands for nothing|no merge"),
        ("a: " + "[" * 5000, "nested deeper than 200 levels"),
        ('{"a": ' * 5000, "nested too deeply|no JSON"),
        ("a: \x00", "neither JSON nor YAML"),
        ("{openapi: 3.1.0}", "this is no JSON"),
    ],
)
async def test_a_broken_document_says_where(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "openapi").write_text(text)
    with pytest.raises(BadDocument, match=problem) as raised:
        await tools(tmp_path / "openapi", base_url=SERVER)
    assert str(tmp_path) in str(raised.value)


async def test_aliases_cannot_multiply_without_end(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "bomb.yaml").write_text("\n".join(lines))
    with pytest.raises(BadDocument, match=r"more than 4,000,000 values, those behind aliases counted"):
        await tools(tmp_path / "bomb.yaml")


def test_a_document_of_fifty_megabytes_is_not_read() -> None:
    assert MOST_BYTES < 50_000_000
    with pytest.raises(BadDocument, match="it has more than 32 MB"):
        read(b" " * 50_000_000, "big.json")


async def test_a_file_of_fifty_megabytes_is_not_even_opened(tmp_path: Path) -> None:
    with (tmp_path / "big.json").open("wb") as file:
        file.truncate(50_000_000)
    with pytest.raises(BadDocument, match="it has more than 32 MB"):
        await tools(tmp_path / "big.json")


async def test_what_is_not_there_is_told(service: Service, tmp_path: Path) -> None:
    with pytest.raises(BadDocument, match="it cannot be read: No such file"):
        await tools(tmp_path / "none.yaml")
    with pytest.raises(BadDocument, match="it cannot be read: HTTP 404"):
        await tools(f"{service.url}/nothing.json")
    service.files["/page"] = ("text/html", b"<!doctype html><p>Docs</p>")
    with pytest.raises(BadDocument, match="this is a web page"):
        await tools(f"{service.url}/page")


async def test_without_a_server_it_is_said_what_to_set() -> None:
    with pytest.raises(BadDocument, match="no server can be reached at '/'; set base_url to where the service is"):
        await tools(document(paths("a")))


@requirement("gateway.sources.2")
async def test_a_server_without_a_scheme_is_reached_by_https() -> None:
    said = document({"/a": {"get": operation()}}, server="//host.example/v1")
    (made,) = (await tools(said)).values()
    assert any("host.example" in capability for capability in made.capabilities)
    assert not any("http:" in capability for capability in made.capabilities)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ({"parameters": [{"in": "query"}]}, "this is no parameter"),
        ({"parameters": [parameter("a", "query", style="matrix")]}, "has one of the styles form"),
        ({"parameters": [parameter("a b", "header")]}, "cannot be the name of a header"),
        ({"parameters": [{"$ref": "#/components/parameters/Loop"}]}, "leads in a circle"),
        ({"parameters": [{"name": "a", "in": "query", "schema": 5}]}, "this is no schema"),
        ({"parameters": [parameter("a", "query", {"type": "nonsense"})]}, "not valid JSON Schema"),
    ],
)
async def test_a_broken_operation_leaves_the_others(
    caplog: pytest.LogCaptureFixture, broken: dict[str, Any], problem: str
) -> None:
    caplog.set_level(logging.WARNING)
    said = {"/bad": {"get": {**operation(), "operationId": "bad", **broken}}, **paths("good")}
    loop = {"Loop": {"$ref": "#/components/parameters/Loop"}}
    found = await tools(document(said, server=SERVER, components={"parameters": loop}))
    assert found.keys() == {"good"}
    assert problem in caplog.text


async def test_a_broken_operation_of_many_says_so_when_it_is_called(opened: Opened) -> None:
    said = paths(*(f"op{n}" for n in range(150)))
    said["/bad"] = {"get": {**operation({"$ref": "#/nowhere"}), "operationId": "bad"}}
    session = await opened(document(said))
    result = await session.call("shop.bad", {})
    assert result.failure is not None
    assert (result.failure.code, result.failure.retryable) == ("unavailable", False)
    assert "#/paths/~1bad/get/parameters/0: $ref '#/nowhere' leads nowhere" in result.failure.message
