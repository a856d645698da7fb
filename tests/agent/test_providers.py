"""Whole runs with models of providers, over the wire formats that aimock speaks."""

import json
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra toolcrib[models] is not installed")

import httpx2

from tests.agent.aimock import KEY, serving
from tests.agent.place import World, world
from tests.agent.speaker import SOON, clients
from tests.agent.test_models import stripped
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import ToolFailure, tool
from toolcrib.agent import Agent, CompletionRequest, ScriptedModel, record
from toolcrib.agent.models import Finish, Message, ModelCall, Reasoning, Text, ToolView, Usage
from toolcrib.agent.providers import ProviderModel

MODELS = {
    "openai-chat:gpt-5": ("/v1", "messages"),
    "openai:gpt-5-mini": ("/v1", "input"),
    "anthropic/claude-sonnet-5": ("", "messages"),
    "google:gemini-2.5-flash": ("", "contents"),
}
"""The names of models, where aimock has their provider, and what the history is called in a request."""

ARGS = '{"city": "Rome",  "days":1.50}'
SUN = "The sun shines in Rome, and it will not rain tomorrow."


USED = {"prompt_tokens": 1200, "completion_tokens": 30, "total_tokens": 1230}


def turns(model: str, message: str, calls: list[Any], answer: str) -> Iterator[dict[str, Any]]:
    """A turn that calls tools, and one that answers."""
    match = {"model": model, "userMessage": message}
    more = {"finishReason": "stop"} if "gemini" in model else {}  # where aimock else says what the provider never does
    called = {"toolCalls": calls, "reasoning": "I look it up.", "usage": USED, **more}
    yield {"match": {**match, "hasToolResult": False}, "response": called}
    yield {"match": {**match, "hasToolResult": True}, "response": {"content": answer, "usage": USED}}


def fixtures() -> Iterator[dict[str, Any]]:
    """What is answered to which message, for each model."""
    for name in MODELS:
        model = name.replace("/", ":").partition(":")[2]
        call = {"id": "call_1", "name": "weather", "arguments": ARGS}
        bad = {"id": "call_2", "name": "no.such tool", "arguments": "{}"}
        yield from turns(model, "sun?", [call], SUN)
        yield from turns(model, "both?", [call, bad], "One of them.")
        yield from turns(model, "break?", [{**call, "name": "broken"}], "It is broken.")
        yield {"match": {"model": model, "userMessage": "and now?"}, "response": {"content": "Fine."}}
        yield {
            "match": {"model": model, "userMessage": "much?"},
            "response": {"content": "So much", "finishReason": "length"},
        }
        yield {
            "match": {"model": model, "userMessage": "where you stopped"},
            "response": {"content": " and no more."},
        }
        yield {"match": {"model": model, "userMessage": "cut?"}, "response": {"content": SUN}, "truncateAfterChunks": 3}
        busy = {"error": {"message": "slowly", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1}
        yield {"match": {"model": model, "userMessage": "busy?", "sequenceIndex": 0}, "response": busy}
        yield {"match": {"model": model, "userMessage": "busy?"}, "response": {"content": "Now."}}
        yield {"match": {"model": model}, "response": {"content": "Fine."}}


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("aimock"), list(fixtures())) as url:
        yield url


@pytest.fixture(autouse=True)
def _ready(monkeypatch: pytest.MonkeyPatch) -> None:
    clients()
    monkeypatch.setattr("tests.agent.place.SOON", SOON)


@tool(read_only=True)
async def weather(city: str, days: float) -> str:
    """Tell the weather."""
    return f"sun in {city} for {days} days"


@tool(read_only=True)
async def broken(city: str, days: float) -> str:
    """Tell the weather, or not."""
    raise ToolFailure("unavailable", "the mast fell", hint="ask tomorrow")


class Wire:
    """The client that requests go out through, and what it sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.client = httpx2.AsyncClient(event_hooks={"request": [self._saw]}, timeout=60)

    async def _saw(self, request: httpx2.Request) -> None:
        self.sent.append(json.loads(request.content))
        if request.url.path.startswith("/v1/models/gemini"):  # aimock knows this format by its older path
            request.url = request.url.copy_with(path=request.url.path.replace("/v1/", "/v1beta/", 1))


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    made = Wire()
    yield made
    await made.client.aclose()


@pytest.fixture(params=list(MODELS))
async def model(request: pytest.FixtureRequest, aimock: str, wire: Wire) -> AsyncIterator[ProviderModel]:
    """A model of each provider."""
    options = {"base_url": aimock + MODELS[request.param][0], "api_key": KEY, "http_client": wire.client}
    async with ProviderModel(request.param, options) as made:
        yield made


def helper(**settings: Any) -> list[Agent]:
    return [Agent(name="main", instructions="You help.", model_settings={"backoff_s": 0.01, **settings})]


async def said(here: World) -> list[str]:
    return [event.fields["delta"] for event in await here.log("text", "reasoning")]


@requirement("agents.model.1", "agents.run.2", "agents.run.3")
@pytest.mark.process
async def test_a_run_calls_tools_and_answers(model: ProviderModel) -> None:
    async with world(Place("memory:"), helper(), model, weather) as here:
        outcome = await here.send("sun?")
        assert (outcome.reason, outcome.answer, outcome.turns) == ("answered", SUN, 2)
        first, second = [event.fields for event in await here.log("message") if event.fields["role"] == "assistant"]
        (call,) = first["calls"]
        assert (first["finish"], second["finish"], call["tool"]) == ("calls", "stop", "weather")
        assert json.loads(call["args"]) == {"city": "Rome", "days": 1.5}
        assert (await here.result("weather"))["data"] == "sun in Rome for 1.5 days"
        assert "".join(await said(here)) == "I look it up." + SUN
        assert outcome.usage["total"] == first["usage"]["total"] + second["usage"]["total"] >= 1230
        assert outcome.usage["cost"] == pytest.approx(first["usage"]["cost"] + second["usage"]["cost"]) != 0


async def test_pieces_come_while_the_model_speaks(model: ProviderModel) -> None:
    tools = (ToolView("weather", "Tell.", {"type": "object", "properties": {"city": {"type": "string"}}}),)
    history = (Message("system", "You help."), Message("user", "sun?"))
    deltas = [delta async for delta in model.respond(CompletionRequest("main", None, history, tools))]
    assert "".join(one.delta for one in deltas if isinstance(one, Reasoning)) == "I look it up."
    (call,) = [one for one in deltas if isinstance(one, ModelCall)]
    assert (call.name, json.loads(call.args)) == ("weather", json.loads(ARGS))
    if "openai" in model.name:  # aimock itself writes the arguments of the others anew
        assert call.args == ARGS
    assert [one for one in deltas if isinstance(one, Finish)] == [Finish("calls")]
    answered = (*history, Message("assistant", "", (call,)), Message("tool", "sun", call=call.id))
    deltas = [delta async for delta in model.respond(CompletionRequest("main", None, answered, tools))]
    pieces = [one.delta for one in deltas if isinstance(one, Text)]
    assert len(pieces) > 3
    assert "".join(pieces) == SUN
    (used,) = [one for one in deltas if isinstance(one, Usage)]
    assert (used.input, used.output) == (1200, 30)
    assert used.cost is not None


async def test_the_same_history_is_sent_in_the_same_bytes(model: ProviderModel, wire: Wire) -> None:
    async with world(Place("memory:"), helper(), model, weather, broken) as here:
        for text in ("sun?", "break?", "both?", "bye"):
            await here.send(text)
    history = MODELS[model.name][1]
    bodies = [{**body, history: [json.dumps(one) for one in body[history]]} for body in wire.sent]
    assert len(bodies) == 7
    for before, after in pairwise(bodies):
        known = before.pop(history)
        assert after[history][: len(known)] == known
        assert json.dumps(before) == json.dumps({name: value for name, value in after.items() if name != history})


async def test_failures_and_names_of_no_tool_go_back_as_results(model: ProviderModel, wire: Wire) -> None:
    async with world(Place("memory:"), helper(), model, weather, broken) as here:
        assert (await here.send("break?")).answer == "It is broken."
        assert "the mast fell" in json.dumps(wire.sent[-1])
        assert (await here.send("both?")).answer == "One of them."
        called = (await here.log("message"))[-2].fields["calls"]
        assert [call["tool"] for call in called] == ["weather", "no.such tool"]
        sent = json.dumps(wire.sent[-1][MODELS[model.name][1]])
        assert '"_no_such_tool_' in sent
        assert '"name": "no.such tool"' not in sent
        assert "sun in Rome" in sent


# aimock never cuts a reply off in the other format of OpenAI.
@pytest.mark.parametrize("model", [name for name in MODELS if not name.startswith("openai:")], indirect=True)
async def test_a_reply_that_is_cut_off_by_its_length_goes_on(model: ProviderModel) -> None:
    async with world(Place("memory:"), helper(), model) as here:
        assert (await here.send("much?")).answer == "So much and no more."


@requirement("agents.run.9")
async def test_a_provider_that_wants_to_wait_is_asked_again(model: ProviderModel, wire: Wire) -> None:
    async with world(Place("memory:"), helper(), model) as here:
        assert (await here.send("busy?")).answer == "Now."
        (turn,) = [event.fields for event in await here.log("turn_finished")]
    assert len(wire.sent) == 2
    assert turn["duration_ms"] >= 1000  # so long it wanted to be left alone


@requirement("agents.run.9", "agents.events.1")
async def test_after_a_connection_that_broke_off_the_next_message_goes_on(model: ProviderModel) -> None:
    async with world(Place("memory:"), helper(retries=0), model) as here:
        outcome = await here.send("cut?")
        assert (outcome.reason, outcome.code) == ("failed", "unavailable")
        assert (await here.send("and now?")).answer == "Fine."
        assert len(await here.log("run_finished")) == 2


async def test_a_wrong_key_is_told_by_the_name_of_its_variable(
    model: ProviderModel, aimock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = {"openai-chat": "OPENAI", "openai": "OPENAI", "google": "GOOGLE"}.get(
        model.name.split(":")[0], "ANTHROPIC"
    )
    monkeypatch.setenv(f"{variable}_API_KEY", "sk-wrong-0987654321")
    options = {**model._address.options, "api_key": "sk-wrong-0987654321"}
    async with ProviderModel(model.name, options) as wrong, world(Place("memory:"), helper(), wrong) as here:
        outcome = await here.send("sun?")
    assert (outcome.reason, outcome.code) == ("failed", "denied")
    assert f"{variable}_API_KEY" in outcome.detail
    assert "sk-wrong" not in outcome.detail


@requirement("agents.model.3")
async def test_a_recorded_run_is_replayed_without_the_provider(model: ProviderModel, tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    async with world(Place("memory:"), helper(), record(model, path), weather) as here:
        first = await here.send("sun?")
        before = stripped(await here.log())
    async with world(Place("memory:"), helper(), ScriptedModel.load(path), weather) as here:
        again = await here.send("sun?")
        after = stripped(await here.log())
    assert (first.answer, first.usage) == (again.answer, again.usage)
    assert joined(after) == joined(before)


def joined(events: list[Any]) -> list[Any]:
    """A log in which pieces of text that follow each other are one: how many there are depends on the time between."""
    made: list[Any] = []
    for kind, call, data in events:
        if made and kind in ("text", "reasoning") and made[-1][0] == kind:
            made[-1][2]["delta"] += data["delta"]
        else:
            made.append((kind, call, data))
    return made


async def test_what_a_provider_signed_goes_back_to_it_after_a_restart(
    model: ProviderModel, file_place: Place, wire: Wire
) -> None:
    async with world(file_place, helper(), model, weather) as here:
        await here.send("sun?")
        kept = [event.fields for event in await here.log("message")][1].get("kept")
    if kept is None:
        assert "google" in model.name  # aimock signs nothing in that format
        return
    (thought,) = [part for part in kept["parts"] if part["kind"] == "thinking"]
    sent = json.dumps(wire.sent[-1])
    async with world(file_place, helper(), model, weather) as here:
        await here.send("bye")
    history = MODELS[model.name][1]
    assert wire.sent[-1][history][: len(wire.sent[1][history])] == wire.sent[1][history]
    assert (thought.get("signature") or thought["content"]) in sent
