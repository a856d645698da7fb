"""Revisions before the newest, on the same address: greeting, sessions, questions over the connection, lost streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.place import BOTH, Place, headers, serving
from tests.serve.tools import NAME, TOOLS, Doors
from toolcrib import Context, Crib, tool
from toolcrib.serve.api import ServeLimits
from toolcrib.serve.mcp import McpServerSettings
from toolcrib.serve.mcp.wire import SESSION_GONE

FORM: dict[str, Any] = {"elicitation": {}}


@requirement("mcp.server.13")
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_every_older_revision_is_greeted_in_its_own(place: Place, version: str) -> None:
    old = await place.begin(version=version)
    assert old.welcome["protocolVersion"] == version
    assert old.welcome["serverInfo"]["name"] == "workshop"
    assert await old.result("ping") == {}
    tools = await old.result("tools/list")
    assert "ttlMs" not in tools
    assert "resultType" not in await old.result("tools/call", {"name": "add", "arguments": {"a": 1}})


@requirement("mcp.server.13")
async def test_an_unknown_revision_is_offered_the_newest_that_greets(place: Place) -> None:
    old = await place.begin(version="1999-01-01")
    assert old.welcome["protocolVersion"] == "2025-11-25"


@requirement("mcp.server.13")
async def test_a_session_is_needed_ends_and_is_gone(place: Place) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert (await place.http.post("/mcp", json=message, headers=BOTH)).status_code == 400
    old = await place.begin()
    assert (await old.http.delete("/mcp", headers=old.headers)).status_code == 204
    assert (await old.post("tools/list")).status_code == 404
    assert (await old.http.delete("/mcp", headers=old.headers)).status_code == 404


@requirement("mcp.server.13")
async def test_a_question_goes_over_the_connection_and_its_response_goes_on(place: Place) -> None:
    old = await place.begin(FORM)
    async with old.stream("tools/call", {"name": "greet", "arguments": {}}, id="r") as messages:
        assert (await anext(messages))[1] is None
        _, asked = await anext(messages)
        assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "What is your name?")
        assert await old.respond(asked["id"], {"action": "accept", "content": {"name": "Ada"}}) == 202
        _, done = await anext(messages)
    assert (done["id"], done["result"]["content"][0]["text"]) == ("r", "Hello, Ada!")


@requirement("mcp.server.13")
@pytest.mark.parametrize("response", [{"action": "decline"}, {"action": "accept", "content": {}}, {}])
async def test_a_client_that_does_not_answer_ends_the_question(place: Place, response: dict[str, object]) -> None:
    old = await place.begin(FORM)
    async with old.stream("tools/call", {"name": "greet", "arguments": {}}) as messages:
        await anext(messages)
        _, asked = await anext(messages)
        await old.respond(asked["id"], response)
        _, done = await anext(messages)
    assert done["result"]["isError"] is True


@requirement("mcp.server.13")
async def test_nobody_else_can_answer_a_question_of_a_session(place: Place) -> None:
    mine, other = await place.begin(FORM), await place.begin(FORM)
    async with mine.stream("tools/call", {"name": "greet", "arguments": {}}) as messages:
        await anext(messages)
        _, asked = await anext(messages)
        await other.respond(asked["id"], {"action": "accept", "content": {"name": "Eve"}})
        await mine.respond(asked["id"], {"action": "accept", "content": {"name": "Ada"}})
        _, done = await anext(messages)
    assert done["result"]["content"][0]["text"] == "Hello, Ada!"


@requirement("mcp.server.13")
async def test_a_lost_stream_is_read_on_from_its_last_event(place: Place, doors: Doors) -> None:
    old = await place.begin()
    async with old.stream("tools/call", {"name": "hold", "arguments": {}}, id=7) as messages:
        last, _ = await anext(messages)
    assert not doors.left.is_set()
    async with old.listen(after=last) as messages:
        first, _ = await anext(messages)
        doors.go.set()
        _, done = await anext(messages)
    assert first
    assert (done["id"], done["result"]["content"][0]["text"]) == (7, "held")


@requirement("mcp.server.13")
async def test_a_question_that_comes_after_a_stream_was_lost_goes_over_the_next_one() -> None:
    go = asyncio.Event()

    @tool(read_only=True)
    async def late(ctx: Context) -> str:
        """Ask for a name when told to."""
        await go.wait()
        return str((await ctx.ask("What is your name?", schema=NAME, key="user_name")).value["name"])

    async with serving(Crib([late])) as place:
        old = await place.begin(FORM)
        async with old.stream("tools/call", {"name": "late", "arguments": {}}, id=7) as messages:
            last, _ = await anext(messages)
        async with old.listen(after=last) as messages:
            await anext(messages)
            go.set()
            _, asked = await asyncio.wait_for(anext(messages), 30)
            assert asked["method"] == "elicitation/create"
            assert await old.respond(asked["id"], {"action": "accept", "content": {"name": "Ada"}}) == 202
            _, done = await asyncio.wait_for(anext(messages), 30)
    assert (done["id"], done["result"]["content"][0]["text"]) == (7, "Ada")


@requirement("mcp.server.13")
async def test_a_stream_that_is_open_for_long_is_ended_and_come_back_to() -> None:
    doors = Doors()
    async with serving(Crib(TOOLS, deps={"doors": doors}), mcp=McpServerSettings(stream_s=0.1)) as place:
        old = await place.begin()
        async with old.stream("tools/call", {"name": "hold", "arguments": {}}) as messages:
            said = [one async for one in messages]
        assert [data for _, data in said] == [None]
        doors.go.set()
        async with old.listen(after=said[0][0]) as messages:
            done = [data async for _, data in messages][-1]
        assert done["result"]["content"][0]["text"] == "held"


@requirement("mcp.server.13")
async def test_a_stream_that_waits_says_so_now_and_then_until_it_is_ended() -> None:
    crib, limits = Crib(TOOLS, deps={"doors": Doors()}), ServeLimits(ping_s=0.2)
    async with serving(crib, limits=limits, mcp=McpServerSettings(stream_s=0.5)) as place:
        old = await place.begin()
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hold", "arguments": {}}}
        answer = await old.http.post("/mcp", json=message, headers=old.headers)
    assert answer.status_code == 200
    assert answer.text.count(": still here") <= 2


@requirement("mcp.server.13")
async def test_a_stream_of_another_session_is_not_read(
    place: Place, doors: Doors, caplog: pytest.LogCaptureFixture
) -> None:
    mine, other = await place.begin(), await place.begin()
    async with mine.stream("tools/call", {"name": "hold", "arguments": {}}) as messages:
        last, _ = await anext(messages)
    for wrong in (last, "nonsense"):
        answer = await other.http.get("/mcp", headers=other.headers | {"Last-Event-ID": wrong})
        assert answer.status_code == 400
    doors.go.set()
    assert "Exception in ASGI application" not in caplog.text


@requirement("mcp.server.13")
async def test_a_call_is_cancelled_by_a_notification(place: Place, doors: Doors) -> None:
    old = await place.begin()
    waiting = asyncio.ensure_future(old.result("tools/call", {"name": "hold", "arguments": {}}, id="c"))
    await doors.entered.wait()
    assert await old.notify("notifications/cancelled", {"requestId": "c"}) == 202
    assert (await waiting)["isError"] is True
    assert doors.left.is_set()


@requirement("mcp.server.13", "mcp.server.9")
async def test_log_lines_come_only_at_the_level_that_was_set(place: Place) -> None:
    old = await place.begin()
    asked = {"name": "steps", "arguments": {}}
    assert "notifications/message" not in (await old.post("tools/call", asked)).text
    assert await old.result("logging/setLevel", {"level": "info"}) == {}
    assert "notifications/message" in (await old.post("tools/call", asked)).text
    await old.result("logging/setLevel", {"level": "error"})
    assert "notifications/message" not in (await old.post("tools/call", asked)).text
    assert "error" in (await old.post("logging/setLevel", {"level": "loud"})).json()


@requirement("mcp.server.13")
async def test_changes_are_told_on_the_stream_of_the_session(place: Place) -> None:
    old = await place.begin()
    library = place.mcp.server.library
    assert library is not None
    await old.result("resources/subscribe", {"uri": "note://today"})
    async with old.http.stream("GET", "/mcp", headers=old.headers) as answer:
        lines = answer.aiter_lines()
        assert (await anext(lines)).startswith(":")
        place.crib.remove("default.add")
        library.updated("note://today")
        said = [line async for line in _some(lines, 2)]
    assert "tools/list_changed" in said[0]
    assert "resources/updated" in said[1]
    await old.result("resources/unsubscribe", {"uri": "note://today"})
    assert place.mcp.legacy.connections[old.headers["Mcp-Session-Id"]].uris == set()


async def _some(lines: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    async for line in lines:
        if line.startswith("data: "):
            yield line
            count -= 1
            if not count:
                return


@requirement("mcp.server.13")
async def test_an_unknown_resource_has_the_code_of_its_revision(place: Place) -> None:
    old = await place.begin()
    assert (await old.post("resources/read", {"uri": "no://where"})).json()["error"]["code"] == -32002


@requirement("gateway.clients.1")
async def test_a_batch_of_the_revision_that_has_them_is_answered_as_one(place: Place) -> None:
    old = await place.begin(version="2025-03-26")
    batch = [
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "id": "b", "method": "no/such/method"},
        {"jsonrpc": "2.0", "id": "c", "method": "tools/list"},
    ]
    answers = {one["id"]: one for one in (await place.http.post("/mcp", json=batch, headers=old.headers)).json()}
    assert answers["a"]["result"] == {}
    assert answers["b"]["error"]["code"] == -32601
    assert answers["c"]["result"]["tools"]
    told = await place.http.post("/mcp", json=batch[1:2], headers=old.headers)
    assert told.status_code == 202


@requirement("gateway.clients.1")
async def test_a_batch_of_any_other_revision_is_refused(place: Place) -> None:
    old = await place.begin(version="2025-11-25")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = await place.http.post("/mcp", json=[ping], headers=old.headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
    other = await place.begin(version="2025-03-26")
    assert (await place.http.post("/mcp", json=[], headers=other.headers)).status_code == 400


async def test_a_new_stream_of_changes_takes_the_place_of_the_one_before(place: Place) -> None:
    old = await place.begin()
    async with asyncio.timeout(60), old.listen() as first, old.listen():
        assert [line async for line in first] == []
    async with asyncio.timeout(60), old.listen() as third:
        place.crib.add(newcomer)
        assert (await anext(third))[1]["method"] == "notifications/tools/list_changed"


@tool(read_only=True)
async def newcomer() -> str:
    """Come late."""
    return "late"


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 200),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
        ({"Content-Type": "Application/JSON"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": None}, 415),
        ({"Accept": "text/event-stream"}, 200),
        ({"Accept": "application/json"}, 200),
        ({"Accept": "*/*"}, 200),
        ({"Accept": "text/html"}, 406),
        ({"Mcp-Session-Id": None}, 400),
        ({"Mcp-Session-Id": "none"}, 404),
    ],
)
async def test_a_message_says_what_it_is_what_it_takes_and_whose_it_is(
    place: Place, changed: dict[str, str | None], status: int
) -> None:
    old = await place.begin()
    message = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
    sent = {**old.headers, "Content-Type": "application/json", **changed}
    kept = {name: value for name, value in sent.items() if value is not None}
    body = json.dumps(message).encode()
    answer = await place.http.post("/mcp", content=body, headers=kept)
    assert answer.status_code == status
    if status in (400, 404):
        assert (answer.json()["id"], answer.json()["error"]["code"]) == (3, SESSION_GONE)


@pytest.mark.parametrize(
    ("method", "session", "status"),
    [("PUT", True, 405), ("GET", False, 405), ("DELETE", False, 405), ("DELETE", True, 204), ("PATCH", False, 405)],
)
async def test_only_a_session_is_listened_to_and_ended(place: Place, method: str, session: bool, status: int) -> None:
    old = await place.begin()
    sent = old.headers if session else {}
    answer = await place.http.request(method, "/mcp", headers=sent)
    assert (answer.status_code, answer.headers.get("allow")) == (status, "POST" if status == 405 else None)
    gone = await place.http.request(method, "/mcp", headers={**sent, "Mcp-Session-Id": "none"})
    assert gone.status_code == (404 if method in ("GET", "DELETE") else 405)


async def test_what_is_no_request_is_taken_without_an_answer(place: Place) -> None:
    old = await place.begin()
    for message in ({"method": "notifications/initialized"}, {"id": 9, "result": {}}):
        answer = await place.http.post("/mcp", json={"jsonrpc": "2.0", **message}, headers=old.headers)
        assert (answer.status_code, answer.content) == (202, b"")
        newest = await place.http.post(
            "/mcp", json={"jsonrpc": "2.0", **message}, headers=headers(place.message("ping"))
        )
        assert (newest.status_code, newest.content) == (202, b"")
