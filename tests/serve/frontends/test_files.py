"""Images and files through every door: the real clients of npm, and the API with its own client."""

from typing import Any

import httpx
import pytest

from tests.agent.pictures import DOT, PDF, png
from tests.requirements import requirement
from tests.serve.frontends.place import crib, served
from tests.serve.frontends.test_a2a import peer, value
from tests.serve.frontends.test_agui import front
from tests.serve.frontends.test_aisdk import chat
from toolcrib import Block, Crib, block, tool
from toolcrib.agent import ScriptedModel
from toolcrib.client import RemoteCrib
from toolcrib.media import Media, encoded

pytestmark = pytest.mark.process

SAID: dict[str, Any] = {"text": "A dot."}
DRAW: dict[str, Any] = {"calls": [{"tool": "draw"}]}
DATA_URL = f"data:image/png;base64,{encoded(DOT)}"


@tool(namespace="shop", read_only=True)
async def draw() -> list[Block]:
    """Draw."""
    return [block("text", text="drawn"), block("image", data=DOT), block("image", data=DOT, audience=("model",))]


@tool(namespace="shop", read_only=True)
async def scan() -> list[Block]:
    """Scan a page that is too large for a log."""
    return [block("image", data=png(2_000_000))]


def drawing(*turns: dict[str, Any]) -> Crib:
    return crib({"desk": [*turns, SAID]}, tools=[draw, scan])


def read(made: Crib) -> list[Any]:
    """What the model read of the last message of a user: texts, and files with their bytes."""
    agents: Any = made.agents
    model: ScriptedModel = agents._model
    (*_, message) = [one for one in model.requests[0].messages if one.role == "user"]
    return [(part.mime_type, part.content()) if isinstance(part, Media) else part for part in message.parts]


@requirement("agents.media.6")
async def test_ag_ui_brings_and_shows_files() -> None:
    made = drawing(DRAW)
    async with front(made) as (_, page):
        source = {"type": "data", "value": encoded(PDF), "mimeType": "application/pdf"}
        parts = [{"type": "text", "text": "What is it?"}, {"type": "document", "source": source}]
        answer = await page.step(send=parts)
    assert answer["error"] is None
    assert read(made) == ["What is it?", ("application/pdf", PDF)]
    (result,) = [one["content"] for one in answer["messages"] if one["role"] == "tool"]
    shown = {"type": "image", "source": {"type": "data", "value": encoded(DOT), "mimeType": "image/png"}}
    assert result == [{"type": "text", "text": "drawn"}, shown]


@requirement("agents.media.6")
async def test_the_ai_sdk_brings_and_shows_files() -> None:
    made = drawing(DRAW)
    async with chat(made) as (_, page):
        file = {"type": "file", "mediaType": "image/png", "filename": "dot.png", "url": DATA_URL}
        answer = await page.step(send=[{"type": "text", "text": "What is it?"}, file])
    assert read(made) == ["What is it?", ("image/png", DOT)]
    parts = answer["message"]["parts"]
    assert [(one["url"], one["mediaType"]) for one in parts if one["type"] == "file"] == [(DATA_URL, "image/png")]
    (call,) = [one for one in parts if one["type"] == "dynamic-tool"]
    assert call["output"] == f"drawn\n[image, image/png, {len(DOT)} bytes]"


@requirement("agents.media.6", "agents.media.4")
async def test_a_large_file_of_a_result_is_fetched_by_its_address() -> None:
    async with chat(drawing({"calls": [{"tool": "scan"}]})) as (desk, page):
        answer = await page.step(send="scan")
        (url,) = [one["url"] for one in answer["message"]["parts"] if one["type"] == "file"]
        fetched = await desk.http.get(url, headers=desk.headers)
        assert (fetched.content, fetched.headers["content-type"]) == (png(2_000_000), "image/png")
        assert fetched.headers["x-content-type-options"] == "nosniff"
        assert (await desk.http.get(url.rpartition("/")[0] + "/agent:1", headers=desk.headers)).status_code == 404


@requirement("agents.media.6")
async def test_a_link_to_a_file_is_told_and_not_fetched() -> None:
    made = drawing()
    async with chat(made) as (_, page):
        file = {"type": "file", "mediaType": "image/png", "url": "http://127.0.0.1:9/dot.png"}
        await page.step(send=[{"type": "text", "text": "What is it?"}, file])
    agents: Any = made.agents
    text = agents._model.requests[0].messages[-1].text
    assert text.startswith("What is it?\n")
    assert "http://127.0.0.1:9/dot.png" in text


@requirement("agents.media.6")
async def test_a2a_brings_files() -> None:
    made = drawing()
    async with peer(made) as (_, page):
        await value(page, "send", text="What is it?", raw=encoded(DOT), mediaType="image/png")
    assert read(made) == ["What is it?", ("image/png", DOT)]


@requirement("agents.media.6")
async def test_the_api_takes_parts_and_its_client_sends_and_fetches_them() -> None:
    made = drawing()
    async with served(made) as (desk, url):
        async with RemoteCrib(url) as remote:
            session = await remote.open("s")
            outcome = await session.send(["What is it?", block("image", data=DOT), {"type": "file", "data": PDF}])
            assert outcome.answer == "A dot."
            events = [event async for event in session.events(follow=False)]
            (message,) = [one.fields for one in events if one.kind == "message" and "parts" in one.fields]
            assert await session.file(message["parts"][2]["output"]) == PDF
        assert read(made) == ["What is it?", ("image/png", DOT), ("application/pdf", PDF)]
        refused: httpx.Response = await desk.http.post("/v1/sessions/s/messages", json={}, headers=desk.headers)
        assert (refused.status_code, refused.json()["error"]["message"]) == (
            400,
            "A message has either `text` or `parts`",
        )
