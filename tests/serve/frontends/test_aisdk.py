"""The AI SDK's own client, `ai` of npm, talks to agents."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.npm import fetched
from tests.serve.api.place import Desk, good
from tests.serve.frontends.place import Client, client, crib, served
from toolcrib import Crib
from toolcrib.agent import Agent
from toolcrib.serve.keys import ApiKeys, digest
from toolcrib.serve.principal import Principal

pytestmark = pytest.mark.process

AI = "ai@7.0.169"
LOOK: dict[str, Any] = {"text": "Let me see.", "chunks": 3, "calls": [{"tool": "find", "args": {"order": "A-7"}}]}
PAY: dict[str, Any] = {"calls": [{"tool": "refund", "args": {"order": "A-7", "cents": 500}}]}
SAID: dict[str, Any] = {"text": "All done.", "usage": {"input": 10, "output": 3}}


@asynccontextmanager
async def chat(given: Crib, agent: str = "desk", id: str = "chat-1") -> AsyncIterator[tuple[Desk, Client]]:
    async with served(given) as (desk, url):
        module = str(fetched(AI) / "ai" / "dist" / "index.js")
        async with client("aisdk_client.mjs", module, f"{url}/ai-sdk/{agent}", id) as talking:
            yield desk, talking


def shown(answer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in answer["message"]["parts"] if part["type"] == kind]


async def test_text_and_calls_become_parts_of_one_message() -> None:
    async with chat(crib({"desk": [LOOK, SAID]})) as (_, page):
        answer = await page.step(send="Where is A-7?")
    assert [part["text"] for part in shown(answer, "text")] == ["Let me see.", "All done."]
    call = shown(answer, "dynamic-tool")[0]
    assert (call["toolName"], call["input"], call["state"]) == ("shop.find", {"order": "A-7"}, "output-available")
    assert call["output"] == {"order": "A-7", "cents": 4200}
    assert answer["message"]["metadata"]["usage"]["total"] == 13
    assert answer["kinds"].count("text-delta") >= 2
    assert "error" not in answer["kinds"]


async def test_an_approval_is_asked_for_and_given_in_the_page() -> None:
    async with chat(crib({"desk": [PAY, SAID]})) as (_, page):
        asked = await page.step(send="Refund A-7")
        assert shown(asked, "dynamic-tool")[0]["state"] == "approval-requested"
        answer = await page.step(approve=True)
        call = shown(answer, "dynamic-tool")[0]
        assert (call["state"], call["output"]) == ("output-available", {"receipt": "A-7/500"})
        assert answer["message"]["id"] == asked["message"]["id"]
        assert shown(answer, "text")[-1]["text"] == "All done."


async def test_a_refusal_reaches_the_agent_with_its_reason() -> None:
    async with chat(crib({"desk": [PAY, SAID]})) as (desk, page):
        await page.step(send="Refund A-7")
        answer = await page.step(approve=False, reason="too much")
        assert shown(answer, "dynamic-tool")[0]["state"] == "output-denied"
        events = (await desk.get("/sessions/chat-1/events", limit=1000))["items"]
    answered = next(event["data"] for event in events if event["kind"] == "answered")
    assert (answered["action"], answered["reason"], answered["actor"]) == ("decline", "too much", "anyone")
    assert next(event["data"]["failure"]["code"] for event in events if event["kind"] == "done") == "declined"


async def test_a_tool_of_the_page_is_answered_by_the_page() -> None:
    turns = {"desk": [{"calls": [{"tool": "pick", "args": {"of": "colours"}}]}, SAID]}
    async with chat(crib(turns)) as (desk, page):
        await desk.open("chat-1")
        schema = {"type": "object", "properties": {"of": {"type": "string"}}}
        offer = {"tools": [{"name": "pick", "description": "Let the person pick.", "input_schema": schema}]}
        good(await desk.ask("PUT", "/sessions/chat-1/tools/client", offer))
        asked = await page.step(send="What colour?")
        assert shown(asked, "dynamic-tool")[0]["state"] == "input-available"
        answer = await page.step(output={"picked": "red"})
        call = shown(answer, "dynamic-tool")[0]
    assert (call["state"], call["output"]) == ("output-available", {"picked": "red"})


async def test_a_handover_is_shown_and_the_next_message_goes_to_the_other_agent() -> None:
    agents = (
        Agent(name="desk", instructions="Help.", tools=["shop.*"], sub_agents=("billing",)),
        Agent(name="billing", instructions="Money.", tools=["shop.*"]),
    )
    over = {"calls": [{"tool": "transfer_to_agent", "args": {"agent_name": "billing", "reason": "money"}}]}
    async with chat(crib({"desk": [over], "billing": [SAID, {"text": "Still me."}]}, *agents)) as (_, page):
        answer = await page.step(send="Money, please")
        assert shown(answer, "data-handover")[0]["data"] == {"from": "desk", "to": "billing", "reason": "money"}
        again = await page.step(send="And now?")
    assert shown(again, "text")[0]["text"] == "Still me."


async def test_the_same_message_twice_is_one_message() -> None:
    async with served(crib({"desk": [SAID]})) as (desk, _):
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
        for _ in range(2):
            answer = await desk.http.post("/ai-sdk/desk", json={"id": "c", "messages": [message]})
            assert answer.status_code == 200
            assert answer.text.endswith("data: [DONE]\n\n")
        events = (await desk.get("/sessions/c/events", limit=1000))["items"]
    assert [event["data"]["content"] for event in events if event["kind"] == "message"] == ["hi", "All done."]


async def test_nothing_goes_on_so_there_is_nothing_to_attach_to() -> None:
    async with chat(crib({"desk": [SAID]})) as (_, page):
        await page.step(send="hi")
        assert (await page.step(attach=True))["kinds"] == []


async def test_a_model_that_fails_is_told_in_the_stream() -> None:
    broken = {"error": {"code": "overloaded", "message": "too busy"}}
    async with chat(crib({"desk": [broken] * 20})) as (_, page):
        answer = await page.step(send="hi")
    assert "error" in answer["kinds"] or "error" in answer


async def test_what_does_not_fit_is_refused_with_what_to_do() -> None:
    async with served(crib({"desk": [SAID]})) as (desk, _):
        said = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
        for path, body, status, text in (
            ("/ai-sdk/desk", {"id": "c", "messages": []}, 400, "no message"),
            ("/ai-sdk/desk", {"id": "c", "messages": [{"role": "user", "parts": []}]}, 400, "no text"),
            ("/ai-sdk/desk", {"messages": [said]}, 400, "id"),
        ):
            answer = await desk.http.post(path, json=body)
            assert answer.status_code == status, answer.text
            assert text in answer.json()["error"]["message"]
        unknown = await desk.http.post("/ai-sdk/nobody", json={"id": "c2", "messages": [said]})
        assert unknown.status_code == 404
        assert "nobody" in unknown.text


async def test_nobody_gets_into_the_chat_of_another() -> None:
    keys = ApiKeys({digest("key-of-ada-1234567"): Principal("ada"), digest("key-of-bob-1234567"): Principal("bob")})
    async with served(crib({"desk": [SAID, {"text": "For Bob."}]}), guard=keys) as (desk, _):
        body = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}]}
        ada = await desk.http.post("/ai-sdk/desk", json=body, headers=desk.as_("key-of-ada-1234567").headers)
        assert ada.status_code == 200
        bob = await desk.http.post("/ai-sdk/desk", json=body, headers=desk.as_("key-of-bob-1234567").headers)
        assert ("For Bob." in bob.text, "All done." in bob.text) == (True, False)
        assert (await desk.http.post("/ai-sdk/desk", json=body)).status_code == 401
