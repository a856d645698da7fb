"""Sessions over the API: opening, looking, narrowing, closing, and the tools in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.api.place import SOON_S, Desk, desk
from tests.serve.tools import TOOLS
from toolcrib import Context, Crib, Result, tool
from toolcrib.serve.api import ServeLimits


@tool(namespace="time", read_only=True)
async def now() -> str:
    """Tell the time."""
    return "late"


@tool(read_only=True)
async def remember(ctx: Context, what: str) -> Result:
    """Keep something."""
    return Result(ctx.user.get("name"), changes=[{"op": "set", "key": "what", "value": what}])


@tool(read_only=True, output_bytes=100)
async def long() -> str:
    """Give more than fits."""
    return "x" * 1000


@pytest.fixture
async def served() -> AsyncIterator[Desk]:
    async with desk(Crib([*TOOLS, now, remember, long]), namespaces=["default", "time"]) as made:
        yield made


async def test_a_session_is_made_once_and_then_restored(served: Desk) -> None:
    first = await served.ask("POST", "/sessions", {"id": "s", "namespaces": ["time"]})
    again = await served.ask("POST", "/sessions", {"id": "s"})
    assert (first.status_code, again.status_code) == (201, 200)
    said = again.json()
    assert (said["id"], said["owner"], said["namespaces"], said["open"]) == ("s", "anyone", ["time"], True)
    assert [one["id"] for one in (await served.get("/sessions"))["items"]] == ["s"]
    assert (await served.get("/sessions", state="running"))["items"] == []
    minted = await served.open()
    assert len(minted) == 32
    assert await served.refused("POST", "/sessions", {"id": "a b"}) == (400, "invalid_arguments")
    assert await served.refused("POST", "/sessions", {"id": "toolcrib.keys"}) == (403, "denied")


async def test_sessions_come_in_pages_the_last_used_first(served: Desk) -> None:
    for n in range(5):
        await served.open(f"s{n}")
    found: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = await served.get("/sessions", **query)
        found += [one["id"] for one in page["items"]]
        if "next" not in page:
            break
        query["after"] = page["next"]
    assert found == ["s4", "s3", "s2", "s1", "s0"]
    assert await served.refused("GET", "/sessions", params={"after": "?"}) == (400, "invalid_arguments")


async def test_a_session_that_is_made_without_a_word_has_the_namespaces_of_the_server(served: Desk) -> None:
    assert (await served.post("/sessions"))["namespaces"] == ["default", "time"]


async def test_state_and_user_are_seen_as_they_were(served: Desk) -> None:
    session = await served.open()
    said = await served.ask("PUT", f"/sessions/{session}/user", {"name": "Ada"})
    assert said.json()["user"]["name"] == "Ada"
    assert (await served.call(session, "remember", {"what": "tea"}))["data"] == "Ada"
    seq = (await served.get(f"/sessions/{session}"))["seq"]
    await served.call(session, "remember", {"what": "cake"})
    assert (await served.get(f"/sessions/{session}/state"))["state"] == {"what": "cake"}
    past = await served.get(f"/sessions/{session}/state", at=seq)
    assert (past["state"], past["user"]["name"]) == ({"what": "tea"}, "Ada")
    large = {"x": "y" * 9000}
    assert await served.refused("PUT", f"/sessions/{session}/user", large) == (413, "too_large")


async def test_rights_can_be_taken_away_and_not_given(served: Desk) -> None:
    session = await served.open(namespaces=["default", "time"])
    assert (await served.call(session, "now"))["ok"]
    said = await served.post(f"/sessions/{session}/narrow", namespaces=["default"])
    assert said["namespaces"] == ["default"]
    assert (await served.call(session, "time.now"))["failure"]["code"] == "denied"
    wider = {"namespaces": ["default", "time"]}
    assert await served.refused("POST", f"/sessions/{session}/narrow", wider) == (403, "denied")
    assert await served.refused("POST", f"/sessions/{session}/narrow", {}) == (400, "invalid_arguments")


async def test_why_tells_without_calling(served: Desk) -> None:
    session = await served.open()
    said = await served.post(f"/sessions/{session}/why", tool="erase", args={"what": "all"})
    assert said["verdict"]["effect"] == "ask"
    assert said["lines"][0].startswith("ask by")
    assert (await served.get(f"/sessions/{session}/calls"))["items"] == []
    assert await served.refused("POST", f"/sessions/{session}/why", {"tool": "nothing"}) == (404, "not_found")


@requirement("reliability.logout.1")
async def test_a_closed_session_takes_no_call_until_it_is_opened_again(served: Desk) -> None:
    session = await served.open()
    await served.call(session, "add", {"a": 1})
    assert (await served.post(f"/sessions/{session}/close", timeout=1))["timed_out"] == 0
    for body in ({}, {"wait": False}, {"background": True}, {"key": "k"}):
        said = await served.post(f"/sessions/{session}/calls", tool="add", args={"a": 1}, **body)
        call = said.get("call", said.get("id"))
        ended = await served.get(f"/sessions/{session}/calls/{call}/result")
        assert (ended["failure"]["code"], ended["failure"]["message"]) == ("unavailable", "Session is closed")
    assert (await served.get(f"/sessions/{session}"))["open"] is False
    await served.post("/sessions", id=session)
    assert (await served.get(f"/sessions/{session}"))["open"] is True
    assert (await served.call(session, "add", {"a": 1}))["ok"]
    assert await served.refused("POST", f"/sessions/{session}/close", {"timeout": 4000}) == (400, "invalid_arguments")


async def test_tools_are_listed_found_and_described(served: Desk) -> None:
    everything = await served.get("/tools", limit=1000)
    ids = [one["id"] for one in everything["items"]]
    assert everything["total"] == len(ids)
    assert "time.now" in ids
    assert [one["id"] for one in (await served.get("/tools", q="tell time", namespace="time"))["items"]] == ["time.now"]
    said = await served.get("/tools/default.add")
    assert said["input_schema"]["required"] == ["a"]
    assert said["limits"]["timeout_s"] == 60
    assert await served.refused("GET", "/tools/default.nothing") == (404, "not_found")
    session = await served.open(namespaces=["time"])
    assert [one["model_name"] for one in (await served.get(f"/sessions/{session}/tools"))["items"]] == ["now"]


async def test_a_client_runs_its_own_tools(served: Desk) -> None:
    session = await served.open()
    offered = {"name": "pick", "description": "Pick one.", "input_schema": {"type": "object"}}
    said = await served.ask("PUT", f"/sessions/{session}/tools/client", {"tools": [offered]})
    assert [(one["id"], one["run_by"]) for one in said.json()["items"]] == [("client.pick", "client")]
    call = (await served.post(f"/sessions/{session}/calls", tool="client.pick", wait=False))["id"]
    (question,) = (await served.get(f"/sessions/{session}/questions"))["items"]
    assert (question["call"], question["kind"]) == (call, "client")
    await served.post(f"/sessions/{session}/answers", question=question["id"], action="accept", value="red")
    assert (await served.get(f"/sessions/{session}/calls/{call}/result", wait=SOON_S))["data"] == "red"


async def test_a_large_output_is_read_in_pieces(served: Desk) -> None:
    session = await served.open()
    result = await served.call(session, "long")
    output = result["metadata"]["spilled"]["output"]
    piece = await served.get(f"/sessions/{session}/outputs/{output}", limit=600)
    rest = await served.get(f"/sessions/{session}/outputs/{output}", offset=piece["next"], limit=600)
    assert (piece["text"] + rest["text"]).strip('"') == "x" * 1000
    assert await served.refused("GET", f"/sessions/{session}/outputs/none") == (404, "not_found")


async def test_everything_can_be_interrupted(served: Desk) -> None:
    session = await served.open()
    await served.post(f"/sessions/{session}/calls", tool="greet", wait=False)
    await served.post(f"/sessions/{session}/calls", tool="erase", args={"what": "x"}, wait=False)
    assert (await served.post(f"/sessions/{session}/interrupt"))["stopped"] == 2
    assert (await served.get("/questions"))["items"] == []


async def test_the_server_says_who_one_is(served: Desk) -> None:
    me = await served.get("/me")
    assert (me["name"], me["auth"], me["admin"]) == ("anyone", "off", True)
    assert me["features"]["mcp"] is True
    described = await served.get("/openapi.json")
    assert "/v1/sessions/{session}/calls" in described["paths"]


async def test_a_session_that_nobody_uses_leaves_the_memory() -> None:
    crib = Crib(TOOLS)
    async with desk(crib, limits=ServeLimits(idle_s=0.1)) as served:
        unused, session = await served.open(), await served.open()
        await served.call(session, "add", {"a": 1})
        async with asyncio.timeout(SOON_S):
            while crib._session_table.at_hand(session) or crib._session_table.at_hand(unused):  # noqa: ASYNC110 - it is let go without a word
                await asyncio.sleep(0.05)
        assert (await served.call(session, "add", {"a": 2}))["data"] == 3
