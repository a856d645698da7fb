"""Keys that stand in the address of a server: no log has them, whoever writes it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.definitions.place import Place, code, message, until
from tests.definitions.runners.served import Asked, says, served
from tests.requirements import requirement
from toolcrib.definitions.roots import DefinitionRoot
from toolcrib.definitions.source import FileSource

KEY = "a-key-that-nobody/may see"


@requirement("yaml.run.1", "yaml.run.mcp.2")
async def test_a_key_in_the_address_of_a_server_is_in_no_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    place.environ["SERVICE_KEY"] = KEY
    async with served() as other:
        other.answer = says(500, "broken")
        said = {
            "connection": {"url": f"{other.url}/mcp"},
            "query_parameters": [{"name": "SERVICE_KEY"}],
            "environment_variables": [{"name": "SERVICE_KEY", "required": True}],
        }
        place.write("far", "mcp", commands=["go"], mcp_specific=said)
        grants = {"allow": [f"net:egress:{other.url}", "secrets:read:SERVICE_KEY"]}
        async with place.opened(policy={"default": "allow", "grants": grants}) as (_, session):
            assert code(await session.call("far.go", {})) == "unavailable"
    told = [record.getMessage() for record in caplog.records]
    assert any(f"{other.url}/mcp" in one for one in told)
    assert not [one for one in told if "that-nobody" in one]


@requirement("yaml.find.9")
@pytest.mark.process
async def test_nothing_of_a_stranger_starts_only_to_ask_it_what_happened(place: Place) -> None:
    place.write("theirs", "mcp", commands=["go"], mcp_specific=place.peer({"name": "go"}))
    source = FileSource([DefinitionRoot(place.root, trusted=False)], environ=place.environ)
    async with place.opened(source=source) as (_, session):
        tool = session._view.names["theirs.go"]
        assert tool.reconcile is not None
        nobody: Any = None
        assert await tool.reconcile(nobody) is None
        assert not place.log.exists()
        call = await session.submit("theirs.go", {})
        await until(session, "waiting")
        (asked,) = await session.questions()
        await session.answer(asked.id, "accept", actor="ada")
        assert (await session.result(call.id)).ok


@requirement("yaml.run.1", "yaml.run.http.1")
async def test_a_key_that_a_service_repeats_as_an_address_has_it_is_masked(place: Place) -> None:
    place.environ["SERVICE_KEY"] = KEY

    async def repeats(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await says(404, f"no {asked.target}")(asked, writer)

    async with served() as other:
        other.answer = repeats
        said = {"base_url": other.url, "auth": {"type": "query", "env": "SERVICE_KEY", "name": "k"}}
        place.write("far", "http", commands=[{"name": "go", "method": "GET", "path": "/a"}], http_specific=said)
        grants = {"allow": [f"net:egress:{other.url}", "secrets:read:SERVICE_KEY"]}
        async with place.opened(policy={"default": "allow", "grants": grants}) as (_, session):
            result = await session.call("far.go", {})
    assert message(result) == "HTTP 404: no /a?k=•••"
