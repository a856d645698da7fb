"""The newest revision over HTTP: every request stands alone."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx
import pytest

from tests.requirements import requirement
from tests.serve.place import META, TASKS, VERSION, Place, headers, last, serving
from tests.serve.tools import TOOLS, Doors
from toolcrib import BadTool, Crib, Tool
from toolcrib.serve.mcp.headers import warn_of_missing
from toolcrib.serve.mcp.sessions import DAY_S
from toolcrib.testing.clock import FakeClock

FORM: dict[str, Any] = {"elicitation": {}}


async def _shown(ctx: Any, values: Any) -> Any:
    return dict(values)


@requirement("mcp.server.1")
async def test_discovery_tells_versions_capabilities_and_who_answers(place: Place) -> None:
    found = await place.result("server/discover")
    assert found["supportedVersions"][0] == VERSION
    assert found["capabilities"]["tools"] == {"listChanged": True}
    assert found["capabilities"]["extensions"] == {f"{META}tasks": {}}
    assert found["instructions"] == "Be kind."
    assert found["_meta"][f"{META}serverInfo"]["name"] == "workshop"


@requirement("mcp.server.2")
@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_a_request_that_does_not_say_what_it_has_to_is_refused(place: Place, missing: str) -> None:
    message = place.message("tools/list")
    del message["params"]["_meta"][META + missing]
    answer = await place.http.post("/mcp", json=message, headers=headers(message))
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["id"]) == (400, -32602, 1)


@requirement("mcp.server.2")
async def test_an_unsupported_version_is_told_the_supported_ones(place: Place) -> None:
    wrong = {f"{META}protocolVersion": "1999-01-01"}
    status, error = await place.error("tools/list", meta=wrong, headers={"MCP-Protocol-Version": "1999-01-01"})
    assert (status, error["code"], error["data"]["requested"]) == (400, -32022, "1999-01-01")
    assert VERSION in error["data"]["supported"]


@requirement("mcp.server.2")
@pytest.mark.parametrize("method", ["nothing/here", "initialize", "ping", "tasks/list"])
async def test_an_unknown_method_is_not_found(place: Place, method: str) -> None:
    status, error = await place.error(method)
    assert (status, error["code"]) == (404, -32601)


@requirement("mcp.server.2")
async def test_a_call_that_needs_what_the_client_has_not_declared_is_refused_and_stopped(place: Place) -> None:
    status, error = await place.error("tools/call", {"name": "several"})
    assert (status, error["code"]) == (400, -32021)
    assert error["data"]["requiredCapabilities"] == {"elicitation": {}, "roots": {}, "sampling": {}}
    assert await place.crib.questions() == []


@requirement("mcp.server.3")
async def test_notifications_and_answers_are_accepted_and_other_http_methods_are_not(place: Place) -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/anything"}
    sent = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "notifications/anything"}
    assert (await place.http.post("/mcp", json=told, headers=sent)).status_code == 202
    answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert (await place.http.post("/mcp", json=answer, headers={"MCP-Protocol-Version": VERSION})).status_code == 202
    for method in ("GET", "DELETE", "PUT"):
        assert (await place.http.request(method, "/mcp")).status_code == 405
    session = (await place.begin()).headers
    assert (await place.http.put("/mcp", headers=session)).status_code == 405


@requirement("mcp.server.3")
@pytest.mark.parametrize("header", ["Origin", "Host"])
async def test_foreign_origins_and_hosts_are_turned_away(place: Place, header: str) -> None:
    foreign = {"Origin": "http://evil.example.com", "Host": "evil.example.com"}
    assert (await place.post("tools/list", headers={header: foreign[header]})).status_code == 403
    own = str(place.http.base_url).rstrip("/")
    near = {"Origin": own} if header == "Origin" else {"Host": "localhost:1"}
    assert (await place.post("tools/list", headers=near)).status_code == 200


@requirement("mcp.server.3")
async def test_who_disconnects_cancels_the_call(place: Place, doors: Doors) -> None:
    waiting = asyncio.ensure_future(place.call("hold"))
    await doors.entered.wait()
    waiting.cancel()
    await asyncio.wait_for(doors.left.wait(), 60)
    assert not doors.go.is_set()


@requirement("mcp.server.4")
@pytest.mark.parametrize(
    "changed",
    [
        {"MCP-Protocol-Version": None},
        {"Mcp-Method": None},
        {"Mcp-Method": "prompts/list"},
        {"Mcp-Method": "TOOLS/CALL"},
        {"Mcp-Name": None},
        {"Mcp-Name": "erase"},
        {"Mcp-Name": "=?base64?!!?="},
    ],
)
async def test_headers_that_do_not_match_the_body_are_refused(place: Place, changed: dict[str, str | None]) -> None:
    status, error = await place.error("tools/call", {"name": "add", "arguments": {"a": 1}}, headers=changed)
    assert (status, error["code"]) == (400, -32020)


@requirement("mcp.server.4")
async def test_a_header_that_comes_twice_is_refused(place: Place) -> None:
    message = place.message("tools/list")
    twice = httpx.Headers([*headers(message).items(), ("Mcp-Method", "tools/call")])
    answer = await place.http.post("/mcp", json=message, headers=twice)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


@requirement("mcp.server.4")
async def test_names_may_be_wrapped(place: Place) -> None:
    wrapped = f"=?base64?{base64.b64encode(b'add').decode()}?="
    answer = await place.call("add", {"a": 1}, headers={"Mcp-Name": wrapped})
    assert answer["content"][0]["text"] == "2"


@requirement("mcp.server.4")
async def test_arguments_that_stand_in_headers_have_to_match(place: Place) -> None:
    schema = {"type": "object", "properties": {"where": {"type": "string", "x-mcp-header": "Where"}}}
    place.crib.add(Tool(name="go", description="Go somewhere.", input_schema=schema, run=_shown))
    given = {"name": "go", "arguments": {"where": "Zürich"}}
    wrapped = f"=?base64?{base64.b64encode('Zürich'.encode()).decode()}?="
    assert (await place.post("tools/call", given, headers={"Mcp-Param-Where": wrapped})).status_code == 200
    for wrong in (None, "Bern", "=?base64?WsO8cmljaA?=", "=?base64?%%?="):
        status, error = await place.error("tools/call", given, headers={"Mcp-Param-Where": wrong})
        assert (status, error["code"]) == (400, -32020), wrong


@requirement("mcp.server.8")
@pytest.mark.parametrize("what", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
async def test_lists_say_how_long_they_hold_and_keep_their_order(place: Place, what: str) -> None:
    first, second = await place.result(what), await place.result(what)
    assert first == second
    assert first["ttlMs"] > 0
    assert first["cacheScope"] == "private"


@requirement("mcp.server.10")
async def test_invalid_arguments_are_told_to_the_model(place: Place) -> None:
    result = await place.call("add", {"a": "many"})
    assert result["isError"] is True
    assert "a" in result["content"][0]["text"]


@requirement("mcp.server.10")
async def test_an_unknown_tool_and_an_unknown_resource_are_errors_of_the_protocol(place: Place) -> None:
    assert (await place.error("tools/call", {"name": "nothing"}))[1]["code"] == -32602
    status, error = await place.error("resources/read", {"uri": "test://nothing"})
    assert (status, error["code"], error["data"]["uri"]) == (400, -32602, "test://nothing")


@requirement("mcp.server.10")
async def test_a_result_that_breaks_its_schema_is_not_passed_on(place: Place) -> None:
    assert (await place.call("total", {"a": 3}))["structuredContent"] == {"sum": 3}
    broken = await place.call("total", {"a": 3, "wrong": True})
    assert broken["isError"] is True
    assert "structuredContent" not in broken


@requirement("mcp.server.3")
async def test_pages_that_are_let_in_may_read_the_answers(place: Place) -> None:
    page = {"Origin": str(place.http.base_url).rstrip("/")}
    before = await place.http.options("/mcp", headers=page | {"Access-Control-Request-Method": "POST"})
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (204, page["Origin"])
    answer = await place.post("tools/list", headers=page)
    assert answer.headers["access-control-allow-origin"] == page["Origin"]
    for foreign in ("http://evil.example", "http://localhost:3000"):
        assert (await place.http.options("/mcp", headers={"Origin": foreign})).status_code == 403


@requirement("mcp.server.11")
async def test_no_schema_is_fetched_from_a_network() -> None:
    far: dict[str, Any] = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}}
    with pytest.raises(BadTool, match="cannot fetch"):
        Tool(name="far", description="Far.", input_schema=far, run=_shown)


@requirement("mcp.server.11")
async def test_schemas_are_listed_as_they_are(place: Place) -> None:
    listed = {tool["name"]: tool for tool in (await place.result("tools/list"))["tools"]}
    assert listed["add"]["inputSchema"]["required"] == ["a"]
    assert listed["total"]["outputSchema"]["required"] == ["sum"]
    assert listed["erase"]["annotations"]["destructiveHint"] is True
    assert {"explain", "today"}.isdisjoint(listed)


@requirement("mcp.server.12")
async def test_all_kinds_of_content_are_shown(place: Place) -> None:
    content = (await place.call("pieces"))["content"]
    kinds = ["text", "image", "audio", "resource", "resource_link", "resource"]
    assert [one["type"] for one in content] == kinds
    assert content[5]["resource"] == {"uri": "attachment:a%20b.pdf", "blob": "AAAA", "mimeType": "application/pdf"}
    assert content[0]["annotations"] == {"audience": ["assistant"]}
    assert content[3]["resource"] == {"uri": "test://a", "mimeType": "text/plain", "text": "inside"}


@requirement("mcp.server.9")
async def test_progress_rises_strictly_and_ends_with_the_call(place: Place) -> None:
    told = {"progressToken": "t", f"{META}logLevel": "info"}
    async with place.stream("tools/call", {"name": "steps", "arguments": {}}, meta=told) as messages:
        said = [message async for message in messages]
    progress = [one["params"] for one in said if one.get("method") == "notifications/progress"]
    numbers = [one["progress"] for one in progress]
    assert numbers == sorted(set(numbers))
    assert numbers[:3] == [1, 2, 3]
    assert progress[-1]["message"] == "nearly"
    assert [one["params"]["data"] for one in said if one.get("method") == "notifications/message"] == ["working"]
    assert said[-1]["result"]["content"][0]["text"] == "done"


@requirement("mcp.server.9")
async def test_without_a_token_or_a_level_nothing_is_told(place: Place) -> None:
    answer = await place.post("tools/call", {"name": "steps", "arguments": {}})
    assert answer.headers["content-type"] == "application/json"
    quiet = await place.post("tools/call", {"name": "steps", "arguments": {}}, meta={f"{META}logLevel": "error"})
    assert "notifications/message" not in quiet.text


async def test_two_requests_of_one_id_are_both_answered(place: Place) -> None:
    answers = await asyncio.gather(*(place.post("tools/call", {"name": "add", "arguments": {"a": n}}) for n in (1, 2)))
    assert sorted(last(answer)["result"]["content"][0]["text"] for answer in answers) == ["2", "3"]


@requirement("mcp.server.12")
async def test_prompts_and_resources_are_got_read_and_completed(place: Place) -> None:
    found = await place.result("prompts/get", {"name": "explain", "arguments": {"topic": "tea"}})
    assert [one["role"] for one in found["messages"]] == ["user", "assistant"]
    assert found["messages"][0]["content"] == {"type": "text", "text": "Explain tea"}
    read = await place.result("resources/read", {"uri": "note://today"})
    assert read["contents"] == [{"uri": "note://today", "mimeType": "text/markdown", "text": "# Today"}]
    assert (await place.result("resources/read", {"uri": "pic://dot"}))["contents"][0]["blob"] == "iVBORw=="
    assert (await place.result("resources/read", {"uri": "user://7/data"}))["contents"][0]["text"] == '{"id":"7"}'
    ref = {"type": "ref/prompt", "name": "explain"}
    asked = {"ref": ref, "argument": {"name": "topic", "value": "t"}}
    assert (await place.result("completion/complete", asked))["completion"]["values"] == ["tea", "tools", "trees"]
    asked = {"ref": {"type": "ref/resource", "uri": "user://{id}/data"}, "argument": {"name": "id", "value": "4"}}
    assert (await place.result("completion/complete", asked))["completion"]["values"] == ["41", "42"]


async def test_a_prompt_that_lacks_an_argument_is_refused(place: Place) -> None:
    status, error = await place.error("prompts/get", {"name": "explain"})
    assert (status, error["code"]) == (400, -32602)
    assert "topic" in error["message"]


@requirement("mcp.server.7")
async def test_a_subscription_is_acknowledged_and_tells_only_what_was_asked_for(place: Place) -> None:
    wanted = {"notifications": {"promptsListChanged": True, "resourceSubscriptions": ["note://today"]}}
    library = place.mcp.server.library
    assert library is not None
    async with place.stream("subscriptions/listen", wanted, id="s-1") as messages:
        first = await anext(messages)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == wanted["notifications"]
        place.crib.remove("default.add")
        library.updated("pic://dot")
        library.updated("note://today")
        second = await anext(messages)
        library.remove("asks")
        third = await anext(messages)
    assert (second["method"], second["params"]["uri"]) == ("notifications/resources/updated", "note://today")
    assert third["method"] == "notifications/prompts/list_changed"
    tags = {one["params"]["_meta"][f"{META}subscriptionId"] for one in (first, second, third)}
    assert tags == {"s-1"}


@requirement("mcp.server.6", "mcp.server.7")
async def test_a_subscription_tells_how_a_task_goes_on(place: Place) -> None:
    task = (await place.call("job", can=TASKS | FORM))["taskId"]
    wanted = {"notifications": {"taskIds": [task, "c1.nobody"]}}
    async with place.stream("subscriptions/listen", wanted, can=TASKS | FORM, id=2) as messages:
        assert (await anext(messages))["params"]["notifications"] == {"taskIds": [task]}
        assert (await anext(messages))["params"]["status"] == "input_required"
        await place.result("tasks/cancel", {"taskId": task}, can=TASKS)
        said = await anext(messages)
        while said["params"]["status"] != "cancelled":
            said = await anext(messages)
    assert said["method"] == "notifications/tasks"


async def test_sessions_of_days_before_are_let_go_of_and_their_tasks_are_not() -> None:
    clock, can = FakeClock(), TASKS | FORM
    async with serving(Crib(TOOLS, clock=clock)) as place:
        task = {"taskId": (await place.call("job", can=can))["taskId"]}
        (before,) = await place.crib.sessions("anyone")
        await clock.advance(DAY_S - 60)
        await place.call("add", {"a": 1})
        assert place.crib._session_table.at_hand(before.id) is not None
        await clock.advance(120)
        await place.call("add", {"a": 1})
        assert place.crib._session_table.at_hand(before.id) is None
        assert len(await place.crib.sessions("anyone")) == 2
        assert (await place.result("tasks/get", task, can=can))["status"] == "completed"


@requirement("gateway.clients.2")
async def test_a_client_that_leaves_the_name_of_a_task_out_of_the_headers_is_served_with_a_warning(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_missing.cache_clear()
    params = {"taskId": "unknown"}
    for _ in range(2):
        answer = await place.post("tasks/get", params, can=TASKS, headers={"Mcp-Name": None})
        assert answer.json()["error"]["message"] == "There is no such task"
    assert len([one for one in caplog.messages if "without the header Mcp-Name" in one]) == 1
    _, error = await place.error("tasks/get", params, can=TASKS, headers={"Mcp-Name": "another"})
    assert error["code"] == -32020
