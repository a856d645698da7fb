"""What servers behind the crib offer beside tools reaches its clients, under the same rules as tools."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conformance.server import made
from tests.requirements import requirement
from tests.serve.place import Place, last, serving
from tests.sources.mcp.peers import offers
from tests.sources.mcp.place import PEERS
from toolcrib import Crib
from toolcrib.sources.mcp import Mcp, Sampler

pytestmark = pytest.mark.process
ALLOW = {"default": "allow"}


def peer(name: str, **more: Any) -> Mcp:
    return Mcp(sys.executable, str(PEERS / "offers.py"), name, name=name, required=True, **more)


@asynccontextmanager
async def gateway(*sources: Mcp, policy: Any = ALLOW, **more: Any) -> AsyncIterator[Place]:
    names = [source.name for source in sources]
    async with Crib(sources, policy=policy, default_namespaces=names) as crib, serving(crib, **more) as place:
        yield place


@asynccontextmanager
async def behind() -> AsyncIterator[Mcp]:
    """The fixture of the official suite, a server of the newest revision."""
    async with made()[0] as crib, serving(crib) as place:
        yield Mcp(f"{place.url}/mcp", name="far", required=True, prefix="")


def words(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


@requirement("gateway.offers.1")
async def test_prompts_and_resources_of_servers_are_listed_as_they_are() -> None:
    async with gateway(peer("one"), peer("two")) as place:
        prompts = (await place.result("prompts/list"))["prompts"]
        resources = (await place.result("resources/list"))["resources"]
        templates = (await place.result("resources/templates/list"))["resourceTemplates"]
    assert [one["name"] for one in prompts] == ["one__greet", "two__greet"]
    assert prompts[0] == {**offers.PROMPTS[0], "name": "one__greet", "title": "one"}
    listed = {one["uri"]: one for one in resources}
    assert listed["ui://page"] == offers.RESOURCES[1]  # the first source has the address
    assert listed["toolcrib://two/ui%3A%2F%2Fpage"]["name"] == "two"
    assert {"one://note", "two://note"} < listed.keys()
    assert [one["uriTemplate"] for one in templates] == ["one://items/{id}", "two://items/{id}"]


@requirement("gateway.offers.1")
@pytest.mark.parametrize("modern", [True, False])
async def test_what_is_read_comes_from_its_server_untouched(modern: bool) -> None:
    async with gateway(peer("one"), peer("two")) as place:
        client: Any = place if modern else await place.begin()

        async def read(uri: str) -> Any:
            return (await client.result("resources/read", {"uri": uri}))["contents"][0]

        page = await read("ui://page")
        assert page == {"uri": "ui://page", "mimeType": offers.RESOURCES[1]["mimeType"], "text": "<p>one</p>"} | {
            "_meta": offers.PAGE
        }
        assert (await read("toolcrib://two/ui%3A%2F%2Fpage"))["text"] == "<p>two</p>"
        assert (await read("two://items/7"))["text"] == "two: two://items/7"
        assert (await read("two://never/listed"))["text"] == "two: two://never/listed"
        got = await client.result("prompts/get", {"name": "two__greet", "arguments": {"who": "Ada"}})
        assert got["messages"][0]["content"]["text"] == "Hello, Ada"
        assert got["_meta"]["p"] == 1


@requirement("gateway.offers.1")
async def test_an_unknown_resource_is_an_error_of_the_revision_of_the_client() -> None:
    async with gateway(peer("one")) as place:
        _, error = await place.error("resources/read", {"uri": "one://gone"})
        assert (error["code"], error["data"]) == (-32602, {"uri": "one://gone"})
        old = await place.begin()
        error = last(await old.post("resources/read", {"uri": "one://gone"}))["error"]
        assert (error["code"], error["message"]) == (-32002, "Resource not found")


@requirement("gateway.offers.1")
async def test_arguments_are_completed_by_the_server_under_its_own_names() -> None:
    async with gateway(peer("one"), peer("two")) as place:
        for ref, meant in (
            ({"type": "ref/prompt", "name": "two__greet"}, {"type": "ref/prompt", "name": "greet"}),
            ({"type": "ref/resource", "uri": "two://items/{id}"}, {"type": "ref/resource", "uri": "two://items/{id}"}),
        ):
            params = {"ref": ref, "argument": {"name": "who", "value": "A"}}
            completion = (await place.result("completion/complete", params))["completion"]
            assert json.loads(completion["values"][0]) == meant


@requirement("gateway.offers.2")
async def test_reading_is_a_call_that_the_policy_judges_and_the_log_keeps() -> None:
    policy = {"default": "allow", "rules": [{"deny": 'one.resources.read(uri ~ "one://note")'}]}
    async with gateway(peer("one"), policy=policy) as place:
        _, error = await place.error("resources/read", {"uri": "one://note"})
        assert error["data"] == {"code": "denied"}
        assert (await place.result("resources/read", {"uri": "ui://page"}))["contents"]
        (session,) = place.crib._session_table.all()
        done = [event.fields async for event in session.events(follow=False) if event.kind == "accepted"]
        assert [(one["tool"], one["args"]["uri"]) for one in done] == [
            ("one.resources.read", "one://note"),
            ("one.resources.read", "ui://page"),
        ]


@requirement("gateway.offers.2")
async def test_a_server_that_is_not_trusted_is_read_when_somebody_agreed_and_completes_nothing() -> None:
    async with gateway(peer("one"), policy=None) as place:
        asked = await place.result("resources/read", {"uri": "one://note"}, can={"elicitation": {}})
        assert asked["resultType"] == "input_required"
        (request,) = asked["inputRequests"].values()
        assert "one.resources.read" in request["params"]["message"]
        params = {"ref": {"type": "ref/prompt", "name": "one__greet"}, "argument": {"name": "who", "value": ""}}
        assert (await place.result("completion/complete", params))["completion"]["values"] == []


@requirement("gateway.offers.2")
async def test_what_reads_is_in_no_list_of_tools() -> None:
    async with gateway(peer("one")) as place:
        listed = [tool["name"] for tool in (await place.result("tools/list"))["tools"]]
        assert listed == sorted(f"one__{name}" for name in offers.TOOLS)


@requirement("gateway.offers.3")
async def test_a_client_hears_that_the_prompts_of_a_server_changed() -> None:
    async with gateway(peer("one")) as place:
        await place.result("prompts/list")
        async with place.stream("subscriptions/listen", {"notifications": {"promptsListChanged": True}}) as messages:
            assert (await anext(messages))["method"] == "notifications/subscriptions/acknowledged"
            await place.call("one__rename")
            assert (await anext(messages))["method"] == "notifications/prompts/list_changed"
        prompts = (await place.result("prompts/list"))["prompts"]
        assert [one["name"] for one in prompts] == ["one__welcome"]


@requirement("gateway.offers.3")
async def test_a_subscriber_alone_hears_of_a_resource() -> None:
    async with gateway(peer("one")) as place:
        ada, bob = await place.begin(), await place.begin()
        await ada.result("resources/subscribe", {"uri": "one://note"})
        assert words(await bob.result("tools/call", {"name": "one__touch", "arguments": {}})) == ""
        async with ada.listen() as messages:
            assert words(await ada.result("tools/call", {"name": "one__touch", "arguments": {}})) == "one://note"
            _, told = await anext(messages)
            assert (told["method"], told["params"]) == ("notifications/resources/updated", {"uri": "one://note"})
        await ada.result("resources/unsubscribe", {"uri": "one://note"})
        async with asyncio.timeout(30):
            while words(await ada.result("tools/call", {"name": "one__touch", "arguments": {}})):
                pass


@requirement("gateway.client.1")
async def test_a_server_that_asks_for_a_model_or_roots_asks_the_client_of_the_call() -> None:
    turn = {"role": "assistant", "content": {"type": "text", "text": "Word"}, "model": "m"}
    roots = {"roots": [{"uri": "file:///projects/ada"}]}
    async with gateway(peer("one")) as place:
        can: dict[str, Any] = {"sampling": {}, "roots": {}}
        for name, method, response in (
            ("sample", "sampling/createMessage", turn),
            ("roots", "roots/list", roots),
        ):
            asked = await place.call(f"one__{name}", can=can)
            ((key, request),) = asked["inputRequests"].items()
            assert request["method"] == method
            more = {"inputResponses": {key: response}, "requestState": asked["requestState"]}
            told = json.loads(words(await place.call(f"one__{name}", can=can, with_=more)))
            assert told == response


@requirement("gateway.client.1")
async def test_a_server_is_told_where_nobody_has_a_model_or_roots() -> None:
    async with gateway(peer("one")) as place:
        assert "nobody offers one" in words(await place.call("one__sample"))
        assert json.loads(words(await place.call("one__roots"))) == {"roots": []}


@requirement("gateway.client.2")
async def test_a_configured_model_takes_the_turn_within_its_budget() -> None:
    seen: list[Any] = []

    async def sampler(ctx: Any, params: Any) -> dict[str, Any]:
        seen.append((ctx.owner, params["maxTokens"]))
        return {"role": "assistant", "content": {"type": "text", "text": "Ours"}, "model": "m"}

    async with gateway(peer("one", sampler=Sampler(sampler, turns=1, max_tokens=5))) as place:
        assert "Ours" in words(await place.call("one__sample", can={"sampling": {}}))
        assert "more than 1 turns" in words(await place.call("one__sample", can={"sampling": {}}))
        assert seen == [("anyone", 5)]


@requirement("gateway.client.3")
async def test_a_client_gets_log_lines_from_the_level_on_that_it_wants() -> None:
    async with gateway(peer("one")) as place:
        old = await place.begin()
        await old.result("logging/setLevel", {"level": "debug"})
        async with old.stream("tools/call", {"name": "one__debug", "arguments": {}}) as messages:
            told = [data async for _, data in messages if data is not None]
    assert [one["params"]["data"] for one in told if one.get("method") == "notifications/message"] == ["a detail"]


@requirement("gateway.client.4")
async def test_a_task_of_a_server_is_a_task_of_the_client() -> None:
    async with behind() as far, gateway(far) as place:
        can: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        task = await place.call("slow_compute", {"seconds": 0.2}, can=can)
        assert task["resultType"] == "task"
        wanted = {"notifications": {"taskIds": [task["taskId"]]}}
        async with place.stream("subscriptions/listen", wanted, can=can) as messages:
            async for message in messages:
                if message["params"].get("status") == "completed":
                    break
        shown = await place.result("tasks/get", {"taskId": task["taskId"]}, can=can)
        assert words(shown["result"]) == "Computed  in 0.2 s"
        _, error = await place.error("tools/call", {"name": "failing_job", "arguments": {}})
        assert error["code"] == -32021
