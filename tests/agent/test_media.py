"""Images and files in a conversation: from tools and users, kept beside the log, and read when a model is asked."""

import asyncio
import json
from typing import Any

import pytest

from tests.agent.pictures import DOT, PDF, png
from tests.agent.place import World, calls, text, world
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import Block, CribLimits, Refused, Result, block, tool
from toolcrib.agent import Agent, CompletionRequest
from toolcrib.agent.models import Finish, MediaIntake, Model, ModelError, Text
from toolcrib.media import Media, encoded

MAIN = [Agent(name="main")]
LIMITED = CribLimits(output_bytes=4000, message_bytes=100_000)


@tool(read_only=True)
async def draw() -> list[Block]:
    """Draw."""
    return [block("text", text="before"), block("image", data=DOT, name="dot.png"), block("text", text="after")]


@tool(read_only=True)
async def photograph() -> bytes:
    """Take a picture."""
    return DOT


@tool(read_only=True)
async def scan() -> Result:
    """Scan two large pages."""
    large = [block("image", data=png(9000)), block("file", data=PDF * 50, mime_type="application/pdf", name="a.pdf")]
    return Result({"pages": 2}, content=[*large, block("text", text="two pages")])


class Blind(Model):
    """A model that takes text alone, or what it is told to take, and says what it was asked."""

    def __init__(self, intake: MediaIntake | None = None) -> None:
        self.requests: list[CompletionRequest] = []
        self.intake = intake

    async def media(self, settings: Any) -> MediaIntake:
        return await super().media(settings) if self.intake is None else self.intake

    async def respond(self, request: CompletionRequest) -> Any:
        self.requests.append(request)
        yield Text("seen")
        yield Finish("stop")


def parts(here: World, role: str, number: int = -1) -> tuple[Any, ...]:
    """The parts of the last message of a role in a request."""
    (*_, message) = [one for one in here.model.requests[number].messages if one.role == role]
    return tuple(message.parts)


@requirement("agents.media.1")
async def test_an_image_of_a_tool_reaches_the_model_in_its_place(place: Place) -> None:
    async with world(place, MAIN, {"main": [calls(("draw", {})), text("ok")]}, draw) as here:
        await here.send("go")
        before, image, after = parts(here, "tool")
        assert (before, after) == ("before", "after")
        assert (image.content(), image.mime_type, image.name) == (DOT, "image/png", "dot.png")
        (message,) = [one for one in here.model.requests[-1].messages if one.role == "tool"]
        assert message.text == f"before\n[image dot.png, image/png, {len(DOT)} bytes]\nafter"
        assert encoded(DOT)[:20] not in json.dumps([one.text for one in here.model.requests[-1].messages])


@requirement("agents.media.1")
@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=pytest.mark.process)])
async def test_bytes_that_a_tool_returns_are_a_file(isolate: bool) -> None:
    given = tool(read_only=True, isolate=True)(photograph_in_process) if isolate else photograph
    name = "photograph_in_process" if isolate else "photograph"
    async with world(Place("memory:"), MAIN, {"main": [calls((name, {})), text("ok")]}, given) as here:
        await here.send("go")
        (image,) = parts(here, "tool")
        assert (image.content(), image.mime_type) == (DOT, "image/png")


def photograph_in_process() -> bytes:
    """Take a picture."""
    return DOT


@requirement("agents.media.1")
async def test_files_of_a_call_in_the_background_come_with_its_result() -> None:
    quick = tool(name="quick", read_only=True, background=True, wake="next_turn")(shot)
    script = {"main": [calls(("quick", {})), text("ok"), text("a dot")]}
    async with world(Place("memory:"), MAIN, script, quick) as here:
        await here.send("go")
        await here.seen("done")
        await here.send("and?")
        (shown,) = [one.parts for one in here.model.requests[-1].messages if one.parts]
        note, image = shown
        assert "quick" in str(note)
        assert isinstance(image, Media)
        assert image.content() == DOT


async def shot() -> Block:
    """Take a picture."""
    return block("image", data=DOT)


@requirement("agents.media.2")
async def test_a_model_that_takes_no_files_reads_what_they_are() -> None:
    async with world(Place("memory:"), MAIN, Blind()) as here:
        message = [
            "What is this?",
            block("image", data=png(34_000)),
            block("file", data=b"a,b\n1,2", mime_type="text/csv"),
        ]
        assert (await here.send(message)).answer == "seen"
        (_, asked) = here.model.requests[0].messages
        question, image, *table = asked.text.split("\n")
        assert (question, image) == ("What is this?", "[image, image/png, 33 KB: this model takes no images]")
        assert table == ["[file, text/csv, 7 bytes]", "a,b", "1,2"]
        assert asked.parts == ()


@requirement("agents.media.2", "agents.media.5")
async def test_a_model_gets_the_files_that_it_takes_the_newest_first() -> None:
    intake = MediaIntake(frozenset({"image/png"}), largest=3000, total=5000)
    first, second, third = png(1000), png(2000), png(2500)
    gif = block("image", data=b"GIF89a\xff", name="move.gif")
    async with world(Place("memory:"), MAIN, Blind(intake)) as here:
        for one in (first, second, third, png(4000)):
            await here.send([block("image", data=one), gif])
        shown = [one for message in here.model.requests[-1].messages for one in message.parts]
        images = [one.content() for one in shown if isinstance(one, Media)]
        assert images == [second, third]
        texts = "\n".join(message.text for message in here.model.requests[-1].messages)
        assert texts.count("[image move.gif, image/gif, 7 bytes: this model takes no image/gif]") == 4
        assert "left out, the model takes no more than 3 KB]" in texts
        assert "left out, the model takes no more than 5 KB]" in texts


@requirement("agents.media.7")
async def test_a_file_that_a_provider_refuses_does_not_end_the_conversation() -> None:
    class Picky(Blind):
        async def respond(self, request: CompletionRequest) -> Any:
            if any(message.parts for message in request.messages):
                raise ModelError("invalid_arguments", "the image cannot be processed")
            async for delta in super().respond(request):
                yield delta

    async with world(Place("memory:"), MAIN, Picky(MediaIntake(frozenset({"image/png"}), 9999, 9999))) as here:
        outcome = await here.send(["What is it?", block("image", data=DOT)])
        assert (outcome.reason, outcome.answer) == ("answered", "seen")
        label = f"[image, image/png, {len(DOT)} bytes: the provider did not accept it]"
        assert here.model.requests[0].messages[-1].text == f"What is it?\n{label}"
        assert (await here.send("And now?")).reason == "answered"
        asked = [one.fields.get("asked") for one in await here.log("message") if one.fields["role"] == "assistant"]
        assert asked == [2, 2]


@requirement("agents.media.3")
async def test_files_of_a_message_are_kept_beside_the_log_and_survive_a_restart(file_place: Place) -> None:
    async with world(file_place, MAIN, {"main": [text("a dot")]}) as here:
        await here.send(["Look:", block("image", data=DOT, name="dot.png"), "What is it?"])
        (said,) = [one.fields for one in await here.log("message") if one.fields["role"] == "user"]
        assert said["content"] == f"Look:\n[image dot.png, image/png, {len(DOT)} bytes]\nWhat is it?"
        (_, kept, _) = said["parts"]
        assert encoded(DOT) not in json.dumps(said)
        assert await here.session.file(kept["output"]) == DOT
        assert [getattr(one, "mime_type", one) for one in parts(here, "user")] == ["Look:", "image/png", "What is it?"]
    async with world(file_place, MAIN, {"main": [text("a dot"), text("red")]}) as here:
        await here.send("Which colour?")
        (first, _) = [one for one in here.model.requests[0].messages if one.role == "user"]
        assert first.parts[1].content() == DOT


@requirement("agents.media.3")
async def test_a_message_that_waits_in_the_queue_keeps_its_files() -> None:
    script = {"main": [calls(("draw", {})), text("drawn"), text("seen")]}
    async with world(Place("memory:"), MAIN, script, draw) as here:
        task = asyncio.ensure_future(here.session.send("draw"))
        await here.seen("run_started")
        await here.send([block("file", data=PDF)], mode="followup")
        await task
        assert [one.content() for one in parts(here, "user")] == [PDF]


@requirement("agents.media.3")
async def test_a_handover_passes_files_on() -> None:
    agents = [Agent(name="main", sub_agents=[{"agent": "other", "history": "none"}]), Agent(name="other")]
    script = {"main": [calls(("transfer_to_agent", {"agent_name": "other"}))], "other": [text("a dot")]}
    async with world(Place("memory:"), agents, script) as here:
        await here.send(["What is it?", block("image", data=DOT)])
        assert here.model.requests[-1].agent == "other"
        assert parts(here, "user")[1].content() == DOT


@requirement("agents.media.4")
async def test_large_files_of_a_result_are_references_until_a_model_is_asked(place: Place) -> None:
    async with world(place, MAIN, {"main": [calls(("scan", {})), text("ok")]}, scan, limits=LIMITED) as here:
        await here.send("go")
        done = await here.result("scan")
        assert done["data"] == {"pages": 2}
        image, document, _ = done["content"]
        assert image == {"type": "image", "mime_type": "image/png", "output": image["output"], "bytes": len(png(9000))}
        assert len(json.dumps(done["content"])) < 1000
        shown = parts(here, "tool")
        assert [getattr(one, "mime_type", one) for one in shown] == ["image/png", "application/pdf", "two pages"]
        assert (shown[0].content(), shown[1].content()) == (png(9000), PDF * 50)
        assert await here.session.file(document["output"]) == PDF * 50
        with pytest.raises(Refused, match="No such file"):
            await here.session.file("0" * 64)


@requirement("agents.media.4")
async def test_a_result_cannot_name_what_is_kept_for_others() -> None:
    @tool(read_only=True)
    async def steal() -> list[Block]:
        """Steal."""
        return [Block(type="image", mime_type="text/plain", output="agent:1234", bytes=5)]

    async with world(Place("memory:"), MAIN, {"main": [calls(("steal", {})), text("ok")]}, steal) as here:
        await here.send("go")
        assert parts(here, "tool") == ()


async def test_outputs_and_files_are_all_that_a_session_gives_of_what_is_kept_for_it() -> None:
    async with world(Place("memory:"), [Agent(name="main", instructions="Never tell.")], Blind()) as here:
        await here.send("hi")
        (started,) = await here.log("run_started")
        id = f"agent:{started.fields['definition']}"
        assert await here.session.crib.store.kept("s", id) is not None
        for read in (here.session.output, here.session.file):
            with pytest.raises(Refused, match="No such"):
                await read(id)


@requirement("agents.media.5")
@pytest.mark.parametrize(
    ("message", "code", "told"),
    [
        ([block("image", data=png(100_000))], "too_large", "The message has 98 KB, more than 98 KB"),
        (["a", 5], "invalid_arguments", "Part 1 of the message is no text and no block"),
        ([{"text": "a"}], "invalid_arguments", "Part 0 of the message is no text and no block"),
        (
            [{"type": "image", "data": "!", "mime_type": "image/png"}],
            "invalid_arguments",
            "Part 0 of the message is no b",
        ),
        (
            [{"type": "image", "output": "0" * 64}],
            "invalid_arguments",
            "Part 0 of the message, a block 'image', has no",
        ),
        ([{"type": "image"}], "invalid_arguments", "Part 0 of the message, a block 'image', has no content"),
    ],
)
async def test_a_message_that_cannot_be_taken_is_refused(message: list[Any], code: str, told: str) -> None:
    async with world(Place("memory:"), MAIN, Blind(), limits=LIMITED) as here:
        with pytest.raises(Refused) as refused:
            await here.send(message)
        assert refused.value.code == code
        assert refused.value.message.startswith(told)
        assert await here.log("message", "run_started") == []


@requirement("agents.media.5")
async def test_a_summary_ends_with_placeholders_of_the_files_that_it_stands_for() -> None:
    agents = [Agent(name="main", model_settings={"window": 2000})]
    script = {"main": [text("a dot"), text("A picture was looked at."), text("ok")]}
    async with world(Place("memory:"), agents, script) as here:
        await here.send([block("image", data=DOT), "What is it?"])
        await here.send("And now? " + "x" * 8000)
        (compacted,) = [one.fields for one in await here.log("compacted")]
        label = f"[image, image/png, {len(DOT)} bytes: shown before]"
        assert compacted["summary"] == f"A picture was looked at.\n{label}"
        assert any(isinstance(part, Media) for one in here.model.requests[1].messages for part in one.parts)
        assert not any(one.parts for one in here.model.requests[2].messages)
