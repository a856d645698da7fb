"""What the console is told: how tools are, what there is to choose from, and who had the word when."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.agent.place import UNGUARDED
from tests.console.shop import agents, check_orders, filler, refund
from tests.console.shop import find_order as found
from tests.definitions.place import Place
from tests.serve.api.place import SOON_S, Desk, desk, until
from tests.sources.mcp.place import ALLOW, free_port, raw
from toolcrib import Crib, ToolFailure, tool
from toolcrib.serve.keys import ApiKeys, new_key
from toolcrib.serve.principal import Principal
from toolcrib.sources.mcp import Mcp
from toolcrib.sources.openapi import OpenApi

OPEN: dict[str, Any] = {"namespaces": ["*"]}
PETS = """{"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "servers": [{"url": "https://pets.example"}],
"paths": {"/pets": {"get": {"operationId": "list", "responses": {"200": {"description": "All of them."}}}}}}"""


async def comes_to(served: Desk, health: str) -> list[dict[str, Any]]:
    """The tools that are so, when the first one is; nobody tells of it."""
    async with asyncio.timeout(SOON_S):
        while not (page := await served.get("/tools", health=health))["items"]:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.05)
    items: list[dict[str, Any]] = page["items"]
    return items


async def test_the_tools_of_a_killed_server_are_degraded_until_it_runs_again() -> None:
    async with desk(Crib([raw(), found], policy=ALLOW), **OPEN) as served:
        page = await served.get("/tools", limit=1)
        assert page["facets"]["health"] == {"ok": page["total"]}
        assert page["unwell"] == []
        session = await served.open("s")
        os.kill(int((await served.call(session, "raw.pid", wait=True))["data"]), signal.SIGKILL)
        told = await comes_to(served, "degraded")
        assert {one["namespace"] for one in told} == {"raw"}
        assert "ended by itself" in told[0]["reason"]
        assert (await served.get("/tools/shop.find_order"))["health"] == "ok"
        assert (await served.call(session, "raw.echo", {"text": "back"}, wait=True))["data"] == "back"
        assert (await served.get("/tools/raw.echo"))["health"] == "ok"


async def test_a_source_that_cannot_be_had_is_told_of_though_it_has_no_tools() -> None:
    gone = Mcp("/no/such/program", name="gone")
    away = OpenApi(f"http://127.0.0.1:{free_port()}/openapi.json", namespace="away")
    async with desk(Crib([gone, away, found]), **OPEN) as served:
        page = await served.get("/tools")
        assert page["facets"]["source"].keys() == {"builtin", "tests.console.shop"}
        told = {one["name"]: (one["health"], one["reason"]) for one in page["unwell"]}
        assert told["gone"][0] == told["away"][0] == "unavailable"
        assert "/no/such/program" in told["gone"][1]
        assert "openapi.json" in told["away"][1]


async def test_why_a_source_is_unwell_is_told_to_who_looks_after_the_server() -> None:
    keys = {name: new_key() for name in ("ada", "root")}
    known = {keys["ada"][1]: Principal("ada", auth="key")}
    known[keys["root"][1]] = Principal("root", scopes=frozenset({"admin"}), auth="key")
    gone = Mcp("/no/such/program --password hunter2", name="gone")
    async with desk(Crib([gone, found]), guard=ApiKeys(known), **OPEN) as served:
        (told,) = (await served.as_(keys["root"][0]).get("/tools"))["unwell"]
        assert "/no/such/program" in told["reason"]
        page = await served.as_(keys["ada"][0]).get("/tools")
        assert [one["health"] for one in page["unwell"]] == ["unavailable"]
        assert "no/such" not in str(page)
    async with desk(Crib([gone, found]), namespaces=["shop"]) as narrow:
        assert (await narrow.get("/tools"))["unwell"] == []


async def test_a_document_that_can_no_longer_be_had_leaves_its_tools_degraded(tmp_path: Path) -> None:
    place = tmp_path / "openapi.json"
    place.write_text(PETS)
    async with desk(Crib([OpenApi(place, namespace="pets", refresh_s=0.05)]), **OPEN) as served:
        assert (await served.get("/tools"))["facets"]["health"].keys() == {"ok"}
        place.write_text("{")
        assert (await comes_to(served, "degraded"))[0]["reason"]
        place.write_text(PETS)
        assert await comes_to(served, "ok")


@pytest.mark.parametrize("code", ["unavailable", "timeout"])
async def test_a_tool_whose_last_calls_all_ended_badly_is_degraded(code: Any) -> None:
    ends = [None, code, code, code, "not_found"]

    @tool(namespace="shop", read_only=True)
    async def flaky(turn: int) -> int:
        """Fail now and then."""
        if ends[turn] is not None:
            raise ToolFailure(ends[turn], "no luck")
        return turn

    async with desk(Crib([flaky]), **OPEN) as served:
        session = await served.open("s")
        for turn, health in enumerate(["ok", "ok", "ok", "degraded", "ok"]):
            await served.call(session, "shop.flaky", {"turn": turn}, wait=True)
            told = await served.get("/tools/shop.flaky")
            assert told["health"] == health
        assert "reason" not in told


async def test_what_was_found_of_a_definition_file_is_told(tmp_path: Path) -> None:
    place = Place(tmp_path)
    check = {"method": "command", "command": "which nothing-here"}
    said: dict[str, Any] = {"cli_specific": {"executable": "say"}, "commands": [{"name": "greet", "cli_args": ["hi"]}]}
    place.write("say", "cli", **said, health_check=check)
    files = place.source()
    async with desk(Crib([files]), **OPEN) as served:
        assert (await served.get("/tools/say.greet"))["health"] == "ok"
        await files.health("say")
        told = await served.get("/tools/say.greet")
        assert told["health"] == "unavailable"
        assert "nothing-here is not installed" in told["reason"]


async def test_what_there_is_to_choose_from_is_told_for_all_pages() -> None:
    async with desk(Crib([found, *map(filler, range(300))]), **OPEN) as served:
        page = await served.get("/tools", limit=10, source="tests.console.shop")
        assert page["total"] == 301
        assert sum(page["facets"]["namespace"].values()) == 301
        assert page["facets"]["effect"] == {"idempotent": 100, "once": 100, "read": 101}
        assert "facets" not in await served.get("/tools", limit=10, source="tests.console.shop", after=page["next"])
        some = await served.get("/tools", namespace="space07", effect="once")
        assert (some["total"], some["facets"]["namespace"]["space07"]) == (5, 5)
        # What else there is of a kind that is chosen: all that fit the others.
        assert some["facets"]["effect"] == {"idempotent": 5, "once": 5, "read": 5}
        assert sum(some["facets"]["namespace"].values()) == 100
        assert (await served.get("/tools", q="look order"))["facets"]["source"] == {"tests.console.shop": 1}


async def test_who_had_the_word_is_told_at_every_event_and_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/words.db"
    async with desk(Crib([found], store=store, agents=agents(), policy=UNGUARDED), **OPEN) as served:
        await served.open("talk")
        await served.post("/sessions/talk/messages", text="it is about money", agent="desk", wait=60)
        await served.open("plain")
        kinds = {one["kind"]: one["seq"] for one in (await served.get("/sessions/talk/events"))["items"]}
        told = {name: (await served.get("/sessions/talk/state", at=kinds[name])).get("agent") for name in kinds}
        assert (told["opened"], told["run_started"], told["handover"]) == (None, "desk", "billing")
    async with desk(Crib([found], store=store, agents=agents(), policy=UNGUARDED), **OPEN) as served:
        listed = {one["id"]: one for one in (await served.get("/sessions"))["items"]}
        assert listed["talk"]["agent"] == "billing"
        assert "agent" not in listed["plain"]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_the_lists_are_told_as_they_were_at_every_event(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    places = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/past.db"}
    store = places.get(kind) or request.getfixturevalue("postgres_url")
    async with desk(Crib([found, refund], store=store), **OPEN) as served:
        session = await served.open("s")
        await served.call(await served.open("before"), "shop.find_order", {"order": "A-0"}, wait=True)
        await served.call(session, "shop.find_order", {"order": "A-1"}, wait=True)
        asked = await served.call(session, "shop.refund", {"order": "A-2", "cents": 1}, wait=False)
        async with served.stream("/sessions/s/events") as events:
            await until(events, "waiting")
        await served.call(session, "shop.find_order", {"order": "A-3"}, wait=True)
        await served.post("/sessions/s/answers", question=f"{asked['id']}-1", action="accept")
        await served.get(f"/sessions/s/calls/{asked['id']}/result", wait=SOON_S)
        written = (await served.get("/sessions/s/events"))["items"]
        room = await served.api.crib._session_table.attached("s")
        assert room is not None
        for event in written:
            told = await served.get("/sessions/s/lists", at=event["seq"])
            folded = {
                "unresolved": await room.unresolved(event["seq"]),
                "ongoing": await room.ongoing(event["seq"]),
                "completed": await room.completed(at=event["seq"]),
            }
            assert {name: [one["id"] for one in told[name]] for name in told} == {
                name: [one.id for one in entries] for name, entries in folded.items()
            }
        assert len(told["completed"]) == 3
        newest = await served.get("/sessions/s/lists", limit=1)
        assert [one["id"] for one in newest["completed"]] == [asked["id"]]


async def test_a_call_of_a_list_says_who_made_it() -> None:
    async with desk(Crib([found, check_orders]), **OPEN) as served:
        session = await served.open("s")
        made = await served.call(session, "shop.check_orders", {"orders": ["A-1"]}, wait=True)
        for path in ("/calls", "/sessions/s/calls"):
            calls = {one["tool"]: one for one in (await served.get(path))["items"]}
            assert calls["shop.find_order"]["parent"] == made["call"]
            assert "parent" not in calls["shop.check_orders"]
            assert calls["shop.check_orders"]["by"]["kind"]
