"""Sources that administrators add, test, disable and remove while a server runs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.place import SOON_S, Desk, desk, good
from tests.serve.place import serving
from tests.sources.mcp.place import ALLOW, PEERS, free_port, served
from toolcrib import Crib
from toolcrib.serve.keyring import Keyring
from toolcrib.serve.managed_sources import LOG, ManagedSources
from toolcrib.serve.mcp import McpServerSettings
from toolcrib.serve.source_entry import SourceRules
from toolcrib.sources.mcp import Mcp

pytestmark = pytest.mark.process

PROGRAMS = SourceRules(programs=True, secrets=("env:KIT_*",))
LIGHT = [sys.executable, str(PEERS / "offers.py")]
KIT = [sys.executable, str(PEERS / "kit.py"), "stdio"]


def light(name: str = "kit") -> Mcp:
    return Mcp(*LIGHT, name=name)


@asynccontextmanager
async def managed(*sources: Any, rules: SourceRules = PROGRAMS, store: str = "memory:") -> AsyncIterator[Desk]:
    """A server whose administrator is whoever reaches it."""
    crib = Crib(sources, store=store, policy=ALLOW)
    async with desk(crib, sources=ManagedSources(crib, rules), namespaces=["*"]) as made:
        yield made


async def listed(at: Desk) -> dict[str, Any]:
    return {row["name"]: row for row in (await at.get("/sources"))["items"]}


async def log_of(crib: Crib) -> list[tuple[str, str]]:
    return [(event.kind, event.fields["by"]) for event in await crib.store.read(LOG, 0)]


async def comes(at: Desk, source: str, **fields: Any) -> None:
    """Returns when a source is listed so; nobody tells when what another process did has come here."""
    async with asyncio.timeout(SOON_S):
        while {key: (await listed(at)).get(source, {}).get(key) for key in fields} != fields:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)


@requirement("gateway.managed.1")
async def test_a_server_is_added_used_disabled_enabled_and_removed() -> None:
    async with served("http") as port, managed() as at:
        new = await at.post("/sources", name="far", mcp=f"http://127.0.0.1:{port}/mcp")
        assert (new["status"], new["origin"], new["kind"], new["enabled"]) == ("ok", "added", "Mcp", True)
        assert new["tools"] > 5
        session = await at.open(namespaces=["far"])
        assert (await at.call(session, "far.echo", {"text": "hi"}))["ok"]
        assert (await at.post("/sources/far/test"))["ok"]
        assert (await at.post("/sources/far/refresh"))["tools"] == new["tools"]
        assert (await at.post("/sources/far/disable"))["status"] == "disabled"
        gone = await at.call(session, "far.echo", {"text": "hi"})
        assert gone["failure"]["code"] == "not_found"
        assert await at.refused("POST", "/sources/far/refresh") == (409, "conflict")
        assert (await at.post("/sources/far/enable"))["status"] == "ok"
        assert (await at.call(session, "far.echo", {"text": "hi"}))["ok"]
        assert good(await at.ask("DELETE", "/sources/far")) == {"name": "far"}
        assert "far" not in await listed(at)
        kinds = ["source_added", "source_switched", "source_switched", "source_removed"]
        assert [kind for kind, _ in await log_of(at.api.crib)] == kinds


@requirement("gateway.managed.1")
async def test_a_client_that_is_connected_is_given_the_tools_of_an_added_server() -> None:
    crib = Crib(policy=ALLOW)
    async with served("http") as port, serving(crib, mcp=McpServerSettings(namespaces=("*",))) as place:
        assert "far__echo" not in {tool["name"] for tool in (await place.result("tools/list"))["tools"]}
        body = {"name": "far", "mcp": f"http://127.0.0.1:{port}/mcp"}
        good(await place.http.post("/v1/sources", json=body))
        assert "far__echo" in {tool["name"] for tool in (await place.result("tools/list"))["tools"]}
        assert (await place.call("far__echo", {"text": "hi"}))["content"][0]["text"] == "hi"


@requirement("gateway.managed.1")
async def test_a_source_that_fails_its_test_leaves_nothing_behind() -> None:
    async with managed() as at:
        before = await listed(at)
        answer = await at.ask("POST", "/sources", {"name": "dead", "mcp": f"http://127.0.0.1:{free_port()}/mcp"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "failed")
        assert "nothing was added" in answer.json()["error"]["hint"]
        test = await at.post("/source-tests", name="none", mcp=["no-such-program-at-all"])
        assert (test["ok"], test["tools"]) == (False, [])
        assert "not installed" in test["problem"]
        assert await listed(at) == before
        assert await log_of(at.api.crib) == []
        assert at.api.crib.catalog.namespaces() == Crib().catalog.namespaces()


@requirement("gateway.managed.1")
async def test_a_source_that_does_not_answer_is_no_fault_of_the_server() -> None:
    away = Mcp(f"http://127.0.0.1:{free_port()}/mcp", name="far")
    async with managed(away) as at:
        for path in ("/sources/far/refresh", "/mcp/far/refresh", "/mcp/far/restart"):
            assert await at.refused("POST", path) == (409, "failed")


@requirement("gateway.managed.1")
async def test_only_administrators_reach_the_sources() -> None:
    crib = Crib(policy=ALLOW)
    keys = Keyring(lambda: crib.store, crib.pipeline.clock.now)
    async with desk(crib, guard=keys, sources=ManagedSources(crib, PROGRAMS)) as at:
        plain, root = [(await keys.add("ada", by="t", scopes=scopes))[0] for scopes in ((), ("admin",))]
        body = {"name": "kit", "mcp": LIGHT}
        for method, path in (("GET", "/sources"), ("POST", "/sources"), ("POST", "/source-tests")):
            assert await at.as_(plain).refused(method, path, body) == (403, "denied")
        assert await at.as_(plain).refused("DELETE", "/sources/kit") == (403, "denied")
        assert (await at.as_(root).post("/sources", **body))["by"] == "ada"
        assert await log_of(crib) == [("source_added", "ada")]


@requirement("gateway.managed.1", "gateway.breaker.2")
async def test_an_added_server_has_the_limits_and_the_breaker_that_were_sent() -> None:
    async with managed() as at:
        await at.post("/sources", name="far", mcp=LIGHT, breaker=0, limits={"output_bytes": 9000, "rate": "30/min"})
        tools = at.api.crib.catalog.view(("far",)).tools
        assert {(tool.limits.repeat, tool.limits.output_bytes, tool.limits.rate) for tool in tools} == {
            (None, 9000, "30/min")
        }


@requirement("gateway.managed.1")
async def test_what_cannot_be_is_refused_with_what_to_do() -> None:
    async with managed(light()) as at:
        await comes(at, "kit", status="ok")
        for body, code, words in (
            ({"name": "kit", "mcp": LIGHT}, "conflict", "already"),
            ({"name": "A b", "mcp": LIGHT}, "invalid_arguments", "name"),
            ({"name": "x"}, "invalid_arguments", "either mcp or openapi"),
            ({"name": "x", "mcp": "a 'b"}, "invalid_arguments", "no command"),
            ({"name": "x", "mcp": LIGHT, "headers": {"A": "env:KIT_A"}}, "invalid_arguments", "takes no headers"),
            ({"name": "x", "openapi": "/etc/passwd"}, "invalid_arguments", "no address"),
            ({"name": "x", "mcp": LIGHT, "share": "odd"}, "invalid_arguments", "share"),
            ({"name": "x", "mcp": LIGHT, "limits": {"rate": "often"}}, "invalid_arguments", "limits"),
        ):
            answer = (await at.ask("POST", "/sources", body)).json()["error"]
            assert (answer["code"], words in answer["message"]) == (code, True), answer
        assert await at.refused("DELETE", "/sources/kit") == (409, "conflict")
        assert await at.refused("DELETE", "/sources/kot") == (404, "not_found")
        assert await at.refused("POST", "/sources/builtin/disable") == (403, "denied")
        assert await log_of(at.api.crib) == []


@requirement("gateway.managed.3")
async def test_secrets_are_references_that_the_server_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    async with managed() as at:
        for more, code, words in (
            ({"mcp": LIGHT, "env": {"TOKEN": "s3cret"}}, "invalid_arguments", "no reference"),
            ({"mcp": LIGHT, "env": {"TOKEN": "env:HOME"}}, "denied", "env:HOME"),
            ({"mcp": LIGHT, "env": {"TOKEN": "file:/etc/passwd"}}, "denied", "file:/etc/passwd"),
            ({"mcp": [*LIGHT, "--api-key=s3cret"]}, "invalid_arguments", "secret stands"),
            ({"mcp": "https://me:s3cret@127.0.0.1/mcp"}, "invalid_arguments", "secret stands"),
            ({"mcp": "https://127.0.0.1/mcp?token=s3cret"}, "invalid_arguments", "secret stands"),
        ):
            answer = await at.ask("POST", "/sources", {"name": "x", **more})
            assert (answer.json()["error"]["code"], words in answer.text) == (code, True), answer.text
            assert "s3cret" not in answer.text
        monkeypatch.setitem(os.environ, "KIT_TOKEN", "s3cret")
        new = await at.post("/sources", name="kit", mcp=LIGHT, env={"TOKEN": "env:KIT_TOKEN"})
        assert new["entry"]["env"] == {"TOKEN": "env:KIT_TOKEN"}
        assert "s3cret" not in repr([event.fields for event in await at.api.crib.store.read(LOG, 0)])
    async with managed(rules=SourceRules()) as at:
        assert await at.refused("POST", "/sources", {"name": "x", "mcp": LIGHT}) == (403, "denied")
    async with managed(rules=SourceRules(allowed=False)) as at:
        body = {"name": "x", "mcp": "http://127.0.0.1:9/mcp"}
        assert await at.refused("POST", "/sources", body) == (403, "denied")


@requirement("gateway.managed.2")
async def test_what_was_arranged_holds_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'crib.db'}"
    begun = tmp_path / "begun"
    noisy = [sys.executable, "-c", f"open({str(begun)!r}, 'w').close()"]
    async with managed(light(), store=store) as at:
        await at.post("/sources", name="two", mcp=LIGHT)
        await at.post("/sources", name="off", mcp=noisy, check=False)
        await at.post("/sources/off/disable")
        await at.post("/sources/kit/disable")
        begun.unlink(missing_ok=True)
    async with managed(light(), store=store) as at:
        await comes(at, "two", status="ok")
        rows = await listed(at)
        assert (rows["kit"]["status"], rows["kit"]["origin"], rows["kit"]["tools"]) == ("disabled", "configured", 0)
        assert rows["off"]["status"] == "disabled"
        session = await at.open(namespaces=["two"])
        assert (await at.call(session, "two.debug"))["ok"]
        await at.post("/sources/kit/enable")
        assert (await listed(at))["kit"]["tools"] > 4
    assert not begun.exists()


@requirement("gateway.managed.2")
async def test_every_process_over_a_store_has_what_one_was_told(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'crib.db'}"
    async with managed(store=store) as one, managed(store=store, rules=SourceRules()) as other:
        await one.post("/sources", name="kit", mcp=LIGHT)
        await comes(other, "kit", status="unavailable", tools=0)  # its own file allows no programs
        assert "programs" in (await listed(other))["kit"]["reason"]
        async with served("http") as port:
            await other.post("/sources", name="far", mcp=f"http://127.0.0.1:{port}/mcp")
            await comes(one, "far", status="ok")
            await one.post("/sources/far/disable")
            await comes(other, "far", status="disabled")
            good(await other.ask("DELETE", "/sources/far"))
            await comes(one, "far", name=None)


@requirement("gateway.managed.2")
async def test_an_added_source_stays_where_the_crib_takes_over_others() -> None:
    async with managed() as at:
        await at.post("/sources", name="kit", mcp=LIGHT)
        await at.api.crib.take_over(Crib([light(name="three")], policy=ALLOW))
        rows = await listed(at)
        assert (rows["kit"]["status"], rows["kit"]["origin"]) == ("ok", "added")
        assert rows["three"]["origin"] == "configured"
        await at.api.crib.take_over(Crib([light(name="kit2")], policy=ALLOW))
        assert {"kit", "kit2"} <= set(await listed(at))
        await at.post("/sources/kit/disable")
        good(await at.ask("DELETE", "/sources/kit"))
        await at.api.crib.take_over(Crib([light()], policy=ALLOW))
        await comes(at, "kit", status="ok", origin="configured")


@requirement("gateway.managed.2")
async def test_an_added_source_whose_name_is_configured_later_gives_way(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'crib.db'}"
    async with managed(store=store) as at:
        await at.post("/sources", name="kit", mcp=LIGHT)
    async with managed(light(), store=store) as at:
        await comes(at, "kit", status="ok", origin="configured")
        assert "configured" in (await listed(at))["kit"]["reason"]


@requirement("gateway.managed.2")
async def test_tools_of_an_added_server_are_pinned_though_none_was_configured() -> None:
    async with managed() as at:
        await at.post("/sources", name="kit", mcp=LIGHT)
        pinned = await at.api.crib.store.read("toolcrib.pins", 0)
        assert "kit.debug" in {event.fields["tool"] for event in pinned}


@requirement("gateway.managed.4")
async def test_calls_in_flight_end_before_their_source_is_stopped() -> None:
    async with managed() as at:
        await at.post("/sources", name="kit", mcp=KIT)
        crib = at.api.crib
        (source,) = [one for one in crib.registry.sources if isinstance(one, Mcp)]
        session = await crib.open("s", owner="ada", namespaces=["kit"])
        call = await session.submit("kit.work", {})
        async for event in session.events(call=call.id):
            if event.kind == "started":
                break
        good(await at.ask("DELETE", "/sources/kit"))
        result = await session.result(call.id)
        assert result.ok, result.failure
        async with asyncio.timeout(SOON_S):
            while source.server.connections:  # noqa: ASYNC110 - nobody tells when its process has ended
                await asyncio.sleep(0.01)


@requirement("gateway.managed.4")
async def test_a_call_that_waits_for_an_approval_ends_where_its_source_is_gone() -> None:
    crib = Crib(policy={"default": "ask"})
    async with desk(crib, sources=ManagedSources(crib, PROGRAMS)) as at:
        await at.post("/sources", name="kit", mcp=LIGHT)
        session = await crib.open("s", owner="ada", namespaces=["kit"])
        call = await session.submit("kit.debug", {})
        async for event in session.events(call=call.id):
            if event.kind == "waiting":
                question = event.fields["question"]["id"]
                break
        good(await at.ask("DELETE", "/sources/kit"))
        await session.answer(question, "accept", actor="ada")
        result = await session.result(call.id)
        assert result.failure is not None
        assert result.failure.code == "not_found"


@requirement("gateway.managed.2")
async def test_two_that_add_one_name_at_once_get_one_source(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'crib.db'}"
    async with managed(store=store) as one, managed(store=store) as other:
        body = {"name": "kit", "mcp": LIGHT}
        answers = await asyncio.gather(one.ask("POST", "/sources", body), other.ask("POST", "/sources", body))
        assert sorted(answer.status_code for answer in answers) == [201, 409]
        await comes(one, "kit", status="ok")
        await comes(other, "kit", status="ok")
