"""What a server upstream says reaches the client as it was said: content of any kind and size, errors, logs, lists."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.requirements import requirement
from tests.serve.place import META, Place, last, serving
from tests.sources.mcp.peers import content
from tests.sources.mcp.place import PEERS, raw
from toolcrib import Crib
from toolcrib.serve.mcp import http
from toolcrib.sources.mcp import Mcp

pytestmark = pytest.mark.process
FORM: dict[str, Any] = {"elicitation": {}}


@pytest.fixture
async def gateway() -> AsyncIterator[Place]:
    source = Mcp(sys.executable, str(PEERS / "content.py"), name="p")
    async with Crib([source], policy={"default": "allow"}, default_namespaces=["p"]) as crib, serving(crib) as place:
        yield place


async def called(gateway: Place, name: str, modern: bool) -> dict[str, Any]:
    if modern:
        return await gateway.call(f"p__{name}")
    old = await gateway.begin()
    result: dict[str, Any] = await old.result("tools/call", {"name": f"p__{name}", "arguments": {}})
    return result


@requirement("gateway.content.1")
@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("name", sorted(content.RESULTS))
async def test_a_result_arrives_as_the_server_gave_it(gateway: Place, name: str, modern: bool) -> None:
    result = await called(gateway, name, modern)
    result.pop("resultType", None)
    result.get("_meta", {}).pop(f"{META}serverInfo", None)
    if not result.get("_meta"):
        result.pop("_meta", None)
    assert result == content.RESULTS[name]


@requirement("gateway.content.1")
@pytest.mark.parametrize(("begins_s", "kind"), [(1000.0, "application/json"), (0.0, "text/event-stream")])
async def test_a_large_result_that_comes_soon_is_no_event_of_a_stream(
    gateway: Place, monkeypatch: pytest.MonkeyPatch, begins_s: float, kind: str
) -> None:
    monkeypatch.setattr(http, "BEGINS_S", begins_s)
    old = await gateway.begin()
    answer = await old.post("tools/call", {"name": "p__large_image", "arguments": {}})
    assert answer.headers["content-type"].partition(";")[0] == kind
    assert last(answer)["result"]["content"][1] == content.LARGE_IMAGE
    if kind == "text/event-stream":
        assert answer.text.startswith("id: ")


@requirement("gateway.content.2")
async def test_an_error_that_asks_for_a_visit_keeps_its_address(gateway: Place) -> None:
    old = await gateway.begin()
    answer = last(await old.post("tools/call", {"name": "p__visit", "arguments": {}}))
    assert answer["error"]["code"] == -32042
    assert answer["error"]["data"] == {"elicitations": [content.VISIT]}
    assert content.VISIT["url"] in (await gateway.call("p__visit"))["content"][0]["text"]


@requirement("gateway.content.2")
async def test_a_log_line_of_a_server_is_a_log_line_of_the_client(gateway: Place) -> None:
    params = {"name": "p__says", "arguments": {}}
    async with gateway.stream("tools/call", params, meta={f"{META}logLevel": "info"}) as messages:
        told = [message async for message in messages]
    lines = [message["params"] for message in told if message.get("method") == "notifications/message"]
    assert lines == [{"level": "warning", "logger": "peer", "data": {"disk": "full"}}]


@requirement("gateway.content.2")
async def test_a_required_property_with_a_default_is_filled_in(gateway: Place) -> None:
    assert (await gateway.call("p__defaulted"))["content"][0]["text"] == '{"n": 5}'


@requirement("gateway.content.4")
@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_what_a_server_replies_to_a_refusal_is_what_the_client_gets(era: str, modern: bool, action: str) -> None:
    source, name = raw(era), "raw__ask"
    async with Crib([source], policy={"default": "allow"}, default_namespaces=["raw"]) as crib, serving(crib) as place:
        if modern:
            asked = await place.call(name, can=FORM)
            responses = {one: {"action": action} for one in asked["inputRequests"]}
            back = {"requestState": asked["requestState"], "inputResponses": responses}
            result = await place.call(name, can=FORM, with_=back)
        else:
            old = await place.begin(FORM)
            async with old.stream("tools/call", {"name": name, "arguments": {}}) as messages:
                await anext(messages)
                _, asked = await anext(messages)
                await old.respond(asked["id"], {"action": action})
                result = (await anext(messages))[1]["result"]
    assert result["content"] == [{"type": "text", "text": f"no color, it was {action}"}]
    assert not result.get("isError")


@requirement("gateway.content.3")
@pytest.mark.parametrize("modern", [True, False])
async def test_a_list_says_of_a_tool_what_its_server_says_and_no_more(gateway: Place, modern: bool) -> None:
    listed = await (gateway.result("tools/list") if modern else (await gateway.begin()).result("tools/list"))
    tools = {tool["name"].removeprefix("p__"): tool for tool in listed["tools"]}
    for said in content.TOOLS:
        shown = tools[str(said["name"])]
        for key in ("annotations", "icons", "_meta", "outputSchema"):
            assert shown.get(key) == said.get(key), (said["name"], key)


@requirement("gateway.approve.1")
@pytest.mark.parametrize("modern", [True, False])
async def test_a_client_that_cannot_be_asked_is_told_what_to_do(modern: bool) -> None:
    source = Mcp(sys.executable, str(PEERS / "content.py"), name="p")
    async with Crib([source], default_namespaces=["p"]) as crib, serving(crib) as gateway:
        result = await called(gateway, "defaulted", modern)
        text = result["content"][0]["text"]
        assert result["isError"]
        (asked,) = [event.fields["question"] async for event in _waiting(crib)]
        for word in ('"n": 5', f"Digest: {asked['digest']}", f"toolcrib answer {asked['id']} accept", "console"):
            assert word in text
        assert "`trusted: true`" in text
        assert "`allow: p.defaulted`" in text


async def _waiting(crib: Crib) -> AsyncIterator[Any]:
    for session in crib._session_table.all():
        async for event in session.events(follow=False):
            if event.kind == "waiting":
                yield event


@requirement("gateway.approve.1")
async def test_the_rule_that_a_refusal_names_lets_the_call_through() -> None:
    source = Mcp(sys.executable, str(PEERS / "content.py"), name="p")
    policy = {"rules": [{"allow": "p.defaulted"}]}
    async with Crib([source], policy=policy, default_namespaces=["p"]) as crib, serving(crib) as gateway:
        assert (await gateway.call("p__defaulted"))["content"][0]["text"] == '{"n": 5}'
        assert (await gateway.call("p__meta"))["isError"]
