"""What comes of providers that fail, break off or make no sense; each told by a server of our own."""

import asyncio
import binascii
import json
import struct
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra toolcrib[models] is not installed")

from tests.agent.place import world
from tests.agent.speaker import DONE, SOON, Piece, Speaker, answer, chat, clients, http, sse
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import tool
from toolcrib.agent import Agent, CompletionRequest, ModelError
from toolcrib.agent.models import Delta, Finish, Message, ModelCall, Text, Usage
from toolcrib.agent.providers import ProviderModel

KEY = "sk-secret-1234567890"
MAIN = [Agent(name="main", instructions="You help.", model_settings={"backoff_s": 0.01})]
ONCE = [Agent(name="main", instructions="You help.", model_settings={"retries": 0})]


@pytest.fixture(autouse=True)
def _ready(monkeypatch: pytest.MonkeyPatch) -> None:
    clients()
    monkeypatch.setattr("tests.agent.place.SOON", SOON)


def model(url: str, name: str = "openai-chat:m", **more: Any) -> ProviderModel:
    return ProviderModel(name, {"base_url": url, "api_key": KEY, **more})


async def said(one: ProviderModel, text: str = "hi", **more: Any) -> list[Delta]:
    return [delta async for delta in one.respond(CompletionRequest("main", None, (Message("user", text),), **more))]


async def refused(*replies: list[Piece], name: str = "openai-chat:m") -> ModelError:
    """The error that a model makes of a reply."""
    async with Speaker(*replies) as url, model(url, name) as one:
        with pytest.raises(ModelError) as caught:
            await said(one)
    return caught.value


def error(message: str, kind: str = "x", code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code}}


@requirement("agents.run.9")
@pytest.mark.parametrize(
    ("status", "body", "name", "code", "words"),
    [
        (429, error("slowly"), "openai-chat:m", "rate_limited", "allows no more requests"),
        (429, error("pay", code="insufficient_quota"), "openai:m", "denied", "no quota or credit"),
        (503, error("later"), "openai:m", "unavailable", "not available"),
        (529, {"type": "error", **error("busy", "overloaded_error")}, "anthropic:m", "unavailable", "overloaded"),
        (500, error("oops"), "openai-chat:m", "unavailable", "oops"),
        (400, error("much", code="context_length_exceeded"), "openai-chat:m", "too_large", "too long for m"),
        (400, error("what?"), "openai-chat:m", "invalid_arguments", "what?"),
        (401, error(f"no {KEY}"), "openai-chat:m", "denied", "set OPENAI_API_KEY"),
        (403, error(f"no {KEY}"), "anthropic:m", "denied", "set ANTHROPIC_API_KEY"),
        (404, error("no such m"), "openai:m", "not_found", "knows no model 'm'"),
        (418, error(f"tea for {KEY}"), "openai-chat:m", "unavailable", "tea for [key]"),
    ],
)
async def test_each_failure_of_a_provider_has_its_code(
    status: int, body: Any, name: str, code: str, words: str
) -> None:
    told = await refused(http(status, body), name=name)
    assert (told.code, words in told.message, KEY in told.message) == (code, True, False), told.message


async def test_a_provider_tells_when_to_ask_again() -> None:
    told = await refused(http(429, error("slowly"), Retry_After="7"))
    assert (told.code, told.retry_after) == ("rate_limited", 7.0)
    assert "ask again in 7 s" in told.message


async def test_one_that_wants_to_be_left_alone_for_long_is_not_waited_for() -> None:
    speaker = Speaker(http(429, error("slowly"), Retry_After="3600"), answer("Now."))
    async with speaker as url, model(url) as one, world(Place("memory:"), MAIN, one) as here:
        outcome = await here.send("hi")
        assert (outcome.reason, outcome.code, len(speaker.requests)) == ("failed", "rate_limited", 1)
        assert (await here.send("hi")).answer == "Now."


@requirement("agents.run.9")
@pytest.mark.parametrize(
    "bad",
    [
        [None],
        http(502, error("gateway")),
        sse(b"data: {no json\n\n", DONE),
        sse(b": nothing at all\n\n", DONE),
        [b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"],
    ],
    ids=["hung up", "bad gateway", "no json", "empty", "html"],
)
async def test_what_cannot_be_read_is_asked_for_again(bad: list[Piece]) -> None:
    speaker = Speaker(bad, answer("There."))
    async with speaker as url, model(url) as one, world(Place("memory:"), MAIN, one) as here:
        outcome = await here.send("hi")
        assert (outcome.answer, len(speaker.requests)) == ("There.", 2)
        assert [event.fields["delta"] for event in await here.log("text")] == ["There."]


PARTS = {
    "cut": sse(chat({"content": "Once upon"}), chat({"content": " a time"}), end=[None]),
    "no json": sse(chat({"content": "Once upon"}), b"data: {no json\n\n"),
    "an error inside": sse(chat({"content": "Once upon"}), error("the model died", "server_error")),
}


@requirement("agents.run.9", "agents.events.1")
@pytest.mark.parametrize("how", PARTS)
async def test_a_reply_that_breaks_off_is_no_answer_and_the_next_message_goes_on(how: str) -> None:
    speaker = Speaker(PARTS[how], answer("The end."))
    async with speaker as url, model(url) as one, world(Place("memory:"), ONCE, one) as here:
        outcome = await here.send("tell")
        assert (outcome.reason, outcome.code, outcome.answer) == ("failed", "unavailable", None)
        assert (await here.send("and then?")).answer == "The end."
    assert [one["content"] for one in speaker.requests[1]["messages"]] == ["You help.", "tell", "and then?"]


async def test_a_reply_that_was_shown_is_not_asked_for_again() -> None:
    shown = asyncio.Event()
    speaker = Speaker(sse(chat({"content": "Once upon"}), shown, end=[None]), answer("The end."))
    async with speaker as url, model(url) as one, world(Place("memory:"), MAIN, one) as here:
        asked = asyncio.ensure_future(here.send("tell"))
        assert (await here.seen("text")).fields["delta"] == "Once upon"
        shown.set()
        outcome = await asked
        assert (outcome.reason, outcome.code, len(speaker.requests)) == ("failed", "unavailable", 1)
        assert "broke off in the middle" in outcome.detail
        assert (await here.send("and then?")).answer == "The end."


LONG = http(400, error("much", code="context_length_exceeded"))


@requirement("agents.run.14", "agents.run.9")
async def test_a_conversation_that_is_too_long_goes_on_with_a_summary() -> None:
    speaker = Speaker(answer("1" * 400), LONG, answer("They counted."), answer("Two."))
    async with speaker as url, model(url) as one, world(Place("memory:"), MAIN, one) as here:
        await here.send("one" * 100)
        assert (await here.send("and two")).answer == "Two."
        (event,) = await here.log("compacted")
    assert event.fields["summary"] == "They counted."
    sent = [one["content"] for one in speaker.requests[-1]["messages"]]
    assert sent == ["You help.", "They counted.", "and two"]


@requirement("agents.run.14")
@pytest.mark.parametrize(
    ("settings", "summarised"),
    [({}, True), ({"window": 100_000}, False), ({"window": 0}, False), ({"window": 5000}, True)],
    ids=["half of what the model takes", "more", "all", "as much as it says"],
)
async def test_a_conversation_stays_within_the_window_of_its_model(settings: Any, summarised: bool) -> None:
    replies = [answer("a" * 12_000), answer("b" * 12_000), *([answer("Letters.")] if summarised else []), answer("c")]
    speaker, given = Speaker(*replies), [Agent(name="main", instructions="You help.", model_settings=settings)]
    async with speaker as url, model(url, "openai-chat:gpt-4") as one, world(Place("memory:"), given, one) as here:
        assert await one.window({}) == 8192
        for said in ("one", "two", "three"):
            outcome = await here.send(said)
        assert outcome.answer == "c"
        assert [event.fields["summary"] for event in await here.log("compacted")] == ["Letters."] * summarised


@requirement("agents.run.14")
async def test_a_model_of_which_nobody_knows_the_window_is_sent_all_of_it() -> None:
    speaker = Speaker(answer("a" * 12_000), answer("b"))
    async with speaker as url, model(url) as one, world(Place("memory:"), MAIN, one) as here:
        assert await one.window({}) is None
        await here.send("one")
        assert (await here.send("two")).answer == "b"
        assert await here.log("compacted") == []


@requirement("agents.run.14", "agents.run.9")
async def test_what_nobody_can_summarise_is_left_out_and_the_next_message_goes_on() -> None:
    speaker = Speaker(LONG, LONG, answer("Hello."))
    async with speaker as url, model(url) as one, world(Place("memory:"), MAIN, one) as here:
        outcome = await here.send("long " * 1000)
        assert (outcome.reason, outcome.code) == ("failed", "too_large")
        assert (await here.send("hi")).answer == "Hello."
    _, before, now = [one["content"] for one in speaker.requests[-1]["messages"]]
    assert (before.startswith("What was said before is too long"), len(before) < 2200, now) == (True, True, "hi")


@requirement("agents.run.12")
async def test_an_interruption_hangs_up() -> None:
    speaker = Speaker(sse(chat({"content": "Once upon"}), asyncio.Event()), answer("Yes?"))
    async with speaker as url, model(url) as one, world(Place("memory:"), MAIN, one) as here:
        asked = asyncio.ensure_future(here.send("tell"))
        await here.seen("text")
        await here.session.interrupt()
        assert (await asked).reason == "cancelled"
        await asyncio.wait_for(speaker.gone.wait(), 30)
        assert (await here.send("listen")).answer == "Yes?"


async def test_a_provider_that_says_nothing_is_not_waited_for_longer_than_the_settings_say() -> None:
    async with Speaker([asyncio.Event()]) as url, model(url) as one:
        with pytest.raises(ModelError, match="took too long") as caught:
            await said(one, settings={"request_timeout": 0.2})
    assert caught.value.code == "timeout"


async def test_many_ask_at_once_and_are_connected_once() -> None:
    speaker = Speaker(*(answer("Hello.") for _ in range(20)))
    async with speaker as url, model(url) as one:
        replies = await asyncio.gather(*(said(one) for _ in range(20)))
        assert len(one._lines) == 1
    assert all(Text("Hello.") in reply for reply in replies)


@requirement("agents.run.9")
async def test_a_call_that_is_cut_off_does_not_run() -> None:
    ran = []

    @tool
    async def pay(cents: int = 1) -> None:
        """Pay."""
        ran.append(cents)

    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "pay", "arguments": ""}}
    speaker = Speaker(sse(chat({"tool_calls": [call]}), chat({}, "length"), DONE), answer("I could not."))
    async with speaker as url, model(url) as one, world(Place("memory:"), MAIN, one, pay) as here:
        assert (await here.send("pay")).answer == "I could not."
        assert (await here.result("pay"))["failure"]["code"] == "invalid_arguments"
    assert ran == []


async def test_arguments_come_as_the_model_wrote_them() -> None:
    written = '{"b" : 1.0,\n "a":"\\u00e9 é", "n": 12345678901234567890123}'
    pieces = [written[at : at + 3] for at in range(0, len(written), 3)]
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "t", "arguments": ""}}
    more = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    events = [chat({"tool_calls": [one]}) for one in (first, *more)]
    async with Speaker(sse(*events, chat({}, "tool_calls"), DONE)) as url, model(url) as one:
        deltas = await said(one)
    assert ModelCall("c1", "t", written) in deltas
    assert Finish("calls") in deltas


USED = {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2}
STARTED = {"id": "m1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": USED}
START = {"type": "message_start", "message": {**STARTED, "stop_reason": None, "stop_sequence": None}}


def events(*given: dict[str, Any]) -> list[Piece]:
    """A reply in the formats of Anthropic and of OpenAI's responses, whose events have types."""
    return sse(*(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in given))


async def test_arguments_of_anthropic_come_as_the_model_wrote_them() -> None:
    written = '{"b" : 1.0,  "a":"\\u00e9 é"}'
    block = {"type": "tool_use", "id": "c1", "name": "t", "input": {}}
    pieces = [{"type": "input_json_delta", "partial_json": written[at : at + 4]} for at in range(0, len(written), 4)]
    reply = events(
        START,
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    )
    async with Speaker(reply) as url, model(url, "anthropic:m") as one:
        call, used, finish = await said(one)
    assert (call, finish) == (ModelCall("c1", "t", written), Finish("calls"))
    assert isinstance(used, Usage)
    assert (used.input, used.output, used.cached) == (10, 9, 5)


async def test_a_reply_whose_end_does_not_come_is_told_as_such() -> None:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Once upon"}}
    told = await refused(events(START, block), name="anthropic:m")
    assert (told.code, "broke off in the middle" in told.message) == ("unavailable", True)
    text = {
        "type": "response.output_text.delta",
        "item_id": "i",
        "output_index": 0,
        "content_index": 0,
        "delta": "Once",
    }
    told = await refused(events({**text, "logprobs": [], "sequence_number": 1}), name="openai:m")
    assert (told.code, "broke off in the middle" in told.message) == ("unavailable", True)


@pytest.mark.parametrize(("why", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")])
async def test_responses_tell_why_they_were_cut_off(why: str, finish: str) -> None:
    text = {
        "type": "response.output_text.delta",
        "item_id": "i",
        "output_index": 0,
        "content_index": 0,
        "delta": "Once",
    }
    over = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": [], "tools": []}
    over |= {"status": "incomplete", "incomplete_details": {"reason": why}, "parallel_tool_calls": True}
    over |= {"tool_choice": "auto", "error": None, "instructions": None, "metadata": {}, "temperature": 1, "top_p": 1}
    ended = {"type": "response.incomplete", "response": over, "sequence_number": 2}
    reply = events({**text, "logprobs": [], "sequence_number": 1}, ended)
    async with Speaker(reply) as url, model(url, "openai:m") as one:
        deltas = await said(one)
    assert (deltas[0], deltas[-1]) == (Text("Once"), Finish(finish))


async def test_a_content_filter_that_leaves_nothing_is_an_error() -> None:
    told = await refused(sse(chat({}, "content_filter"), DONE))
    assert (told.code, "content filter" in told.message) == ("denied", True)


def frame(kind: str, data: dict[str, Any]) -> bytes:
    """A message of an AWS event stream."""
    named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in named.items()
    )
    body = json.dumps(data).encode()
    prelude = struct.pack("!II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack("!I", binascii.crc32(prelude)) + head + body
    return message + struct.pack("!I", binascii.crc32(message))


def converse(*events: tuple[str, dict[str, Any]]) -> list[Piece]:
    return sse(*(frame(*one) for one in events), kind="application/vnd.amazon.eventstream")


async def test_bedrock_calls_tools_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3", reason="Bedrock needs pydantic-ai-slim[bedrock]")
    import_module("pydantic_ai.models.bedrock")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)

    @tool(read_only=True)
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    used = {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}
    over = ("metadata", {"usage": used, "metrics": {"latencyMs": 1}})
    asks = converse(
        ("messageStart", {"role": "assistant"}),
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "c1", "name": "add"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": '{"a": 2, '}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": '"b": 3}'}}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "tool_use"}),
        over,
    )
    says = converse(
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "It is 5."}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        over,
    )
    speaker = Speaker(asks, says)
    async with speaker as url:
        options = {"base_url": url, "region_name": "us-east-1"}
        one = ProviderModel("bedrock:anthropic.claude-sonnet-4-20250514-v1:0", options)
        async with one, world(Place("memory:"), MAIN, one, add) as here:
            outcome = await here.send("2 and 3?")
            assert (outcome.answer, outcome.usage["total"]) == ("It is 5.", 24)
            assert (await here.log("message"))[1].fields["calls"][0]["args"] == '{"a": 2, "b": 3}'
    assert "toolResult" in json.dumps(speaker.requests[1])
