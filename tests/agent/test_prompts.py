"""What a model was sent, computed from the log, is what the model really received."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent.pictures import DOT
from tests.agent.place import World, calls, text, world
from tests.requirements import requirement
from tests.session.place import Gate, Place
from tests.shared import nonempty
from toolcrib import Block, Refused, block, tool
from toolcrib.agent import Agent, CompletionRequest, ScriptedModel, loop
from toolcrib.agent.models import Finish, MediaIntake, Message, Model, ModelError, Text
from toolcrib.agent.prompt_view import CHANGED, LOST, UNDER_WAY, UNRECORDED, ModelPrompt, prompt_at
from toolcrib.events import ModelRequestRecord

MAIN = Agent(name="main", instructions="You are main, for {{owner}}.", tools=["*"])


@tool(read_only=True)
async def look(n: int) -> dict[str, int]:
    """Look."""
    return {"n": n}


@tool(read_only=True, output_bytes=2000)
async def long() -> str:
    """Say much."""
    return "long " * 2000


@tool(read_only=True)
async def draw() -> list[Block]:
    """Draw."""
    return [block("text", text="before"), block("image", data=DOT, name="dot.png"), block("text", text="after")]


async def prompts(here: World) -> list[ModelPrompt]:
    """Every request that the log tells of."""
    events = [event for event in await here.log() if getattr(event.data, "request", None) is not None]
    return [await prompt_at(here.session.crib.store, here.session.id, event.seq) for event in events]


def plain(message: Message) -> Any:
    return message.role, message.text, message.calls, message.call, message.kept, message.parts


def compare(shown: list[ModelPrompt], received: list[CompletionRequest]) -> None:
    """Each request of an agent is what its model received, in order."""
    assert len(shown) == len(received)
    for agent in nonempty({request.agent for request in received}):
        mine = [prompt for prompt in shown if prompt.agent == agent]
        theirs = [request for request in received if request.agent == agent]
        for prompt, request in zip(mine, theirs, strict=True):
            system, *rest = request.messages
            assert prompt.instructions == system.text
            assert [plain(one) for one in prompt.messages] == [plain(one) for one in rest]
            assert prompt.tools == list(request.tools)
            assert prompt.exact, prompt.notes


@requirement("console.waterfall.2")
async def test_plain_turns_and_tool_results(place: Place) -> None:
    script = {"main": [calls(("look", {"n": 1}), ("look", {"n": "x"})), text("one"), text("two")]}
    async with world(place, [MAIN], script, look) as here:
        await here.send("first")
        await here.send("second")
        compare(shown := await prompts(here), here.model.requests)
    assert shown[0].instructions == "You are main, for ada."
    assert [(one.same, one.dropped, one.previous) for one in shown] == [
        (0, 0, None),
        (1, 0, shown[0].seq),
        (4, 0, shown[1].seq),
    ]
    assert [(one.purpose, one.turn) for one in shown] == [("turn", 1), ("turn", 2), ("turn", 1)]


async def test_a_turn_tells_of_the_same_request_as_its_reply(place: Place) -> None:
    async with world(place, [MAIN], {"main": [text("one")]}, look) as here:
        await here.send("first")
        (turn,), (prompt,) = await here.log("turn_started"), await prompts(here)
        assert await prompt_at(here.session.crib.store, "s", turn.seq) == prompt
        with pytest.raises(Refused, match="no request"):
            await prompt_at(here.session.crib.store, "s", 1)
        with pytest.raises(Refused, match="no request"):
            await prompt_at(here.session.crib.store, "s", 10_000)


@requirement("console.waterfall.2")
@pytest.mark.parametrize("history", ["full", "summary", "none", {"last": 1}])
async def test_a_handover(place: Place, history: Any) -> None:
    team = [
        Agent(name="main", instructions="M.", sub_agents=["other"], handover={"history": history}, tools=["look"]),
        Agent(name="other", instructions="O.", tools=["look"]),
    ]
    over = calls(("transfer_to_agent", {"agent_name": "other", "reason": "knows"}))
    summary = [text("They want 7.")] if history == "summary" else []
    script = {"main": [calls(("look", {"n": 1})), over, *summary], "other": [calls(("look", {"n": 2})), text("done")]}
    async with world(place, team, script, look) as here:
        assert (await here.send("hello")).answer == "done"
        compare(shown := await prompts(here), here.model.requests)
    assert [one.agent for one in shown][-2:] == ["other", "other"]
    assert ("summary" in {one.purpose for one in shown}) == (history == "summary")


@requirement("console.waterfall.2")
async def test_a_sub_agent(place: Place) -> None:
    team = [
        Agent(name="main", instructions="M.", sub_agents=["helper"]),
        Agent(name="helper", instructions="H.", tools=["look"]),
    ]
    ask = calls(("call_agent", {"agent": "helper", "prompt": "look at 2"}))
    script = {"main": [ask, text("done")], "helper": [calls(("look", {"n": 2})), text("two")]}
    async with world(place, team, script, look) as here:
        await here.send("hello")
        compare(shown := await prompts(here), here.model.requests)
    helper = [one for one in shown if one.agent == "helper"]
    assert [(one.messages[0].text, one.same) for one in helper] == [("look at 2", 0), ("look at 2", 1)]


@requirement("console.waterfall.2")
async def test_a_long_conversation_that_was_summarised(place: Place) -> None:
    given = [Agent(name="main", instructions="M.", model_settings={"window": 100})]
    script = {"main": [text("a" * 200), text("b" * 200), text("SUMMARY"), text("c")]}
    async with world(place, given, script) as here:
        for said in ("1" * 100, "2" * 100, "3"):
            await here.send(said)
        assert await here.log("compacted")
        compare(shown := await prompts(here), here.model.requests)
    (summary,) = (one for one in shown if one.purpose == "summary")
    assert summary.messages[-1].text.startswith("Summarise")
    assert (shown[-1].same, shown[-1].dropped) == (0, 3)
    assert shown[-1].messages[0].text == "SUMMARY"


class Reader(Model):
    """A model that takes images, or refuses what it was sent first."""

    def __init__(self, takes: tuple[str, ...], refuses: int = 0) -> None:
        self.requests: list[CompletionRequest] = []
        self.intake = MediaIntake(frozenset(takes), 2**20, 2**20)
        self.refuses = refuses

    async def media(self, settings: Any) -> MediaIntake:
        return self.intake

    async def respond(self, request: CompletionRequest) -> Any:
        if self.refuses:
            self.refuses -= 1
            raise ModelError("invalid_arguments", "no pictures please")
        self.requests.append(request)
        yield Text("seen")
        yield Finish("stop")


@requirement("console.waterfall.2")
@pytest.mark.parametrize(("takes", "refuses"), [(("image/*",), 0), ((), 0), (("image/*",), 1)])
async def test_images_and_other_files(place: Place, takes: tuple[str, ...], refuses: int) -> None:
    model = Reader(takes, refuses)
    async with world(place, [MAIN], model, draw) as here:
        note = block("file", data=b"a,b", mime_type="text/csv", name="a.csv")
        await here.send(["look", block("image", data=DOT, name="dot.png"), note])
        await here.send("again")
        compare(await prompts(here), model.requests)


async def test_an_image_of_a_tool(place: Place) -> None:
    script = {"main": [calls(("draw", {})), text("seen"), text("again")]}
    async with world(place, [MAIN], script, draw) as here:
        await here.send("draw")
        await here.send("again")
        compare(shown := await prompts(here), here.model.requests)
    assert shown[1].messages[-1].parts


@requirement("console.waterfall.2")
async def test_output_that_was_spilled(place: Place) -> None:
    script = {"main": [calls(("long", {})), text("so long"), text("again")]}
    async with world(place, [MAIN], script, long) as here:
        await here.send("say it")
        await here.send("again")
        compare(shown := await prompts(here), here.model.requests)
    assert len(shown[1].messages[-1].text) < 5000
    assert shown[1].tools_before is not None  # it can read the output from then on
    assert "read_output" in {one.name for one in shown[1].tools or ()} - set(shown[1].tools_before)


@requirement("console.waterfall.2")
async def test_a_restart(file_place: Place) -> None:
    script = {"main": [calls(("look", {"n": 1})), text("one"), text("two")]}
    async with world(file_place, [MAIN], script, look) as here:
        await here.send("first")
        received = here.model.requests
    changed = Agent(name="main", instructions="You are another.", tools=["*"])
    async with world(file_place, [changed], script, look, long) as here:
        await here.send("second")
        compare(shown := await prompts(here), [*received, *here.model.requests])
    assert (shown[-1].instructions_before, shown[-1].instructions) == ("You are main, for ada.", "You are another.")


async def test_background_results_messages_meanwhile_and_interruptions(place: Place) -> None:
    gate = Gate()

    @tool(background=True)
    async def job(word: str) -> str:
        """Take long."""
        await gate.passed()
        return word

    script = {"main": [calls(("job", {"word": "w"})), text("started"), text("done")]}
    async with world(place, [MAIN], script, job) as here:
        await here.send("go")
        gate.opened.set()
        await here.seen("done")
        await here.session.set_user({"address": "0xabc"})
        await here.session.set_user({"address": "0xdef"})
        await here.send("more")
        compare(await prompts(here), here.model.requests)


async def test_a_model_that_failed_tells_what_it_was_asked(place: Place) -> None:
    script = {"main": [{"error": {"code": "denied", "message": "no"}}]}
    async with world(place, [MAIN], script, look) as here:
        assert (await here.send("first")).reason == "failed"
        (turn,) = await here.log("turn_started")
        prompt = await prompt_at(here.session.crib.store, "s", turn.seq)
        assert prompt.exact
        assert [one.text for one in prompt.messages] == ["first"]
        assert prompt.instructions == "You are main, for ada."


class Slow(ScriptedModel):
    """A model that replies when it is let."""

    def __init__(self, script: Any) -> None:
        super().__init__(script)
        self.gate = Gate()

    async def respond(self, request: CompletionRequest) -> Any:
        await self.gate.passed()
        async for delta in super().respond(request):
            yield delta


async def test_a_request_under_way_shows_its_messages_and_says_what_is_not_known_yet(place: Place) -> None:
    async with world(place, [MAIN], Slow({"main": [text("one")]}), look) as here:
        sent = asyncio.create_task(here.send("first"))
        await here.model.gate.wait()
        (turn,) = await here.log("turn_started")
        prompt = await prompt_at(here.session.crib.store, "s", turn.seq)
        assert [one.text for one in prompt.messages] == ["first"]
        assert (prompt.exact, prompt.notes, prompt.instructions) == (False, [UNDER_WAY], None)
        here.model.gate.opened.set()
        await sent


async def test_a_prompt_that_cannot_be_told_exactly_says_why(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = ModelRequestRecord(4, "0" * 32, "0" * 32, "0" * 32)

    async def other(self: Any) -> ModelRequestRecord | None:
        return None if self.driver.conversation.foreground_runs == 1 else changed

    monkeypatch.setattr(loop.Loop, "_recorded", other)
    async with world(place, [MAIN], {"main": [text("one"), text("two")]}, look) as here:
        await here.send("first")
        await here.send("second")
        old, odd = [await prompt_at(here.session.crib.store, "s", e.seq) for e in await here.log("turn_started")]
    assert (old.exact, old.notes) == (False, [UNRECORDED])
    assert (odd.exact, odd.notes) == (False, [LOST, CHANGED])
