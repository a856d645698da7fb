"""AG-UI's own client, `@ag-ui/client` of npm, talks to agents."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.npm import fetched
from tests.serve.api.place import SOON_S, Desk
from tests.serve.frontends.place import TOOLS, Client, client, crib, served
from toolcrib import Context, Crib, tool
from toolcrib.agent import Agent
from toolcrib.serve.keys import ApiKeys, digest
from toolcrib.serve.principal import Principal
from toolcrib.types import Change, Result

pytestmark = pytest.mark.process

AG_UI = "@ag-ui/client@1.0.0"
LOOK: dict[str, Any] = {"text": "Let me see.", "chunks": 3, "calls": [{"tool": "find", "args": {"order": "A-7"}}]}
PAY: dict[str, Any] = {"calls": [{"tool": "refund", "args": {"order": "A-7", "cents": 500}}]}
SAID: dict[str, Any] = {"text": "All done.", "usage": {"input": 10, "output": 3}}
PICK = {"name": "pick", "description": "Let the person pick.", "parameters": {"type": "object", "properties": {}}}


@asynccontextmanager
async def front(given: Crib, agent: str = "desk", thread: str = "t-1") -> AsyncIterator[tuple[Desk, Client]]:
    async with served(given) as (desk, url):
        module = str(fetched(AG_UI) / "@ag-ui" / "client" / "dist" / "index.mjs")
        async with client("agui_client.mjs", module, f"{url}/ag-ui/{agent}", thread) as talking:
            yield desk, talking


def content(answer: dict[str, Any], role: str) -> list[Any]:
    return [message.get("content") for message in answer["messages"] if message["role"] == role]


async def test_text_calls_and_activities_reach_the_front_end() -> None:
    async with front(crib({"desk": [LOOK, SAID]})) as (_, page):
        answer = await page.step(send="Where is A-7?")
    assert answer["error"] is None
    assert [text for text in content(answer, "assistant") if text] == ["Let me see.", "All done."]
    assert content(answer, "tool") == ['{"order":"A-7","cents":4200}']
    assert answer["activities"]["progress"]["progress"] == 0.5
    assert answer["activities"]["output"]["text"] == "found it"
    assert (answer["outcome"]["type"], answer["result"]) == ("success", "All done.")
    assert answer["usage"] == [{"inputTokens": 10, "outputTokens": 3, "totalTokens": 13}]


async def test_an_approval_is_an_interrupt_and_resume_goes_on() -> None:
    async with front(crib({"desk": [PAY, SAID]})) as (_, page):
        asked = await page.step(send="Refund A-7")
        interrupt = asked["outcome"]["interrupts"][0]
        assert (asked["outcome"]["type"], interrupt["metadata"]["tool"]) == ("interrupt", "shop.refund")
        assert interrupt["responseSchema"]["required"] == ["approved"]
        answer = await page.step(resume={"approved": True, "arguments": {"order": "A-7", "cents": 100}})
    assert answer["error"] is None
    assert '{"receipt":"A-7/100"}' in content(answer, "tool")[-1]
    assert content(answer, "assistant")[-1] == "All done."


async def test_an_approval_that_is_refused_is_told_to_the_agent() -> None:
    async with front(crib({"desk": [PAY, SAID]})) as (_, page):
        await page.step(send="Refund A-7")
        answer = await page.step(resume={"approved": False, "reason": "too much"})
    assert content(answer, "tool")[-1].startswith("[declined]")
    assert answer["outcome"]["type"] == "success"


async def test_a_tool_of_the_front_end_is_run_by_it() -> None:
    turns = {"desk": [{"calls": [{"tool": "pick", "args": {}}]}, SAID]}
    async with front(crib(turns)) as (_, page):
        asked = await page.step(send="What colour?", tools=[PICK])
        assert asked["outcome"]["type"] == "success"
        assert len(asked["outcome"]["pendingToolCallIds"]) == 1
        answer = await page.step(result={"picked": "red"}, tools=[PICK])
    assert answer["error"] is None
    assert content(answer, "assistant")[-1] == "All done."


async def test_state_that_a_tool_changes_reaches_the_front_end() -> None:
    @tool(namespace="shop")
    async def count(ctx: Context) -> Result:
        """Count."""
        return Result({"ok": True}, changes=[Change("set", "seen", 1)])

    turns = {"desk": [{"calls": [{"tool": "count", "args": {}}]}, SAID]}
    async with front(crib(turns, tools=[count])) as (_, page):
        answer = await page.step(send="Count")
    assert answer["state"] == {"seen": 1}


async def test_an_agent_within_the_run_is_shown_as_such() -> None:
    agents = (
        Agent(name="desk", instructions="Help.", tools=["shop.*"], sub_agents=("billing",)),
        Agent(name="billing", instructions="Money.", tools=["shop.*"]),
    )
    ask = {"calls": [{"tool": "call_agent", "args": {"agent": "billing", "prompt": "How much?"}}]}
    async with front(crib({"desk": [ask, SAID], "billing": [{"text": "42."}]}, *agents)) as (_, page):
        answer = await page.step(send="How much?")
    assert answer["error"] is None
    assert answer["subagents"] == ["billing"]
    assert content(answer, "assistant")[-1] == "All done."


async def test_a_handover_is_told() -> None:
    agents = (
        Agent(name="desk", instructions="Help.", tools=["shop.*"], sub_agents=("billing",)),
        Agent(name="billing", instructions="Money.", tools=["shop.*"]),
    )
    over = {"calls": [{"tool": "transfer_to_agent", "args": {"agent_name": "billing", "reason": "money"}}]}
    async with front(crib({"desk": [over], "billing": [SAID]}, *agents)) as (_, page):
        answer = await page.step(send="Money, please")
    assert answer["custom"] == [["handover", {"from": "desk", "to": "billing", "reason": "money"}]]
    assert content(answer, "assistant")[-1] == "All done."


async def test_who_lost_the_connection_hears_the_whole_run() -> None:
    gate = asyncio.Event()

    @tool(namespace="shop", read_only=True)
    async def slow() -> str:
        """Take a while."""
        await gate.wait()
        return "slow"

    turns = {"desk": [{"text": "One moment.", "calls": [{"tool": "slow", "args": {}}]}, SAID]}
    async with served(crib(turns, tools=[slow])) as (desk, _):
        message = {"id": "u1", "role": "user", "content": "hi"}
        body = {"threadId": "t", "runId": "r", "messages": [message], "tools": [], "context": []}
        async with asyncio.timeout(SOON_S), desk.http.stream("POST", "/ag-ui/desk", json=body) as lost:
            async for line in lost.aiter_lines():
                if "TOOL_CALL_END" in line:
                    break
        async with asyncio.timeout(SOON_S), desk.http.stream("GET", "/ag-ui/desk/t") as attached:
            assert attached.status_code == 200
            heard = []
            async for line in attached.aiter_lines():
                heard.append(line)
                if "TOOL_CALL_END" in line:
                    gate.set()
        text = "\n".join(heard)
        assert all(word in text for word in ("One moment.", "TOOL_CALL_RESULT", "All done.", "RUN_FINISHED"))
        again = await desk.http.post("/ag-ui/desk", json=body)
        assert "All done." in again.text
        assert (await desk.http.get("/ag-ui/desk/t")).status_code == 204
        events = (await desk.get("/sessions/t/events", limit=1000))["items"]
        assert [event["kind"] for event in events].count("run_started") == 1


async def test_a_model_that_fails_is_told_in_the_stream() -> None:
    broken = {"error": {"code": "failed", "message": "no such model"}}
    async with front(crib({"desk": [broken] * 20})) as (_, page):
        answer = await page.step(send="hi")
    assert answer["error"]
    assert "RUN_ERROR" in answer["kinds"]


async def test_what_does_not_fit_is_refused_with_what_to_do() -> None:
    async with served(crib({"desk": [SAID]}, tools=TOOLS)) as (desk, _):
        body = {"threadId": "t", "runId": "r", "messages": [], "tools": [], "context": []}
        for more, text in (
            ({}, "nothing to do"),
            ({"messages": [{"id": "u", "role": "user", "content": ""}]}, "no text"),
            ({"threadId": 1}, "threadId"),
        ):
            answer = await desk.http.post("/ag-ui/desk", json={**body, **more})
            assert answer.status_code == 400, answer.text
            assert text in answer.json()["error"]["message"]
        said = {"messages": [{"id": "u", "role": "user", "content": "hi"}]}
        assert (await desk.http.post("/ag-ui/nobody", json={**body, **said})).status_code == 404


async def test_nobody_gets_into_the_thread_of_another() -> None:
    keys = ApiKeys({digest("key-of-ada-1234567"): Principal("ada"), digest("key-of-bob-1234567"): Principal("bob")})
    async with served(crib({"desk": [SAID, {"text": "For Bob."}]}), guard=keys) as (desk, _):
        ada, bob = desk.as_("key-of-ada-1234567"), desk.as_("key-of-bob-1234567")
        message = {"id": "u1", "role": "user", "content": "hi"}
        body = {"threadId": "t", "runId": "r", "messages": [message], "tools": [], "context": []}
        first = await desk.http.post("/ag-ui/desk", json=body, headers=ada.headers)
        assert "All done." in first.text
        assert (await desk.http.get("/ag-ui/desk/t", headers=bob.headers)).status_code == 204  # as of none at all
        for _ in range(2):  # one of his own, and the same when he comes back
            second = await desk.http.post("/ag-ui/desk", json=body, headers=bob.headers)
            assert "For Bob." in second.text
            assert "All done." not in second.text
        assert await bob.refused("GET", "/sessions/t") == (404, "not_found")
        assert len((await bob.get("/sessions"))["items"]) == 1
        again = await desk.http.post("/ag-ui/desk", json=body, headers=ada.headers)
        assert "For Bob." not in again.text
