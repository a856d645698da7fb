"""Where documents come from: files, addresses and what they refer to; and what happens when they change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sources.openapi.conftest import POLICY
from tests.sources.openapi.service import SERVER, Service, document, operation, parameter, paths, tools
from toolcrib import Crib, Tool
from toolcrib.sources.openapi import BadDocument, OpenApi


async def test_a_document_is_read_from_yaml_and_from_an_address(service: Service, tmp_path: Path) -> None:
    text = yaml.safe_dump(document(paths("on", "no"), server="/echo"))
    (tmp_path / "shop.yaml").write_text(text + "x-date: 2026-01-01\nx-on: [on, yes, 0o17, 1e3, ~]\n")
    found = await tools(tmp_path / "shop.yaml", base_url=SERVER)
    assert found.keys() == {"on", "no"}
    service.files["/docs/openapi.yaml"] = ("application/yaml", text.encode())
    async with Crib([OpenApi(f"{service.url}/docs/openapi.yaml", trusted=True)], policy=POLICY) as crib:
        session = await crib.open(owner="ada", namespaces=["shop"])
        assert (await session.call("shop.on", {})).ok
        assert service.last.path == "/echo/on"


async def test_servers_have_variables() -> None:
    servers = [
        {
            "url": "https://{region}.shop.example:{port}/v{n}",
            "variables": {
                "region": {"default": "eu", "enum": ["eu", "us"]},
                "port": {"default": "8443"},
                "n": {"default": "2"},
            },
        }
    ]
    said = document(paths("a"), servers=servers)
    assert (await tools(said))["a"].capabilities == ("net:egress:https://eu.shop.example:8443",)
    assert (await tools(said, variables={"region": "us", "port": "443"}))["a"].capabilities == (
        "net:egress:us.shop.example",
    )
    with pytest.raises(BadDocument, match="it is one of eu, us"):
        await tools(said, variables={"region": "evil.example/#"})


@pytest.mark.parametrize("url", ["ftp://x/", "https://user:pw@shop.example", "shop", "https://a b/", ""])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadDocument, match="is no address of a service"):
        OpenApi(document(paths("a")), base_url=url)


async def test_other_files_of_the_folder_are_read_and_nothing_beyond(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "outside.json").write_text('{"type": "string"}')
    folder = tmp_path / "api"
    folder.mkdir()
    (folder / "parts.yaml").write_text(
        "Pet: {type: object, properties: {tag: {$ref: '#/Tag'}}}\nTag: {type: integer}\n"
    )

    def of(reference: str) -> dict[str, Any]:
        content = {"content": {"application/json": {"schema": {"$ref": reference}}}, "required": True}
        return operation(requestBody=content)

    said = {
        "/a": {"post": {**of("parts.yaml#/Pet"), "operationId": "near"}},
        "/b": {"post": {**of("../outside.json"), "operationId": "outside"}},
        "/c": {"post": {**of("https://evil.example/x.json#/X"), "operationId": "far"}},
        "/d": {"post": {**of("#/components/schemas/None"), "operationId": "nowhere"}},
        "/e": {"post": {**of("parts.yaml#/None"), "operationId": "nothing"}},
    }
    (folder / "openapi.json").write_text(json.dumps(document(said, server=SERVER)))
    found = await tools(folder / "openapi.json")
    assert found.keys() == {"near"}
    assert found["near"].input_schema["properties"] == {"tag": {"type": "integer"}}
    assert "it lies outside of the folder" in caplog.text
    assert "it lies at another place; name its origin in `refs`" in caplog.text
    assert "#/paths/~1d/post/requestBody/content/application~1json/schema" in caplog.text
    assert "'#/components/schemas/None' leads nowhere" in caplog.text


async def test_others_of_the_same_origin_are_fetched(service: Service) -> None:
    service.files["/pets.json"] = ("application/json", b'{"Name": {"type": "string", "maxLength": 3}}')
    said = operation(parameter("n", "query", {"$ref": "../pets.json#/Name"}))
    service.files["/v1/openapi.json"] = ("application/json", json.dumps(document({"/a": {"get": said}})).encode())
    found = await tools(f"{service.url}/v1/openapi.json")
    assert found["it"].input_schema["properties"]["n"] == {"type": "string", "maxLength": 3}


async def test_a_file_refers_to_what_its_configuration_names_and_not_to_what_lies_inside(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("near", "no_port"):
        port = "" if name == "near" else "99999"
        reference = parameter("n", "query", {"$ref": f"{service.url}{port}/pets.json"})
        said = {"/a": {"get": operation(reference)}, "/b": {"get": operation() | {"operationId": "other"}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document(said, server=SERVER)))
        assert (await tools(tmp_path / f"{name}.json", refs=[service.url])).keys() == {"other"}
    assert "which lies inside" in caplog.text
    assert "it lies at another place" in caplog.text
    assert service.seen == []


async def test_a_change_of_the_document_is_a_change_of_tools(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document(paths("a"), server=SERVER)))
    told: asyncio.Queue[set[str]] = asyncio.Queue()

    def changed(tools: Iterable[Tool]) -> None:
        told.put_nowait({tool.name for tool in tools})

    source = OpenApi(file, refresh_s=0.05)
    assert {tool.name for tool in await source.start(changed)} == {"a"}
    try:
        file.write_text("{broken")
        async with asyncio.timeout(30):
            while "no JSON" not in caplog.text:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.02)
        file.write_text(json.dumps(document(paths("a", "bc"), server=SERVER)))
        async with asyncio.timeout(30):
            assert await told.get() == {"a", "bc"}
    finally:
        await source.stop()


async def test_a_change_at_an_address_is_seen(service: Service) -> None:
    def put(*ids: str, title: str) -> None:
        data = document(paths(*ids)) | {"info": {"title": title}}
        service.files["/openapi.json"] = ("application/json", json.dumps(data).encode())

    put("a", title="Shop")
    told: asyncio.Queue[set[str]] = asyncio.Queue()
    source = OpenApi(f"{service.url}/openapi.json", refresh_s=0.05)
    await source.start(lambda found: told.put_nowait({tool.id for tool in found}))
    try:
        put("a", "b", title="Github")  # it stays where it was
        async with asyncio.timeout(30):
            assert await told.get() == {"shop.a", "shop.b"}
    finally:
        await source.stop()
    assert any("if-none-match" in seen.headers for seen in service.seen)


async def test_a_server_that_is_away_is_tried_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.sources.openapi.RETRY_S", 0.05)
    told: asyncio.Queue[set[str]] = asyncio.Queue()
    source = OpenApi(f"{service.url}/status/503")
    assert list(await source.start(lambda found: told.put_nowait({tool.name for tool in found}))) == []
    try:
        service.files["/status/503"] = ("application/json", json.dumps(document(paths("late"))).encode())
        async with asyncio.timeout(30):
            assert await told.get() == {"late"}
    finally:
        await source.stop()


async def until(source: OpenApi, status: str) -> str:
    """The reason that a source gives as soon as it is like that; nobody tells when it is."""
    async with asyncio.timeout(30):
        while source.health_of(None).status != status:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)
    return source.health_of(None).reason


@pytest.mark.parametrize("path", ["/status/503", "/status/404"])
async def test_while_a_document_is_away_its_source_says_so(service: Service, path: str) -> None:
    there = service.files[path] = ("application/json", json.dumps(document(paths("a"))).encode())
    source = OpenApi(f"{service.url}{path}", refresh_s=0.05)
    await source.start(lambda found: None)
    try:
        assert source.health_of(None).status == "ok"
        del service.files[path]
        assert path.rpartition("/")[2] in await until(source, "degraded")
        service.files[path] = there  # it is as it was, and so is the source
        assert await until(source, "ok") == ""
    finally:
        await source.stop()


def secretive(reference: str) -> bytes:
    body = {"content": {"application/json": {"schema": {"$ref": reference}}}, "required": True}
    return json.dumps(document({"/a": {"post": operation(requestBody=body)}})).encode()


def elsewhere(server: str) -> bytes:
    return json.dumps(document(paths("a"), server=server)).encode()


@pytest.mark.parametrize(
    ("text", "base_url"),
    [
        (None, None),
        (b"{broken", None),
        (b"<html>", None),
        (b'{"openapi": "3.1.0", "paths": {}}', None),
        (secretive("/b.json?key=pass-2#/Pet"), SERVER),
        (secretive("/c.json?key=pass-2"), SERVER),
        (secretive("/d.json?key=pass-2"), SERVER),
        (secretive("https://u:pass-2@other.example/b?key=pass-2#pass-3"), SERVER),
        (elsewhere("https://u:pass-2@shop.example/?pass-2#pass-3"), None),
        (elsewhere("ftp://u:pass-2@shop.example/?pass-2#pass-3"), None),
    ],
)
async def test_no_reason_tells_what_is_secret_in_an_address(
    service: Service, text: bytes | None, base_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.sources.openapi.RETRY_S", 0.02)
    service.files["/c.json"] = ("application/json", b"{broken")
    service.files["/d.json"] = ("application/json", b'{"$ref": "#/nowhere"}')
    address = f"{service.url.replace('//', '//user:pass-0@')}/status/503?key=pass-1#pass-4"
    source = OpenApi(address, base_url=base_url)
    await source.start(lambda found: None)
    try:
        reasons = [await until(source, "unavailable")]
        if text is not None:
            service.files["/status/503"] = ("application/json", text)
            async with asyncio.timeout(30):
                while (reason := source.health_of(None).reason) == reasons[0]:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.02)
            reasons.append(reason)
    finally:
        await source.stop()
    assert service.seen[0].query == "key=pass-1"
    assert all("/status/503" in reason and "pass-" not in reason for reason in reasons), reasons


async def test_a_document_that_was_away_for_a_while_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document(paths("a"), server=SERVER)))
    told: asyncio.Queue[set[str]] = asyncio.Queue()
    source = OpenApi(file, refresh_s=0.02)
    await source.start(lambda found: told.put_nowait({tool.name for tool in found}))
    try:
        file.unlink()
        async with asyncio.timeout(30):
            while await source._loading.changed():  # noqa: ASYNC110 - until the look that finds nothing
                await asyncio.sleep(0.01)
            file.write_text(json.dumps(document(paths("a", "b"), server=SERVER)))
            assert await told.get() == {"a", "b"}
    finally:
        await source.stop()
