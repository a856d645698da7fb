"""What the description of the API says of a value is what the server takes: places, empty words, whole numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import jsonschema_rs
import pytest

from tests.requirements import requirement
from tests.serve.api.place import Desk, desk
from tests.serve.tools import TOOLS
from toolcrib import Crib
from toolcrib.serve.api.openapi import document
from toolcrib.serve.api.pages import place, read_mark, time_and_id
from toolcrib.serve.api.routes import ROUTES

DOCUMENT = document(ROUTES)


@pytest.fixture
async def served() -> AsyncIterator[Desk]:
    async with desk(Crib(TOOLS)) as one:
        yield one


@requirement("adoption.api.1")
@pytest.mark.parametrize("path", ["/calls", "/audit", "/questions", "/sessions", "/tools"])
async def test_whatever_fits_the_pattern_of_a_place_is_a_place(served: Desk, path: str) -> None:
    place = "A" if path == "/tools" else "1.5:s" if path == "/sessions" else "1.5:3:4"
    page = await served.get(path, after=place)
    assert "items" in page
    if path != "/tools":
        assert await served.refused("GET", path, params={"after": "WzEsMl0"}) == (400, "invalid_arguments")


@requirement("adoption.api.1")
@pytest.mark.parametrize("at", [0.0, 1e-7, 1763495913.123456, 0.1 + 0.2, 9e9])
def test_a_place_is_exact(at: float) -> None:
    assert read_mark(place(at, 3, 4)) == (at, 3, 4)
    assert time_and_id(place(at, "a:b")) == (at, "a:b")


@requirement("adoption.api.1")
async def test_a_word_that_means_nothing_is_no_value_of_a_query(served: Desk) -> None:
    for path, name in (("/sources", "seconds"), ("/stats", "since"), ("/audit", "until")):
        assert await served.refused("GET", path, params={name: "null"}) == (400, "invalid_arguments")


@requirement("adoption.api.1")
async def test_a_number_without_a_fraction_is_an_integer(served: Desk) -> None:
    session = await served.open()
    wanted = {"session": session, "tool": "add", "args": {"a": 1}, "cron": "0 4 * * *", "missed": "all", "limit": 5.0}
    assert (await served.post("/schedules", **wanted))["limit"] == 5
    assert await served.refused("POST", "/schedules", {**wanted, "limit": 5.5}) == (400, "invalid_arguments")


@requirement("adoption.api.1")
@pytest.mark.parametrize(
    ("source", "fits"),
    [
        ({"name": "a"}, False),
        ({"name": "a", "mcp": "https://a.example/mcp", "openapi": "https://a.example"}, False),
        ({"name": "a", "mcp": "https://a.example/mcp"}, True),
        ({"name": "a", "mcp": ["python", "server.py"], "env": {"KEY": "env:KEY"}}, True),
        ({"name": "a", "mcp": ["python", "server.py"], "env": {"KEY": "secret"}}, False),
        ({"name": "a", "mcp": ["python", "server.py"], "headers": {"KEY": "env:KEY"}}, False),
        ({"name": "a", "openapi": "https://a.example/v1.yaml", "headers": {"KEY": "env:KEY"}}, True),
        ({"name": "a", "openapi": "https://a.example/v1.yaml", "tasks": True}, False),
    ],
)
def test_the_description_says_what_a_source_is(source: dict[str, object], fits: bool) -> None:
    body = DOCUMENT["paths"]["/v1/sources"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    whole = {**body, "components": DOCUMENT["components"]}
    assert jsonschema_rs.is_valid(whole, source) is fits


@requirement("adoption.api.1")
async def test_the_description_says_what_an_import_and_a_grant_are(served: Desk) -> None:
    body = DOCUMENT["paths"]["/v1/imports"]["post"]["requestBody"]
    assert (body["required"], list(body["content"])) == (True, ["application/x-ndjson"])
    for grants in ([""], ["fs"], {"allow": ["fs:"]}, {"maybe": ["fs:read"]}):
        assert await served.refused("POST", "/sessions", {"grants": grants}) == (400, "invalid_arguments")
    assert (await served.post("/sessions", grants={"deny": ["fs:read:${home}/**"]}))["grants"]


PICK = {"name": "pick", "description": "Pick one.", "input_schema": {"type": "object"}}


@requirement("adoption.api.1")
@pytest.mark.parametrize(
    ("offered", "fits"),
    [
        (PICK, True),
        ({"name": "pick", "description": "Pick one."}, True),
        (PICK | {"limits": {"wait_s": 5, "repeat": None, "rate": "3/min"}, "annotations": {"read_only": True}}, True),
        (PICK | {"tags": ["a"], "effect": "read", "output_schema": {"type": "string"}, "namespace": "mine"}, True),
        (PICK | {"name": "a pick"}, False),
        (PICK | {"description": " "}, False),
        (PICK | {"input_schema": {"type": "string"}}, False),
        (PICK | {"input_schema": {}}, False),
        (PICK | {"input_schema": {"type": "object", "properties": {"a": 5}}}, False),
        (PICK | {"limits": {"wait_s": 0}}, False),
        (PICK | {"limits": {"rate": "often"}}, False),
        (PICK | {"annotations": {"harmless": True}}, False),
        (PICK | {"tags": "a"}, False),
        (PICK | {"run": "rm"}, False),
    ],
)
async def test_the_description_says_what_a_tool_of_a_client_is(
    served: Desk, offered: dict[str, object], fits: bool
) -> None:
    path, body = "/v1/sessions/{session}/tools/client", {"tools": [offered]}
    form = DOCUMENT["paths"][path]["put"]["requestBody"]["content"]["application/json"]["schema"]
    assert jsonschema_rs.is_valid({**form, "components": DOCUMENT["components"]}, body) is fits
    answer = await served.ask("PUT", f"/sessions/{await served.open()}/tools/client", body)
    assert answer.status_code == (200 if fits else 400)
