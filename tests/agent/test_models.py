"""Scripts, recordings of models, and many runs at once."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.place import text, world
from tests.requirements import requirement
from tests.session.place import Place
from toolcrib import Crib, testing, tool
from toolcrib.agent import Agent, Agents, CompletionRequest, ScriptedModel, ScriptExhausted, record
from toolcrib.agent.models import Delta, Finish, Message, Model, ModelCall, Reasoning, Text, Usage

MAIN = [Agent(name="main", instructions="M.", sub_agents=["other"], max_turns=60), Agent(name="other", max_turns=60)]


@tool(read_only=True)
async def look(n: int = 0) -> int:
    """Look."""
    return n


def asking(agent: str = "main", **more: Any) -> CompletionRequest:
    return CompletionRequest(agent, None, (Message("user", "x"),), **more)


async def said(model: Any, request: CompletionRequest) -> list[Delta]:
    return [delta async for delta in model.respond(request)]


@requirement("agents.model.1", "agents.model.2")
async def test_a_script_says_its_turns_one_by_one_and_then_no_more() -> None:
    turn = {"text": "abcd", "chunks": 2, "calls": [{"tool": "t", "args": {"a": 1}}], "usage": {"input": 1, "output": 2}}
    model = ScriptedModel({"main": [turn, {"text": "x", "chunks": ["x", ""]}, text("unused")]})
    assert await said(model, asking()) == [
        *(Text("ab"), Text("cd")),
        *(ModelCall("main-1-1", "t", '{"a": 1}'), Usage(1, 2), Finish("calls")),
    ]
    await said(model, asking())
    assert model.left() == {"main": [{"text": "unused"}]}
    await said(model, asking())
    with pytest.raises(ScriptExhausted, match="no turn 4 for agent 'main'") as caught:
        await said(model, asking())
    assert (caught.value.agent, caught.value.turn) == ("main", 4)
    assert len(model.requests) == 4


@requirement("agents.model.2")
async def test_a_run_whose_script_is_over_says_so_without_a_trace(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(place, MAIN, {"main": [text("one")]}) as here:
        await here.send("go")
        outcome = await here.send("on")
    assert (outcome.reason, outcome.code) == ("failed", "internal")
    assert outcome.detail == "The script has no turn 2 for agent 'main': it has 1, so add what it says"
    assert "Traceback" not in caplog.text
    with pytest.raises(ScriptExhausted, match="does not speak for that agent"):
        await said(ScriptedModel({"main": [text("one")]}), asking("nobody"))


@requirement("agents.model.2")
async def test_a_script_goes_on_where_the_log_ends() -> None:
    model = ScriptedModel({"main": [text("1"), text("2"), text("3")]})
    await said(model, asking(process="a"))
    await said(model, asking(process="a", earlier_requests=1))
    assert (await said(model, asking(process="b", earlier_requests=1)))[0] == Text("2")


@requirement("agents.model.2")
@pytest.mark.parametrize("name", ["s.json", "s.yaml"])
async def test_a_script_is_read_from_a_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(json.dumps({"main": [text("hi")]}), "utf-8")
    assert (await said(ScriptedModel.load(path), asking()))[0] == Text("hi")
    with pytest.raises(ValueError, match="'texts'"):
        ScriptedModel({"main": [{"texts": "x"}]})


class Real(Model):
    """A model that thinks for itself: it looks fifty times, and hands over in the middle."""

    async def respond(self, request: CompletionRequest) -> Any:
        turn = sum(one.role == "tool" for one in request.messages)
        yield Reasoning("hm ")
        yield Text(f"turn {turn} ")
        yield Usage(3, 1)
        if turn == 25 and request.agent == "main":
            yield ModelCall("t", "transfer_to_agent", '{"agent_name": "other"}')
        elif turn < 50:
            yield ModelCall(f"c{turn}", "look", f'{{"n": {turn}}}')
        yield Finish("stop")


def stripped(events: list[Any]) -> list[Any]:
    """A log without ids and times."""
    known: dict[str, str] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            hidden = ("duration_ms", "digest", "at", "turn_ms")
            return {name: plain(inner) for name, inner in value.items() if name not in hidden}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        if isinstance(value, str) and value[:1] in "cr" and len(value) > 12:
            head, _, tail = value.partition(":")
            return f"{known.setdefault(head, f'id{len(known)}')}:{tail}"
        return value

    return [(event.kind, plain(event.call or ""), plain(event.fields)) for event in events]


@requirement("agents.model.3")
async def test_a_recorded_run_of_fifty_turns_is_the_same_when_it_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    async with world(Place("memory:"), MAIN, record(Real(), path), look) as here:
        first = await here.send("go")
        before = stripped(await here.log())
    async with world(Place("memory:"), MAIN, ScriptedModel.load(path), look) as here:
        again = await here.send("go")
        after = stripped(await here.log())
        assert here.model.left() == {}
    assert first.turns == 52
    assert (first.answer, first.usage) == (again.answer, again.usage)
    assert after == before


@requirement("agents.run.1")
async def test_a_thousand_runs_go_on_side_by_side() -> None:
    class SlowModel(Model):
        async def respond(self, request: CompletionRequest) -> Any:
            turn = sum(one.role == "tool" for one in request.messages)
            if turn < 2:
                yield ModelCall(f"c{turn}", "look", f'{{"n": {turn}}}')
            else:
                yield Text(request.session)
            yield Finish("stop")

    async with Crib([look], agents=Agents(MAIN, model=SlowModel())) as crib:
        sessions = [await crib.open(f"s{n}", owner="ada") for n in range(1000)]
        outcomes = await asyncio.gather(*(session.send("go") for session in sessions))
        assert all(session.driver.task is None for session in sessions)
    assert [one.answer for one in outcomes] == [f"s{n}" for n in range(1000)]


@requirement("agents.model.2")
async def test_a_recording_keeps_the_errors_of_its_model(place: Place) -> None:
    model = record(ScriptedModel({"main": [{"error": {"code": "denied", "message": "no"}}]}))
    async with world(place, MAIN, model) as here:
        assert (await here.send("x")).code == "denied"
    assert model.script == {"main": [{"error": {"code": "denied", "message": "no"}}]}


@pytest.mark.process
def test_the_models_for_tests_are_in_the_testing_package() -> None:
    assert (testing.ScriptedModel, testing.ScriptExhausted, testing.record) == (ScriptedModel, ScriptExhausted, record)
    code = "import sys, toolcrib.testing; print('toolcrib.agent' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        testing.nothing  # noqa: B018
