"""Images and files as requests of providers carry them, over the wire formats that aimock speaks."""

import json
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra toolcrib[models] is not installed")

from tests.agent.aimock import KEY, serving
from tests.agent.pictures import DOT, PDF, png
from tests.agent.place import world
from tests.agent.speaker import SOON, Speaker, clients
from tests.agent.test_providers import MODELS, Wire
from tests.agent.test_providers_errors import converse
from tests.requirements import requirement
from tests.session.place import Place
from tests.sources.mcp.place import ALLOW, kit
from toolcrib import Block, block, tool
from toolcrib.agent import Agent
from toolcrib.agent.models import ModelError
from toolcrib.agent.providers import ProviderModel
from toolcrib.media import Media, encoded

pytestmark = pytest.mark.process


def fixtures() -> Iterator[dict[str, Any]]:
    """A turn that draws, one that has a server draw, and answers to all else."""
    for name in MODELS:
        model = name.replace("/", ":").partition(":")[2]
        more = {"finishReason": "stop"} if "gemini" in model else {}
        for word, called in (("draw", "draw"), ("picture", "kit__picture")):
            match = {"model": model, "userMessage": f"{word} it", "hasToolResult": False}
            call = {"id": "call_1", "name": called, "arguments": "{}"}
            yield {"match": match, "response": {"toolCalls": [call], **more}}
        bad = {"error": {"message": "Could not process image", "type": "invalid_request_error"}, "status": 400}
        yield {"match": {"model": model, "userMessage": "refuse it", "sequenceIndex": 0}, "response": bad}
        yield {"match": {"model": model}, "response": {"content": "A dot."}}


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("aimock"), list(fixtures())) as url:
        yield url


@pytest.fixture(autouse=True)
def _ready(monkeypatch: pytest.MonkeyPatch) -> None:
    clients()
    monkeypatch.setattr("tests.agent.place.SOON", SOON)


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


@tool(read_only=True)
async def draw() -> list[Block]:
    """Draw."""
    return [block("text", text="drawn"), block("image", data=DOT)]


def main(**settings: Any) -> list[Agent]:
    return [Agent(name="main", model_settings=settings)]


READ = ("text", "content", "output", "return_value", "result")
"""The fields of requests in which texts stand that a model reads."""


def values(data: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """All texts within a request, each with its field; base64 as everybody but Google writes it."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from values(value, name)
    elif isinstance(data, list):
        for value in data:
            yield from values(value, field)
    elif isinstance(data, str):
        yield field, data.translate(str.maketrans("-_", "+/")) if field == "data" else data


def texts(request: dict[str, Any]) -> list[str]:
    """The texts of a request that a model reads as texts."""
    return [value for field, value in values(request) if field in READ]


def files(request: dict[str, Any], *known: str) -> list[str]:
    """Those of the known base64 texts that are files in a request; none of them stands in a text."""
    known = known or (encoded(DOT), encoded(PDF))
    assert not any(one in text for text in texts(request) for one in known)
    found = [value for field, value in values(request) if field not in READ]
    return [one for one in known for value in found if value.endswith(one)]


@requirement("agents.media.1")
async def test_an_image_of_a_tool_is_an_image_to_the_provider(model: ProviderModel, wire: Wire) -> None:
    async with world(Place("memory:"), main(), model, draw) as here:
        assert (await here.send("draw it")).answer == "A dot."
    assert files(wire.sent[-1]) == [encoded(DOT)]
    assert any("drawn" in text for text in texts(wire.sent[-1]))


@requirement("agents.media.1")
async def test_an_image_of_an_mcp_server_is_an_image_to_the_provider(model: ProviderModel, wire: Wire) -> None:
    async with world(Place("memory:"), main(), model, kit(), policy=ALLOW) as here:
        await here.session.crib.open("s", owner="ada", namespaces=["kit"])
        assert (await here.send("picture it")).answer == "A dot."
        (image,) = (await here.result("picture"))["content"]
    assert files(wire.sent[-1], image["data"]) == [image["data"]]


@requirement("agents.media.3")
async def test_images_and_documents_of_a_user_are_those_of_the_request(model: ProviderModel, wire: Wire) -> None:
    async with world(Place("memory:"), main(), model) as here:
        message = ["What are these?", block("image", data=DOT), block("file", data=PDF, name="a.pdf")]
        assert (await here.send(message)).answer == "A dot."
    assert files(wire.sent[-1]) == [encoded(DOT), encoded(PDF)]
    assert "What are these?" in texts(wire.sent[-1])


@requirement("agents.media.2")
async def test_what_a_provider_does_not_take_is_a_placeholder(model: ProviderModel, wire: Wire) -> None:
    async with world(Place("memory:"), main(), model) as here:
        archive = block("file", data=b"PK\x03\x04\xff", mime_type="application/zip", name="a.zip")
        assert (await here.send(["Read it.", archive, block("image", data=DOT)])).answer == "A dot."
    assert "[file a.zip, application/zip, 5 bytes: this model takes no application/zip]" in texts(wire.sent[-1])
    assert files(wire.sent[-1]) == [encoded(DOT)]


@requirement("agents.media.7")
async def test_a_request_that_is_refused_with_its_files_is_made_without_them(
    model: ProviderModel, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(Place("memory:"), main(), model) as here:
        assert (await here.send(["refuse it", block("image", data=DOT)])).answer == "A dot."
    assert [files(request) for request in wire.sent] == [[encoded(DOT)], []]
    assert f"[image, image/png, {len(DOT)} bytes: the provider did not accept it]" in "\n".join(texts(wire.sent[-1]))
    assert "asked again without files" in caplog.text


@requirement("agents.media.2")
async def test_settings_say_what_a_model_takes(model: ProviderModel, wire: Wire) -> None:
    async with world(Place("memory:"), main(media=[]), model, draw) as here:
        assert (await here.send("draw it")).answer == "A dot."
    read = [text for text in texts(wire.sent[-1]) if "this model takes no images" in text]
    assert read
    assert f"[image, image/png, {len(DOT)} bytes: this model takes no images]" in read[0]
    assert files(wire.sent[-1]) == []


async def test_a_setting_that_lists_no_media_types_is_refused(model: ProviderModel) -> None:
    for wanted in ("image/png", ["images"], [5]):
        with pytest.raises(ModelError, match="list media types"):
            await model.media({"media": wanted})


@requirement("agents.media.2")
async def test_a_model_of_a_provider_says_what_it_takes() -> None:
    options = {"base_url": "http://127.0.0.1:9", "api_key": KEY}
    known = {}
    for name in ("openai:gpt-5", "anthropic:claude-sonnet-5", "google:gemini-2.5-flash", "cohere:command-r"):
        try:
            async with ProviderModel(name, {} if "cohere" in name else options) as one:
                known[name] = await one.media({})
        except ModelError:
            continue  # the client of that provider is not installed
    assert all(known[name].takes(Media("image/png", 1)) for name in known if "cohere" not in name)
    assert not known["anthropic:claude-sonnet-5"].takes(Media("audio/wav", 1))
    assert known["google:gemini-2.5-flash"].takes(Media("video/mp4", 1))
    assert "cohere:command-r" not in known or known["cohere:command-r"].types == frozenset()


@requirement("agents.media.1")
async def test_bedrock_gets_the_image_of_a_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3", reason="Bedrock needs pydantic-ai-slim[bedrock]")
    import_module("pydantic_ai.models.bedrock")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    used = {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}
    over = ("metadata", {"usage": used, "metrics": {"latencyMs": 1}})
    asks = converse(
        ("messageStart", {"role": "assistant"}),
        ("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "c1", "name": "draw"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "{}"}}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "tool_use"}),
        over,
    )
    says = converse(
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "A dot."}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        over,
    )
    speaker = Speaker(asks, says)
    async with speaker as url:
        options = {"base_url": url, "region_name": "us-east-1"}
        one = ProviderModel("bedrock:anthropic.claude-sonnet-4-20250514-v1:0", options)
        async with one, world(Place("memory:"), main(), one, draw) as here:
            large = block("image", data=png(4 * 1024 * 1024))
            assert (await here.send(["draw it", large])).answer == "A dot."
    sent = json.dumps(speaker.requests[1])
    assert encoded(DOT) in sent
    assert "[image, image/png, 4.0 MB: left out, the model takes no more than 3.8 MB]" in sent
